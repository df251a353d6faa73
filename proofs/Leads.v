(** The error of attention, and of leads: if all margins are positive, the due token leads in every
    result that [float_pass] allows. *)

From Coq Require Import List Arith ZArith Reals Bool Lia Lra.
From Carry Require Import Decoding Windows Transformer Float32 Related Tables Lengths Margins
  Errors.
Import ListNotations.
Local Open Scope R_scope.

(** * Attention *)

(** Weights that are off by factors, at most exp e: the mean is off by little. *)
Section Mean.
  Context {X : Type} (data : list X) (l : list nat).
  Variables (weight weight' : X -> R) (value value' : X -> nat -> R) (z z' : nat -> R).
  Variables (e error long a b : R).
  Hypothesis some : 0 < Sum data weight.
  Hypothesis positive : forall x, In x data -> 0 < weight x.
  Hypothesis weights_near : forall x, In x data ->
    exists t, Rabs t <= e /\ weight' x = weight x * exp t.
  Hypothesis values_near : forall x, In x data ->
    Len l (fun i => value' x i - value x i) <= error.
  Hypothesis lengths : forall x, In x data -> Len l (value' x) <= long.
  Hypothesis a_pos : 0 <= a.
  Hypothesis b_pos : 0 <= b.
  Hypothesis mean : forall i, In i l ->
    z i = Sum data (fun x => weight x * value x i) / Sum data weight.
  Hypothesis rounded : forall i, In i l ->
    Rabs (z' i - Sum data (fun x => weight' x * value' x i) / Sum data weight')
    <= a * (Sum data (fun x => weight' x * Rabs (value' x i)) / Sum data weight')
       + b * Sum data (fun x => Rabs (value' x i)).

  Notation W := (Sum data weight).
  Notation W' := (Sum data weight').
  Notation y i := (Sum data (fun x => weight' x * value' x i) / W').
  Notation c i := (Sum data (fun x => weight' x * value x i) / W').

  Lemma weight_bounds x : In x data -> weight x <= exp e * weight' x
    /\ Rabs (weight' x - weight x) <= weight x * (exp e - 1) /\ 0 <= weight' x.
  Proof.
    intros H. destruct (weights_near x H) as (t & Ht & ->). specialize (positive x H).
    assert (I : exp t * exp (- t) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    assert (Ht' : t <= e /\ - t <= e) by (split; absolute). destruct Ht' as [Ht1 Ht2].
    apply exp_le in Ht1, Ht2. pose proof (exp_pos t). pose proof (exp_pos (- t)).
    assert (exp t * exp (- t) <= exp t * exp e) by (apply Rmult_le_compat_l; lra).
    assert (0 <= (exp t - 1) * (exp t - 1)) by pos.
    split; [|split; [|pos]].
    - assert (D : weight x * (exp t * exp (- t)) <= weight x * (exp t * exp e))
        by (apply Rmult_le_compat_l; lra). rewrite I in D. lra.
    - replace (weight x * exp t - weight x) with (weight x * (exp t - 1)) by ring.
      rewrite Rabs_mult, Rabs_right by lra. apply Rmult_le_compat_l; [lra|].
      assert (1 - exp t <= exp (- t) - 1) by nra. absolute.
  Qed.
  Lemma total_bounds : W <= exp e * W' /\ 0 < W'.
  Proof.
    assert (H : W <= exp e * W') by (rewrite <- Sum_scale; apply Sum_le; apply weight_bounds).
    split; [exact H|]. apply Rnot_le_lt. intros N. pose proof (exp_pos e). nra.
  Qed.
  Lemma share_pos x : In x data -> 0 <= weight' x / W'.
  Proof. intros H. destruct total_bounds. pose proof (weight_bounds x H) as (_ & _ & P). pos. Qed.
  Lemma shares : Sum data (fun x => weight' x / W') = 1.
  Proof. rewrite Sum_div. destruct total_bounds. field. lra. Qed.

  (** The errors of roundings, of values, and of weights. *)
  Lemma mean_roundings : Len l (fun i => z' i - y i) <= (a + b * IZR (Z.of_nat (length data)))
    * long.
  Proof.
    apply Rle_trans with (Sum data (fun x => (a * (weight' x / W') + b) * Len l (value' x))).
    - apply Len_terms; [intros x Hx; pose proof (share_pos x Hx); pos|]. intros i Hi.
      eapply Rle_trans; [apply rounded, Hi|]. rewrite <- Sum_div, <- !Sum_scale, <- Sum_plus.
      apply Req_le, Sum_ext. intros. unfold Rdiv. ring.
    - replace (a + b * IZR (Z.of_nat (length data)))
        with (Sum data (fun x => a * (weight' x / W') + b))
        by (rewrite Sum_plus, Sum_scale, shares, Sum_const; ring).
      rewrite Rmult_comm, <- Sum_scale. apply Sum_le. intros x Hx. rewrite Rmult_comm.
      pose proof (share_pos x Hx).
      apply Rmult_le_compat_r; [pos|apply lengths, Hx].
  Qed.
  Lemma mean_values : Len l (fun i => y i - c i) <= error.
  Proof.
    apply Rle_trans with (Sum data (fun x => weight' x / W'
      * Len l (fun i => value' x i - value x i))).
    - apply Len_terms; [exact share_pos|]. intros i Hi. rewrite <- !Sum_div.
      match goal with |- Rabs (?s - ?t) <= _ => replace (s - t) with (s + -1 * t) by ring end.
      rewrite <- Sum_scale, <- Sum_plus. eapply Rle_trans; [apply Sum_abs|]. apply Sum_le.
      intros x Hx. pose proof (share_pos x Hx).
      rewrite <- (Rabs_right (weight' x / W')), <- Rabs_mult by lra.
      apply Req_le. f_equal. unfold Rdiv. ring.
    - rewrite <- (Rmult_1_r error), <- shares, <- Sum_scale. apply Sum_le. intros x Hx.
      rewrite Rmult_comm.
      apply Rmult_le_compat_r; [apply share_pos, Hx|apply values_near, Hx].
  Qed.
  Lemma mean_weights : Len l (fun i => c i - z i)
    <= exp e * (exp e - 1) * (Sum data (fun x => weight x * Len l (fun i => value x i - z i)) / W).
  Proof.
    destruct total_bounds as [HW PW].
    apply Rle_trans with (Sum data (fun x => Rabs (weight' x - weight x) / W'
      * Len l (fun i => value x i - z i))).
    - apply Len_terms; [intros; pos|]. intros i Hi.
      replace (c i - z i) with (Sum data (fun x => (weight' x - weight x) / W'
        * (value x i - z i))).
      + eapply Rle_trans; [apply Sum_abs|]. apply Req_le, Sum_ext. intros x Hx. unfold Rdiv.
        rewrite !Rabs_mult, (Rabs_right (/ W')) by (apply Rle_ge; pos). reflexivity.
      + assert (E : Sum data (fun x => weight x * value x i) = z i * W)
          by (rewrite (mean i Hi); field; lra).
        rewrite (Sum_ext data _ (fun x => (weight' x * value x i + - z i * weight' x
          + (-1 * (weight x * value x i) + z i * weight x)) / W')) by (intros; field; lra).
        rewrite Sum_div, !Sum_plus, !Sum_scale, E. field. lra.
    - rewrite <- Sum_div, <- Sum_scale. apply Sum_le. intros x Hx. pose proof (positive x Hx).
      pose proof (weight_bounds x Hx) as (_ & P & _).
      assert (D : / W' <= exp e / W).
      { apply le_div; [exact some|]. apply (Rmult_le_reg_l W'); [exact PW|].
        rewrite <- Rmult_assoc, Rinv_r; lra. }
      replace (exp e * (exp e - 1) * _) with (weight x * (exp e - 1) * (exp e / W)
        * Len l (fun i => value x i - z i)) by (field; lra). unfold Rdiv at 1. mono.
  Qed.

  Lemma mean_within : Len l (fun i => z' i - z i)
    <= exp e * (exp e - 1) * (Sum data (fun x => weight x * Len l (fun i => value x i - z i)) / W)
       + error + (a + b * IZR (Z.of_nat (length data))) * long.
  Proof.
    rewrite (Len_ext l _ (fun i => z' i - y i + (y i - c i + (c i - z i)))) by (intros; ring).
    eapply Rle_trans; [apply Len_plus|].
    pose proof (Len_plus l (fun i => y i - c i) (fun i => c i - z i)).
    pose proof mean_roundings. pose proof mean_values. pose proof mean_weights. lra.
  Qed.
End Mean.

Lemma dot_near b c x y : within b x -> within c y ->
  Rabs (dot_ x y - dot_ (fst b) (fst c)) <= snd b * reach reals c + reach reals b * snd c.
Proof.
  intros Hx Hy. pose proof (within_reach _ _ Hy) as Ry. pose proof (within_error _ _ Hx).
  destruct Hx as [Lx Hx]. destruct Hy as [Ly Hy].
  replace (dot_ x y - dot_ (fst b) (fst c))
    with (dot_ (minus x (fst b)) y + dot_ (fst b) (minus y (fst c)))
    by (rewrite (dot_comm (minus _ _)), !dot_minus, !(dot_comm y) by assumption; ring).
  eapply Rle_trans; [apply Rabs_triang|].
  assert (Size (fst b) <= reach reals b) by (unfold reach; cbn [reals add]; lra).
  apply Rplus_le_compat; (eapply Rle_trans; [apply dot_le|mono]).
Qed.
Lemma plus_zeros (a : affine R) x : map2 Rplus (Zeros (snd a)) (apply reals a x) = apply reals a x.
Proof.
  unfold apply, map2, zeros. generalize (map (fun row => dot_ row x) (fst a)).
  induction (snd a) as [|o b IH]; intros [|r l]; cbn; try reflexivity. f_equal; [lra|apply IH].
Qed.

Section Head.
  Variables (w : weights R) (h : head R) (q : token) (keys : list key) (z : list R) (size_ : nat).
  Notation source_ball t :=
    (norm_ball reals real_tools (before_attention w) (Exactly (embedding w t))).
  Let parts := parts_of reals size_ (tabulate size_ (source reals w)) h.
  Let d := doubts_of reals real_tools size_ (tabulate size_ (fun t => source_ball t)) h.
  Hypothesis steady : forall t, In t (q :: map fst keys) ->
    0 < steadiness reals real_tools (Exactly (embedding w t)).

  (** An affine map of the source of a token, in float32. *)
  Definition through (a : affine R) (t : token) : ball R :=
    affine_ball reals a (Known_of a) (source_ball t) (Exactly (Zeros (snd a))).
  Lemma through_within a t s y : In t (q :: map fst keys) ->
    norms (before_attention w) (embedding w t) s -> affines a s (nothing a) y ->
    within (through a t) y.
  Proof.
    intros Ht Hs Hy. apply (affine_within a s (Zeros (snd a))); [|apply within_exactly|].
    - exact (norm_within _ _ _ _ (within_exactly _) (steady t Ht) Hs).
    - apply affines_nothing, Hy.
  Qed.
  Lemma through_is a t : fst (through a t) = apply reals a (source reals w t).
  Proof. apply plus_zeros. Qed.

  Variables (s qv : list R) (data : list datum).
  Hypothesis Hs : norms (before_attention w) (embedding w q) s.
  Hypothesis Hq : affines (query h) s (nothing (query h)) qv.
  Hypothesis Hkeys : map d_key data = keys.
  Hypothesis Hdata : Forall (computes w h qv data) data.

  Lemma most_bounds a f x : In x data
    -> (forall t, f t = (reach reals (through a t), snd (through a t))) ->
    reach reals (through a (fst (d_key x))) <= fst (most reals f keys)
    /\ snd (through a (fst (d_key x))) <= snd (most reals f keys).
  Proof.
    intros Hx E. apply (in_map d_key) in Hx. rewrite Hkeys in Hx.
    split; apply largest_in, in_map_iff; exists (d_key x); rewrite E; auto.
  Qed.
  Lemma known_through a t : tabulate size_ (fun t =>
      let b := affine_ball reals a (Known_of a) (tabulate size_ (fun t => source_ball t) t)
        (Exactly (Zeros (snd a))) in (reach reals b, snd b)) t
    = (reach reals (through a t), snd (through a t)).
  Proof. rewrite !tabulate_eq. reflexivity. Qed.

  Let Q := through (query h) q.
  Let K := most reals (of_key d) keys.
  Let iw := / scale d.
  Let gross := reach reals Q * fst K * iw + largest_bias d.
  Let score_error := times (score_units d) * gross + tiny.

  Lemma bias_bound (k : key) : magnitude (map (fun br => 8 * nth (snd br) (fst br) 0)
    (combine (biases h) (snd k))) <= largest_bias d.
  Proof.
    unfold magnitude. cbn [d doubts_of largest_bias]. generalize (snd k). unfold sum.
    induction (biases h) as [|level levels IH]; intros r; [apply Rle_refl|].
    assert (0 <= fold_right Rplus 0 (map (fun level => 8 * largest reals level) levels))
      by (apply (Sum_pos levels); intros; pose proof (largest_pos i); lra).
    cbn [map fold_right reals add mul of_Z] in *. pose proof (largest_pos level).
    destruct r as [|r rows]; cbn [combine map fold_right fst snd]; [cbn; lra|].
    rewrite Rabs_mult, (Rabs_right 8) by lra. pose proof (largest_bounds level r).
    apply Rplus_le_compat; [lra|apply IH].
  Qed.

  Lemma score_near x : In x data ->
    Rabs (d_score x - score reals w h q (d_key x)) <= (snd Q * fst K + reach reals Q * snd K) * iw
      + score_error
    /\ Rabs (d_score x) <= gross + score_error.
  Proof.
    intros Hx. pose proof Hdata as Hd. rewrite Forall_forall in Hd.
    destruct (Hd x Hx) as (s' & k & Hs' & Hk & _ & Hscore & _). cbv zeta in Hscore.
    assert (Ht : In (fst (d_key x)) (q :: map fst keys))
      by (right; apply in_map; rewrite <- Hkeys; apply in_map, Hx).
    pose proof (through_within _ _ _ _ (or_introl eq_refl) Hs Hq) as Bq. fold Q in Bq.
    pose proof (through_within _ _ _ _ Ht Hs' Hk) as Bk.
    pose proof (dot_near _ _ _ _ Bq Bk) as D. unfold Q in D at 1. rewrite !through_is in D.
    destruct (most_bounds _ (of_key d) _ Hx (known_through (key_map h))) as [Mk Ek].
    fold K in Mk, Ek.
    pose proof (within_reach _ _ Bq) as Rq. pose proof (within_reach _ _ Bk) as Rk.
    pose proof (within_error _ _ Bq). pose proof (within_error _ _ Bk).
    pose proof (size_pos qv). pose proof (size_pos k).
    assert (Hi : 0 <= iw) by apply inverse_pos, sqrt_pos.
    pose proof (bias_bound (d_key x)) as HB. unfold Rdiv in Hscore.
    change (sqrt (IZR (Z.of_nat (length (snd (query h)))))) with (scale d) in Hscore.
    fold iw in Hscore.
    set (biases := map _ (combine _ _)) in *. pose proof (magnitude_bounds biases).
    set (ps := products qv k) in *. pose proof (products_le qv k) as Hp. fold ps in Hp.
    assert (M : magnitude ps * iw <= reach reals Q * fst K * iw).
    { apply Rmult_le_compat_r; [exact Hi|]. eapply Rle_trans; [exact Hp|].
      pose proof (Rle_trans _ _ _ Rk Mk). mono. }
    assert (D' : Rabs (total ps * iw) <= magnitude ps * iw).
    { rewrite Rabs_mult, (Rabs_right iw) by lra. apply Rmult_le_compat_r;
        [exact Hi|]. apply magnitude_bounds. }
    assert (HE : times (4 * length (snd (query h)) * S (length biases) + 60)
        * (magnitude ps * iw + magnitude biases) + tiny <= score_error).
    { assert (times (4 * length (snd (query h)) * S (length biases) + 60) <= times (score_units d)).
      { apply times_le. cbn [score_units d doubts_of]. unfold biases. rewrite map_length,
          combine_length. nia. }
      assert (magnitude ps * iw + magnitude biases <= gross) by (unfold gross; lra).
      unfold score_error. mono. }
    assert (Hd' : Rabs (d_score x - (total ps * iw + total biases)) <= score_error) by lra.
    split; [|clear D; unfold gross in *; absolute].
    assert (D2 : Rabs (total ps * iw - dot_ (apply reals (query h) (source reals w q))
      (apply reals (key_map h) (source reals w (fst (d_key x)))) * iw)
      <= (snd Q * fst K + reach reals Q * snd K) * iw).
    { rewrite <- Rmult_minus_distr_r, Rabs_mult, (Rabs_right iw) by lra. apply Rmult_le_compat_r;
        [exact Hi|].
      eapply Rle_trans; [exact D|]. mono. }
    change (score reals w h q (d_key x)) with (dot_ (apply reals (query h) (source reals w q))
      (apply reals (key_map h) (source reals w (fst (d_key x)))) * iw + total biases).
    clear - Hd' D2. absolute.
  Qed.

  Lemma weight_near x : In x data -> exists t, Rabs t <= shift reals real_tools d q keys
    /\ d_weight x = exp (score reals w h q (d_key x)) * exp t.
  Proof.
    intros Hx. destruct (score_near x Hx) as [Sx Ax]. pose proof Hdata as Hd.
    rewrite Forall_forall in Hd.
    destruct (Hd x Hx) as (_ & _ & _ & _ & _ & _ & y & e & Hy & Hw & He).
    destruct (score_near y Hy) as [_ Ay]. rewrite <- (map_length d_key data), Hkeys in He.
    exists (d_score x - score reals w h q (d_key x) + e). split.
    - replace (shift reals real_tools d q keys) with ((snd Q * fst K + reach reals Q * snd K) * iw
        + score_error + times 16 * (2 * (gross + score_error)) + times (64 + 10 * length keys))
        by (unfold shift; unfold shift; change (of_query d q) with (tabulate size_ (fun t =>
          let b := affine_ball reals (query h) (Known_of (query h))
            (tabulate size_ (fun t => source_ball t) t)
        (Exactly (Zeros (snd (query h)))) in (reach reals b, snd b)) q); rewrite known_through;
          reflexivity).
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (times_pos 16).
      assert (times 16 * (Rabs (d_score x) + Rabs (d_score y))
        <= times 16 * (2 * (gross + score_error)))
        by (apply Rmult_le_compat_l; lra). lra.
    - rewrite Hw, <- exp_plus. f_equal. ring.
  Qed.
  Hypothesis Hlen : length z = length (snd (value h)).
  Hypothesis some : keys <> [].
  Hypothesis Hz : forall i, (i < length z)%nat ->
    let all := total (map d_weight data) in
    let value x := nth i (d_value x) 0 in
    Rabs (nth i z 0 - total (map (fun x => d_weight x * value x) data) / all)
    <= times (4 * length data + 24)
       * (total (map (fun x => d_weight x * Rabs (value x)) data) / all)
       + IZR (Z.of_nat (length data)) / IZR (2 ^ 50)
         * total (map (fun x => Rabs (value x)) data).
  Let weight k := exp (score reals w h q k).
  Let value_at (k : key) i := at_ (apply reals (value h) (source reals w (fst k))) i.
  Let indices := seq 0 (length z).

  Lemma attended_is : attended_head reals q keys parts
    = map (fun i => Sum keys (fun k => weight k * value_at k i) / Sum keys weight) indices.
  Proof.
    unfold attended_head. rewrite map_map. cbn [fst].
    rewrite (map_ext _ _ (weight_of_tables w size_ h q)),
      (map_ext _ (fun k => (weight k, map (value_at k) indices))).
    - unfold indices. rewrite Hlen. change (width parts) with (length (snd (value h))).
      rewrite weighted_is_sum, map_map. reflexivity.
    - intros k. unfold parts. rewrite weight_of_tables. cbn [of_value parts_of].
      rewrite !tabulate_eq.
      unfold indices. rewrite Hlen. reflexivity.
  Qed.

  Lemma head_within : within (head_ball reals real_tools q keys (parts, d)) z.
  Proof.
    assert (E1 : length z = length (attended_head reals q keys parts))
      by (rewrite attended_is; unfold indices; rewrite map_length, seq_length; reflexivity).
    apply within_by; [exact E1|]. unfold head_ball. cbv zeta. cbn [fst snd].
    set (ref := attended_head reals q keys parts) in *.
    assert (Hv : forall x, In x data -> within (through (value h) (fst (d_key x))) (d_value x)).
    { intros x Hx. pose proof Hdata as Hd. rewrite Forall_forall in Hd.
      destruct (Hd x Hx) as (s' & k & Hs' & _ & Hv & _). refine (through_within _ _ _ _ _ Hs' Hv).
      right. apply in_map. rewrite <- Hkeys. apply in_map, Hx. }
    assert (SK : forall f, Sum keys f = Sum data (fun x => f (d_key x)))
      by (intros f; unfold Sum; rewrite <- Hkeys, map_map; reflexivity).
    assert (P : 0 < Sum data (fun x => weight (d_key x))).
    { rewrite <- (SK weight). destruct keys as [|k l]; [contradiction|]. rewrite Sum_cons.
      pose proof (exp_pos (score reals w h q k)).
      pose proof (Sum_pos l weight (fun i _ => exp_pos' _)). unfold weight in *. lra. }
    assert (ES : spread reals parts q keys ref = Sum data (fun x => weight (d_key x)
      * Len indices (fun i => value_at (d_key x) i - at_ ref i)) / Sum data
          (fun x => weight (d_key x))).
    { change (spread reals parts q keys ref) with (Sum keys (fun k => weight_of reals parts q k
        * Size (minus (of_value parts (fst k)) ref)) / Sum keys (weight_of reals parts q)).
      rewrite !SK. f_equal; apply Sum_ext; intros x _; unfold parts; rewrite weight_of_tables;
        [|reflexivity].
      f_equal. cbn [of_value parts_of]. rewrite !tabulate_eq, <- Hlen. cbv zeta.
      rewrite size_minus, map_length, seq_length by (rewrite map_length, seq_length; exact E1).
      apply Len_ext. intros i Hi. apply in_seq in Hi.
      rewrite (nth_map _ _ _ 0%nat), seq_nth by (rewrite ?seq_length; lia). reflexivity. }
    rewrite ES. set (long := most reals (of_value_ d) keys).
    assert (HM : forall x, In x data -> _) by (intros x Hx;
      exact (most_bounds _ (of_value_ d) x Hx (known_through (value h)))). fold long in HM.
    rewrite <- (map_length d_key data), Hkeys in Hz.
    eapply Rle_trans; [eapply (mean_within data indices (fun x => weight (d_key x)) d_weight
      (fun x => value_at (d_key x)) (fun x i => at_ (d_value x) i) (fun i => at_ ref i) _
      (shift reals real_tools d q keys) (snd long) (fst long)
      (times (4 * length keys + 24)) (IZR (Z.of_nat (length keys)) / IZR (2 ^ 50)))|].
    - exact P.
    - intros x _. apply exp_pos.
    - exact weight_near.
    - intros x Hx. pose proof (Len_minus _ _ (proj1 (Hv x Hx)) (length z)) as V.
      rewrite through_is in V.
      eapply Rle_trans; [exact V|]. rewrite <- through_is.
      eapply Rle_trans; [apply Hv, Hx|apply HM, Hx].
    - intros x Hx. eapply Rle_trans; [apply Len_nth|].
      eapply Rle_trans; [apply (within_reach _ _ (Hv x Hx))|apply HM, Hx].
    - pos.
    - apply Rmult_le_pos; [pos|]. apply inverse_pos, IZR_le. discriminate.
    - intros i Hi. apply in_seq in Hi. unfold ref. rewrite attended_is. unfold indices.
      rewrite (nth_map _ _ _ 0%nat), seq_nth, !SK by (rewrite ?seq_length; lia). reflexivity.
    - intros i Hi. apply in_seq in Hi. apply Hz. lia.
    - rewrite <- (map_length d_key data), Hkeys. apply Rle_refl.
  Qed.
End Head.

(** * The due token leads *)

Section Leads.
  Variables (w : weights R) (last : ball R) (x l : list R) (y : token).
  Notation W := (logits w).
  Notation known := (Known_of (without_bias reals W)).
  Hypothesis Hx : within last x.
  Hypothesis Hl : Forall2 (fun row r => dots row x [] r) W l.
  Hypothesis same : forall v, (v < length W)%nat -> length (nth v W []) = length (hd [] W).
  Hypothesis Hy : (y < length W)%nat.

  Lemma logit_error v : (v < length l)%nat -> Rabs (at_ l v - dot_ (nth v W []) x)
    <= roundings reals known last (Exactly (Zeros W)).
  Proof.
    intros Hv. pose proof (affines_without_bias _ _ _ Hl) as H.
    apply (affine_within _ _ _ _ _ _ (within_exactly x) (within_exactly (Zeros W))) in H.
    destruct H as [HL H]. assert (Z : forall i, at_ (Zeros W) i = 0)
      by (generalize W; intros ls; induction ls; intros [|i]; cbn; auto).
    set (b := affine_ball _ _ _ _ _) in *.
    pose proof (Len_at _ (fun i => at_ l i - at_ (fst b) i) v
      (proj2 (in_seq _ _ _) (conj (Nat.le_0_l v) Hv))) as A. cbv beta in A.
    replace (at_ (fst b) v) with (dot_ (nth v W []) x) in A.
    - eapply Rle_trans; [exact A|]. eapply Rle_trans; [apply Len_minus, HL|].
      eapply Rle_trans; [exact H|].
      pose proof (within_reach _ _ Hx) as HX. unfold b. cbn [affine_ball snd exactly].
      change (zero reals) with 0.
      cbn [reals mul add]. rewrite Rmult_0_r, !Rplus_0_l.
      apply Rplus_le_compat_r, Rmult_le_compat_l; [apply growth_pos|].
      apply Rplus_le_compat_r, Rplus_le_compat_r, Rmult_le_compat_l; [apply size_pos|].
      unfold reach at 1. cbn [fst snd exactly reals add]. change (zero reals) with 0. lra.
    - symmetry. etransitivity; [apply (at_affine (without_bias reals W) x (Zeros W) v)|].
      + rewrite HL in Hv. exact Hv.
      + cbn [without_bias fst snd]. rewrite Z. ring.
  Qed.

  Lemma leads_right : Forall (Rlt 0) (leads reals w (knowledge_of reals real_tools w) last y) ->
    leads_by 0 l y.
  Proof.
    intros H. assert (L : length W = length l) by exact (Forall2_length _ _ _ Hl).
    split; [lia|]. intros v Hv Hne. rewrite Forall_forall in H.
    pose proof (logit_error v Hv) as Ev. pose proof (logit_error y ltac:(lia)) as Ey.
    assert (Hin : In v (filter (fun v => negb (v =? y)) (seq 0 (length (rows W (fst last))))))
      by (rewrite length_rows; apply filter_In; rewrite in_seq, negb_true_iff, Nat.eqb_neq; lia).
    specialize (H _ (in_map _ _ v Hin)). cbn [reals sub mul add of_Z] in H.
    change (zero reals) with 0 in H.
    cbn [knowledge_of of_logits distances known_of k_rows multiply real_tools without_bias fst]
      in H.
    rewrite !nth_rows, (nth_map _ W y []), (nth_map _ W v []) in H by lia.
    change (map2 (sub reals)) with minus in H.
    fold (without_bias reals W) in H. change (known_of _ _ _) with known in H.
    pose proof (dot_le (minus (nth y W []) (nth v W [])) (minus x (fst last))) as D.
    rewrite dot_minus in D by apply Hx.
    rewrite !(dot_comm (minus _ _)), !dot_minus, !(dot_comm x), !(dot_comm (fst last)) in D
      by (rewrite !same; lia).
    assert (D' : Size (minus (nth y W []) (nth v W [])) * Size (minus x (fst last))
      <= Size (minus (nth y W []) (nth v W [])) * snd last)
      by (apply Rmult_le_compat_l; [pos|apply Hx]).
    clear - Ev Ey H D D'. absolute.
  Qed.
End Leads.

Theorem margins_right w q keys l y :
  (forall v, (v < length (logits w))%nat -> length (nth v (logits w) [])
    = length (hd [] (logits w))) ->
  (y < length (logits w))%nat ->
  Forall (Rlt 0) (margins reals real_tools w (knowledge_of reals real_tools w) (q, keys, y)) ->
  float_pass w q keys l -> leads_by 0 l y.
Proof.
  intros same Hy M (zs & x & n1 & u & h & last & H1 & H2 & H3 & H4 & H5 & H6 & H7).
  unfold margins in M. cbv zeta in M. rewrite Forall_cons_iff, Forall_app, !Forall_cons_iff in M.
  destruct M as (Hkeys & Hsource & M1 & M2 & M3). rewrite Forall_forall in Hsource.
  assert (Z : within (heads_ball reals real_tools (knowledge_of reals real_tools w) q keys)
    (concat zs)).
  { apply concat_within. cbn [knowledge_of of_heads]. rewrite map_map.
    assert (steady : forall t, In t (q :: map fst keys) ->
      0 < steadiness reals real_tools (Exactly (embedding w t))).
    { intros t Ht. specialize (Hsource _ (in_map _ _ _ Ht)). cbn [knowledge_of of_source] in
        Hsource.
      rewrite tabulate_eq in Hsource. exact Hsource. }
    assert (some : keys <> []) by (intros ->; apply (Rlt_irrefl 0), Hkeys).
    clear H2. induction H1 as [|head z hs zs (s & qv & data & Hs & Hq & Hk & Hd & Hlen & Hz) _ IH];
      [constructor|]. cbn [map]. constructor; [|exact IH].
    exact (head_within w head q keys z _ steady s qv data Hs Hq Hk Hd Hlen some Hz). }
  pose proof (affine_within _ _ _ _ _ _ Z (within_exactly _) H2) as Hx.
  pose proof (norm_within _ _ _ _ Hx M1 H3) as Hn.
  pose proof (affine_within _ _ _ _ _ _ Hn (within_exactly _) (affines_nothing _ _ _ H4)) as Hu.
  pose proof (affine_within _ _ _ _ _ _ (relu_within _ _ Hu) Hx H5) as Hh.
  exact (leads_right _ _ _ _ _ (norm_within _ _ _ _ Hh M2 H6) H7 same Hy M3).
Qed.
