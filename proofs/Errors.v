(** The errors of float32 in sums, affine maps and norms are as [Margins] has them. *)

From Coq Require Import List Arith ZArith Reals Permutation Lia Lra.
From Carry Require Import Decoding Windows Transformer Float32 Related Lengths Margins.
Import ListNotations.
Local Open Scope R_scope.

Definition real_tools : tools R := Tools R rows unit32 tiny.
Notation Units := (units reals real_tools).
Notation Grow k := (exp (times k)).
Notation Known_of := (known_of reals real_tools).
Notation Zeros := (zeros reals).
Notation Exactly := (exactly reals).

(** * Errors of sums *)

Lemma unit32_pos : 0 < unit32.
Proof. apply Rinv_0_lt_compat, IZR_lt. reflexivity. Qed.
Lemma tiny_pos : 0 < tiny.
Proof. apply Rinv_0_lt_compat, IZR_lt. reflexivity. Qed.
Lemma times_pos k : 0 <= times k.
Proof. apply Rmult_le_pos; [pos|apply Rlt_le, unit32_pos]. Qed.
Lemma tiny_pos' : 0 <= tiny.
Proof. apply Rlt_le, tiny_pos. Qed.
Lemma exp_pos' x : 0 <= exp x.
Proof. apply Rlt_le, exp_pos. Qed.
Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [H| ->]; [apply Rlt_le, exp_increasing, H|apply Rle_refl]. Qed.
Lemma times_le k l : (k <= l)%nat -> times k <= times l.
Proof. intros H. apply Rmult_le_compat_r; [apply Rlt_le, unit32_pos|apply IZR_le; lia]. Qed.
#[export] Hint Resolve times_pos tiny_pos' exp_pos' : pos.

Lemma grow_1 k : 1 <= Grow k.
Proof. rewrite <- exp_0. apply exp_le. pos. Qed.
Lemma grow_step k l : (k < l)%nat -> (1 + unit32) * Grow k <= Grow l.
Proof.
  intros H. apply Rle_trans with (exp (unit32 + times k)).
  - rewrite exp_plus. apply Rmult_le_compat_r; [pos|].
    apply Rlt_le, exp_ineq1, Rgt_not_eq, unit32_pos.
  - apply exp_le. apply times_le in H. unfold times in *. rewrite Nat2Z.inj_succ, succ_IZR in H.
    lra.
Qed.
Lemma growth_pos k : 0 <= growth reals real_tools k.
Proof. pose proof (grow_1 k). unfold growth. change (0 <= Grow k - 1). lra. Qed.
#[export] Hint Resolve growth_pos : pos.

Lemma total_app l m : total (l ++ m) = total l + total m.
Proof. unfold sum. induction l as [|x l IH]; cbn in *; lra. Qed.
Lemma magnitude_bounds l : Rabs (total l) <= magnitude l.
Proof. pose proof (Sum_abs l (fun x => x)) as H. unfold Sum in H. rewrite map_id in H. exact H. Qed.
Lemma magnitude_pos l : 0 <= magnitude l.
Proof. eapply Rle_trans; [apply Rabs_pos|apply magnitude_bounds]. Qed.
#[export] Hint Resolve magnitude_pos : pos.

(** A sum of k terms: (k - 1) tiny numbers are added, and all grows by (1 + u) ^ k at most. *)
Lemma sums_error l r : sums l r -> Rabs (r - total l) + magnitude l
  <= Grow (length l) * (magnitude l + IZR (Z.of_nat (pred (length l))) * tiny).
Proof.
  pose proof unit32_pos as Hu. pose proof tiny_pos as Ht.
  induction 1 as [|x|k l m x y r Hk Hl Hm _ IHl _ IHm Hr].
  - unfold sum, magnitude. cbn. rewrite Rminus_0_r, Rabs_R0. lra.
  - unfold sum. cbn -[magnitude times]. replace (x - (x + 0)) with 0 by lra. rewrite Rabs_R0.
    pose proof (grow_1 1). pose proof (magnitude_pos [x]). nra.
  - unfold magnitude in *. rewrite (sum_permutation _ _ Hk),
      (sum_permutation _ _ (Permutation_map Rabs Hk)).
    rewrite (Permutation_length Hk), app_length, map_app, !total_app.
    fold (magnitude l) (magnitude m) in *.
    pose proof (magnitude_bounds l). pose proof (magnitude_bounds m).
    destruct l as [|a l]; [contradiction|]. destruct m as [|b m]; [contradiction|].
    pose proof (magnitude_pos (a :: l)). pose proof (magnitude_pos (b :: m)).
    cbn [length pred] in *. set (i := length l) in *. set (j := length m) in *.
    replace (pred (S i + S j)) with (i + j + 1)%nat by lia.
    rewrite !Nat2Z.inj_add, !plus_IZR. change (IZR (Z.of_nat 1)) with 1.
    pose proof (count_pos i). pose proof (count_pos j).
    pose proof (grow_step (S i) (S i + S j) ltac:(lia)).
    pose proof (grow_step (S j) (S i + S j) ltac:(lia)).
    pose proof (grow_1 (S i + S j)). unfold near in Hr.
    set (g := Grow (S i + S j)) in *. set (A := magnitude (a :: l)) in *.
    set (B := magnitude (b :: m)) in *.
    set (I := IZR (Z.of_nat i)) in *. set (J := IZR (Z.of_nat j)) in *.
    set (S := total (a :: l)) in *. set (T := total (b :: m)) in *. clearbody g A B I J S T.
    assert (0 <= A + I * tiny) by (apply Rplus_le_le_0_compat; [|apply Rmult_le_pos]; lra).
    assert (0 <= B + J * tiny) by (apply Rplus_le_le_0_compat; [|apply Rmult_le_pos]; lra).
    assert ((1 + unit32) * (Rabs (x - S) + A) <= g * (A + I * tiny))
      by (eapply Rle_trans; [apply Rmult_le_compat_l, IHl; lra|]; rewrite <- Rmult_assoc; mono).
    assert ((1 + unit32) * (Rabs (y - T) + B) <= g * (B + J * tiny))
      by (eapply Rle_trans; [apply Rmult_le_compat_l, IHm; lra|]; rewrite <- Rmult_assoc; mono).
    assert (unit32 * Rabs (x + y) <= unit32 * (Rabs (x - S) + Rabs (y - T) + A + B))
      by (apply Rmult_le_compat_l; [|clear - H H0]; absolute).
    assert (Rabs (r - (S + T)) <= Rabs (r - (x + y)) + Rabs (x - S) + Rabs (y - T))
      by (clear; absolute).
    assert (1 * tiny <= g * tiny) by mono. lra.
Qed.

Lemma near_totals xs ps : Forall2 (near unit32) xs ps ->
  let k := IZR (Z.of_nat (length xs)) in
  Rabs (total ps - total xs) <= unit32 * magnitude xs + k * tiny /\
  magnitude ps <= (1 + unit32) * magnitude xs + k * tiny.
Proof.
  unfold magnitude, sum. induction 1 as [|x q xs ps H _ [IH1 IH2]].
  - cbn. rewrite Rminus_0_r, Rabs_R0. lra.
  - cbn [map fold_right reals add length] in *. rewrite Nat2Z.inj_succ, succ_IZR. unfold near in H.
    set (X := fold_right Rplus (zero reals) xs) in *.
    set (P := fold_right Rplus (zero reals) ps) in *.
    split; clear - H IH1 IH2; [|pose proof (Rabs_triang (q - x) x) as D;
      ring_simplify (q - x + x) in D; lra].
    pose proof (Rabs_triang (q - x) (P - X)).
    replace (q + P - (x + X)) with (q - x + (P - X)) by ring. lra.
Qed.

Lemma dots_error row x terms r k : (length terms + length (products row x) <= k)%nat ->
  dots row x terms r -> Rabs (r - (total terms + dot_ row x))
    <= growth reals real_tools (S k) * (magnitude terms + magnitude (products row x))
      + lost reals real_tools k.
Proof.
  intros Hk (ps & Hps & Hs). apply sums_error in Hs. destruct (near_totals _ _ Hps) as [H1 H2].
  change (dot_ row x) with (total (products row x)).
  change (growth reals real_tools (S k)) with (Grow (S k) - 1).
  change (lost reals real_tools k) with (IZR (Z.of_nat (2 * k)) * Grow k * tiny).
  unfold magnitude in Hs. rewrite map_app, app_length, <- (Forall2_length _ _ _ Hps),
    !total_app in Hs.
  fold (magnitude terms) (magnitude ps) in Hs. pose proof unit32_pos.
  set (xs := products row x) in *. set (j := (length terms + length xs)%nat) in *.
  pose proof (grow_1 j). pose proof (exp_le _ _ (times_le j k Hk)).
  pose proof (grow_step j (S k) ltac:(lia)).
  pose proof (exp_le _ _ (times_le j (S k) ltac:(lia))).
  assert (B : IZR (Z.of_nat (length xs)) + IZR (Z.of_nat (pred j)) <= IZR (Z.of_nat (2 * k)))
    by (rewrite <- plus_IZR; apply IZR_le; lia).
  pose proof (magnitude_pos terms). pose proof (magnitude_pos xs). pose proof tiny_pos.
  pose proof (count_pos (length xs)). pose proof (count_pos (pred j)).
  set (b := IZR (Z.of_nat (length xs))) in *. set (c := IZR (Z.of_nat (pred j))) in *.
  set (d := IZR (Z.of_nat (2 * k))) in *. set (g := Grow j) in *. set (g' := Grow (S k)) in *.
  assert (E1 : (g - 1) * magnitude ps <= (g - 1) * ((1 + unit32) * magnitude xs + b * tiny))
    by mono.
  assert (E2 : ((1 + unit32) * g) * magnitude xs <= g' * magnitude xs) by mono.
  assert (E3 : g * magnitude terms <= g' * magnitude terms) by mono.
  assert (E4 : (b + c) * g * tiny <= d * Grow k * tiny) by mono.
  assert (Rabs (r - (total terms + total xs)) <= Rabs (r - (total terms + total ps))
    + Rabs (total ps - total xs))
    by (clear; absolute).
  lra.
Qed.

Lemma products_le u v : magnitude (products u v) <= Size u * Size v.
Proof.
  assert (E : forall u v, magnitude (products u v) = dot_ (map Rabs u) (map Rabs v)).
  { clear. induction u as [|a u IH]; intros [|b v]; try reflexivity.
    unfold magnitude, products, dot, map2, sum in *. cbn in *. rewrite IH, Rabs_mult. reflexivity. }
  assert (S : forall x, Size (map Rabs x) = Size x).
  { intros x. unfold size. cbn. f_equal. rewrite <- E. unfold magnitude, products, dot, map2, sum.
    induction x as [|a x IH]; [reflexivity|]. cbn in *. rewrite IH, Rabs_mult.
    apply Rplus_eq_compat_r, eq_sym, Rsqr_abs. }
  rewrite E, <- (S u), <- (S v). eapply Rle_trans; [apply Rle_abs|apply dot_le].
Qed.

(** Nothing that is added is as good as zeros. *)
Lemma near_exact x : near unit32 x x.
Proof. unfold near. rewrite Rminus_eq_0, Rabs_R0. pose proof unit32_pos. pos. Qed.
Lemma sums_zero l r : sums l r -> sums (0 :: l) r.
Proof.
  intros H. destruct l as [|x l].
  - inversion H as [| |k m m' ? ? ? E Hm]; subst; [constructor|].
    apply Permutation_nil in E. destruct m; [contradiction|discriminate].
  - apply (sums_two _ [0] (x :: l) 0 r); try discriminate; auto using sums_one.
    rewrite Rplus_0_l. apply near_exact.
Qed.
Lemma dots_zero row x terms r : dots row x terms r -> dots row x (terms ++ [0]) r.
Proof.
  intros (ps & H & S). exists ps. split; [exact H|]. apply sums_zero in S.
  rewrite <- app_assoc. revert S. generalize (Permutation_middle terms ps 0). cbn [app].
  generalize (terms ++ 0 :: ps), (0 :: terms ++ ps). intros m l P S.
  destruct S as [|y|k l m' y z t Hk]; [rewrite (Permutation_nil P); constructor| |].
  - rewrite (Permutation_length_1_inv P). constructor.
  - apply (sums_two m l m' y z t); auto. rewrite <- P. exact Hk.
Qed.
Lemma affines_nothing a x y : affines a x (nothing a) y -> affines a x (each (Zeros (snd a))) y.
Proof.
  destruct a as [W b]. unfold affines, nothing, each, zeros. cbn [fst snd]. rewrite map_map.
  revert b y.
  induction W as [|row W IH]; intros [|o b] y H; inversion H; subst; constructor; auto.
  apply (dots_zero _ _ [o]). assumption.
Qed.
Lemma affines_without_bias W x y : Forall2 (fun row r => dots row x [] r) W y ->
  affines (without_bias reals W) x (each (Zeros W)) y.
Proof.
  unfold affines, each, without_bias, zeros. cbn [fst snd]. rewrite map_map.
  induction 1; constructor; auto. apply (dots_zero _ _ [0]), (dots_zero _ _ []). assumption.
Qed.

(** * Vectors in balls *)

Definition within (b : ball R) (x : list R) : Prop :=
  length x = length (fst b) /\ Size (minus x (fst b)) <= snd b.

Lemma within_by (b : ball R) x : length x = length (fst b) ->
  Len (seq 0 (length x)) (fun i => at_ x i - at_ (fst b) i) <= snd b -> within b x.
Proof. intros L H. split; [exact L|]. rewrite size_minus; assumption. Qed.
Lemma within_reach b x : within b x -> Size x <= reach reals b.
Proof.
  intros [L H]. unfold reach. cbn [reals add]. rewrite (size_nth x _ (le_n _)).
  rewrite (Len_ext _ _ (fun i => at_ (fst b) i + (at_ x i - at_ (fst b) i))) by (intros; ring).
  eapply Rle_trans; [apply Len_plus|]. apply Rplus_le_compat; [apply Len_nth|].
  eapply Rle_trans; [apply Len_minus, L|exact H].
Qed.
Lemma within_error b x : within b x -> 0 <= snd b.
Proof. intros [_ H]. eapply Rle_trans; [apply size_pos|exact H]. Qed.
Lemma within_exactly x : within (Exactly x) x.
Proof.
  apply within_by; [reflexivity|]. apply Req_le. cbn [exactly fst snd].
  rewrite (Len_ext _ _ (fun _ => 0)), Len_const by (intros; lra). apply Rmult_0_r.
Qed.
Lemma relu_within b x : within b x -> within (relu_ball reals b) (map (fun a => Rmax a 0) x).
Proof.
  intros [L H]. rewrite size_minus in H by exact L.
  apply within_by; unfold relu_ball; cbn [fst snd]; rewrite ?map_length; [exact L|].
  eapply Rle_trans; [|exact H]. apply Len_le. intros i _.
  assert (E : forall y, at_ (map (fun a => Rmax a 0) y) i = Rmax (at_ y i) 0).
  { intros y. rewrite <- (map_nth (fun a => Rmax a 0)). f_equal. symmetry. apply Rmax_right. lra. }
  cbn [reals larger]. change (zero reals) with 0. rewrite !E.
  unfold Rmax. repeat destruct (Rle_dec _ _); absolute.
Qed.
Lemma concat_within balls zs : Forall2 within balls zs ->
  within (flat_map fst balls, Size (map snd balls)) (concat zs).
Proof.
  induction 1 as [|b z balls zs [L H] _ [L' H']]; [split; [reflexivity|apply Rle_refl]|].
  cbn [map flat_map concat fst snd] in *. split; cbn [fst snd];
    [rewrite !app_length; f_equal; assumption|].
  rewrite minus_app by exact L. apply sqrt_le_1_alt. rewrite dot_app by reflexivity.
  change (dot_ (snd b :: map snd balls) _)
    with (snd b * snd b + dot_ (map snd balls) (map snd balls)).
  rewrite <- !size_square. mono.
Qed.

(** * Affine maps *)

Lemma at_affine a x v i : (i < length (map2 Rplus v (apply reals a x)))%nat ->
  at_ (map2 Rplus v (apply reals a x)) i = at_ v i + (dot_ (nth i (fst a) []) x + at_ (snd a) i).
Proof.
  intros H. rewrite nth_map2 by exact H. f_equal. rewrite length_map2 in H. unfold apply in *.
  cbn [reals add] in *. rewrite nth_map2 by lia. f_equal. apply nth_rows.
Qed.

(** The rounding error of each entry. *)
Lemma affine_errors a x v y k : (breadth (fst a) <= k)%nat -> affines a x (each v) y ->
  let y' := map2 Rplus v (apply reals a x) in
  length y = length y' /\ (length y <= length (fst a))%nat /\ forall i, (i < length y)%nat ->
  Rabs (at_ y i - at_ y' i)
    <= growth reals real_tools (3 + k)
       * (Size (nth i (fst a) []) * Size x + (Rabs (at_ (snd a) i) + Rabs (at_ v i)))
     + lost reals real_tools (2 + k).
Proof.
  destruct a as [W b]. unfold affines, each, apply. cbn [fst snd]. revert b v y.
  induction W as [|row W IH]; intros [|o b] [|e v] y Hk H; inversion H; subst; clear H;
    try (cbn; repeat split; try lia; intros; lia).
  cbn [breadth map fold_right] in Hk.
  destruct (IH b v _ ltac:(unfold breadth; lia) H4) as (L1 & L2 & IH').
  split; [cbn; rewrite L1; reflexivity|]. split; [cbn; lia|]. intros [|i] Hi.
  - cbn [nth map map2 combine fst snd] in *. apply (dots_error _ _ _ _ (2 + k)) in H2;
      [|unfold products; rewrite length_map2; cbn [length]; lia].
    replace (e + add reals (dot_ row x) o) with (total [o; e] + dot_ row x)
      by (unfold sum; cbn; ring).
    eapply Rle_trans; [exact H2|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [pos|].
    replace (magnitude [o; e]) with (Rabs o + Rabs e) by (unfold magnitude, sum; cbn; ring).
    pose proof (products_le row x). lra.
  - apply IH'. cbn in Hi. lia.
Qed.

Lemma affine_within a x v y bx bv : within bx x -> within bv v -> affines a x (each v) y ->
  within (affine_ball reals a (Known_of a) bx bv) y.
Proof.
  intros Hx Hv H. destruct (affine_errors _ _ _ _ _ (le_n _) H) as (L1 & L2 & He).
  pose proof (within_reach _ _ Hx) as Rx. pose proof (within_reach _ _ Hv) as Rv.
  destruct Hx as [Lx Hx]. destruct Hv as [Lv Hv]. destruct (spectral_stretches (fst a)) as [Hs Ss].
  specialize (Ss (minus x (fst bx))). set (dx := minus x (fst bx)) in *.
  assert (L3 : length y = length (map2 Rplus (fst bv) (apply reals a (fst bx)))).
  { rewrite L1, !length_map2. unfold apply. rewrite !length_map2, !map_length, Lv. reflexivity. }
  apply within_by; [exact L3|]. unfold affine_ball.
  cbn [fst snd known_of k_rows multiply real_tools].
  change (map2 (add reals) (rows (fst a) (fst bx)) (snd a)) with (apply reals a (fst bx)).
  change (add reals) with Rplus. set (y' := map2 Rplus v _) in *.
  set (ref := map2 Rplus (fst bv) _) in *.
  unfold roundings. cbn [k_stretch k_size k_bias k_growth k_lost known_of].
  set (g := growth reals real_tools (3 + breadth (fst a))) in *.
  set (t := lost reals real_tools (2 + breadth (fst a))) in *.
  assert (Hg : 0 <= g) by apply growth_pos.
  assert (Ht : 0 <= t) by (unfold t, lost; cbn [reals mul number of_Z expo]; pos).
  set (l := seq 0 (length y)). assert (HF : 0 <= frobenius reals (fst a)) by apply size_pos.
  eapply Rle_trans; [apply (Len_terms _ [(1, fun i => at_ v i - at_ (fst bv) i);
    (1, fun i => at_ (rows (fst a) dx) i); (g * Size x, fun i => at_ (map Size (fst a)) i);
    (g, fun i => at_ (snd a) i); (g, fun i => at_ v i); (t, fun _ => 1)] fst snd)|].
  - intros u Hu. cbn [In] in Hu. decompose [or] Hu; subst; try contradiction; cbn [fst]; pos.
  - intros i Hi. apply in_seq in Hi. specialize (He i ltac:(lia)). unfold Sum, sum.
    cbn [map fold_right fst snd reals add zero of_Z].
    rewrite nth_rows, nth_sizes, (Rabs_right (Size _)), (Rabs_right 1) by (try apply Rle_ge; pos).
    unfold dx. rewrite dot_minus by exact Lx.
    assert (Hi' : (i < length y')%nat) by lia. assert (Hr : (i < length ref)%nat) by lia.
    pose proof (at_affine a x v i Hi') as E1. pose proof (at_affine a (fst bx) (fst bv) i Hr) as E2.
    fold y' in E1. fold ref in E2. revert He. clear - E1 E2.
    generalize (Rabs (at_ (snd a) i)), (Rabs (at_ v i)). intros B V He.
    assert (Rabs (at_ y i - at_ ref i) <= Rabs (at_ y i - at_ y' i)
      + Rabs (at_ v i - at_ (fst bv) i)
      + Rabs (dot_ (nth i (fst a) []) x - dot_ (nth i (fst a) []) (fst bx)))
          by (clear He; absolute).
    lra.
  - unfold Sum, sum. cbn [map fold_right fst snd reals add mul root zero of_Z].
    rewrite Len_const by lra. unfold l at 6. rewrite seq_length.
    assert (Dv : Len l (fun i => at_ v i - at_ (fst bv) i) <= snd bv)
      by (eapply Rle_trans; [apply Len_minus, Lv|exact Hv]).
    assert (Dx : Len l (fun i => at_ (rows (fst a) dx) i) <= spectral reals (fst a) * snd bx)
      by (eapply Rle_trans; [apply Len_nth|eapply Rle_trans; [exact Ss|mono]]).
    assert (Dm : sqrt (IZR (Z.of_nat (length y))) <= sqrt (IZR (Z.of_nat (length (fst a)))))
      by (apply sqrt_le_1_alt, IZR_le; lia).
    pose proof (Len_nth (snd a) (length y)) as Db.
    pose proof (Len_nth (map Size (fst a)) (length y)) as Df.
    pose proof (Rle_trans _ _ _ (Len_nth v (length y)) Rv) as Dv'.
    change (count reals (fst a)) with (IZR (Z.of_nat (length (fst a)))).
    fold l in Db, Df, Dv'. change (Size (map Size (fst a))) with (frobenius reals (fst a)) in Df.
    match goal with |- 1 * ?dv + (1 * ?dx
      + (g * ?X * ?F + (g * ?B + (g * ?V + (t * (?m * 1) + 0))))) <= _ =>
      replace (1 * dv + (1 * dx + (g * X * F + (g * B + (g * V + (t * (m * 1) + 0))))))
        with (dx + dv + (g * (F * X + B + V) + m * t)) by ring end.
    mono.
Qed.

(** * Norms *)

Section Centre.
  Variables (l : list nat) (N : R).
  Hypothesis HN : N = IZR (Z.of_nat (length l)).
  Hypothesis N_pos : 0 < N.
  Notation mean f := (Sum l f / N).

  Lemma centre_square f : Sum l (fun i => (f i - mean f) * (f i - mean f))
    = Sum l (fun i => f i * f i) - N * (mean f * mean f).
  Proof.
    set (m := mean f). assert (E : Sum l f = N * m) by (unfold m; field; lra).
    rewrite (Sum_ext l _ (fun i => f i * f i + (-2 * m * f i + m * m))) by (intros; ring).
    rewrite !Sum_plus, Sum_scale, Sum_const, <- HN, E. ring.
  Qed.
  Lemma centre_shortens f : Len l (fun i => f i - mean f) <= Len l f.
  Proof.
    apply sqrt_le_1_alt. rewrite centre_square.
    assert (0 <= N * (mean f * mean f)) by pos. lra.
  Qed.
  Lemma mean_le f : Rabs (mean f) <= Len l f / sqrt N.
  Proof.
    apply le_div; [apply sqrt_lt_R0, N_pos|]. rewrite <- sqrt_Rsqr_abs, <- sqrt_mult by pos.
    apply sqrt_le_1_alt. pose proof (centre_square f).
    pose proof (Sum_squares l (fun i => f i - mean f)).
    unfold Rsqr. lra.
  Qed.

  (** Vectors divided by their deviations. *)
  Variables (c c' : nat -> R) (d d' e : R).
  Hypothesis Hd : 0 < d.
  Hypothesis Hd' : 0 < d'.
  Hypothesis Ed : d * d = Sum l (fun i => c i * c i) / N + e.
  Hypothesis Ed' : d' * d' = Sum l (fun i => c' i * c' i) / N + e.
  Hypothesis He : 0 <= e.
  Let dd : 0 < d * d' := Rmult_lt_0_compat _ _ Hd Hd'.

  Lemma deviations_distance :
    Sum l (fun i => (c' i / d' - c i / d) * (c' i / d' - c i / d)) * (d * d')
    + (N * ((d - d') * (d - d')) + N * e * ((d - d') * (d - d') / (d * d')))
    = Sum l (fun i => (c' i - c i) * (c' i - c i)).
  Proof.
    rewrite (Sum_ext l _ (fun i => / (d' * d') * (c' i * c' i) + / (d * d) * (c i * c i)
      + -2 / (d * d') * (c' i * c i))) by (intros; field; lra).
    rewrite (Sum_ext l (fun i => (c' i - c i) * _)
      (fun i => c' i * c' i + c i * c i + -2 * (c' i * c i))) by (intros; ring).
    rewrite !Sum_plus, !Sum_scale.
    replace (Sum l (fun i => c i * c i)) with (N * (d * d - e)) by (rewrite Ed; field; lra).
    replace (Sum l (fun i => c' i * c' i)) with (N * (d' * d' - e)) by (rewrite Ed'; field; lra).
    field. lra.
  Qed.
  Lemma deviation_near : sqrt N * Rabs (d - d') <= Len l (fun i => c' i - c i).
  Proof.
    rewrite <- sqrt_Rsqr_abs, <- sqrt_mult by pos. apply sqrt_le_1_alt.
    rewrite <- deviations_distance. unfold Rsqr.
    assert (0 <= N * e * ((d - d') * (d - d') / (d * d'))) by pos.
    assert (0 <= Sum l (fun i => (c' i / d' - c i / d) * (c' i / d' - c i / d)) * (d * d')) by pos.
    lra.
  Qed.
  Lemma normed_distance low : 0 < low -> low <= d' ->
    Len l (fun i => c' i / d' - c i / d) <= Len l (fun i => c' i - c i) / sqrt (d * low).
  Proof.
    intros Hl Hld. assert (P : 0 < d * low) by (apply Rmult_lt_0_compat; assumption).
    apply le_div; [apply sqrt_lt_R0, P|]. unfold Len. rewrite <- sqrt_mult by pos.
    apply sqrt_le_1_alt. rewrite <- deviations_distance.
    apply Rle_trans with (Sum l (fun i => (c' i / d' - c i / d) * (c' i / d' - c i / d))
      * (d * d')); [mono|].
    assert (0 <= N * ((d - d') * (d - d')) + N * e * ((d - d') * (d - d') / (d * d'))) by pos. lra.
  Qed.
End Centre.

Lemma absolute_is a : absolute reals a = Rabs a.
Proof. change (Rmax a (0 - a) = Rabs a). unfold Rmax. destruct (Rle_dec _ _); absolute. Qed.
Lemma largest_bounds w i : Rabs (at_ w i) <= largest reals w.
Proof.
  revert i. induction w as [|a w IH]; intros i; [rewrite at_nil, Rabs_R0; apply Rle_refl|].
  change (largest reals (a :: w)) with (Rmax (absolute reals a) (largest reals w)).
  rewrite absolute_is.
  pose proof (Rmax_l (Rabs a) (largest reals w)). pose proof (Rmax_r (Rabs a) (largest reals w)).
  destruct i as [|i]; cbn [nth]; [|specialize (IH i)]; lra.
Qed.
Lemma largest_in l a : In a l -> a <= largest reals l.
Proof.
  intros H. destruct (In_nth l a 0 H) as (i & _ & <-).
  eapply Rle_trans; [apply Rle_abs|apply largest_bounds].
Qed.
Lemma largest_pos l : 0 <= largest reals l.
Proof. eapply Rle_trans; [apply Rabs_pos|apply (largest_bounds l 0)]. Qed.
#[export] Hint Resolve largest_pos : pos.

(** The mean, the centred vector and the deviation of a list, as sums over indices. *)
Section Statistics.
  Variable x : list R.
  Notation l := (seq 0 (length x)).
  Notation N := (IZR (Z.of_nat (length x))).
  Definition centre_of (i : nat) : R := at_ x i - Sum l (fun i => at_ x i) / N.

  Lemma mean_is : mean reals x = Sum l (fun i => at_ x i) / N.
  Proof. unfold mean. cbn [reals div]. rewrite (total_nth x _ (le_n _)). reflexivity. Qed.
  Lemma at_centred i : (i < length x)%nat -> at_ (centred reals x) i = centre_of i.
  Proof.
    intros H. unfold centred, centre_of. rewrite <- mean_is.
    apply (nth_map (fun y => y - mean reals x)), H.
  Qed.
  Lemma mean_squares (y : list R) f : length y = length x ->
    (forall i, In i l -> at_ y i = f i) ->
    mean reals (products y y) = Sum l (fun i => f i * f i) / N.
  Proof.
    intros Hy Hf. unfold mean, count, products. rewrite length_map2, Hy, Nat.min_id.
    change (sum reals (map2 Rmult y y)) with (dot_ y y). rewrite (dot_nth y y (length x)) by lia.
    cbn [reals div of_Z]. f_equal. apply Sum_ext. intros i Hi. rewrite (Hf i Hi). reflexivity.
  Qed.
  Lemma centred_squares : mean reals (products (centred reals x) (centred reals x))
    = Sum l (fun i => centre_of i * centre_of i) / N.
  Proof.
    apply mean_squares; [apply map_length|]. intros i Hi. apply in_seq in Hi. apply at_centred. lia.
  Qed.
  Lemma deviation_is : 0 < N -> 0 < deviation reals x
    /\ deviation reals x * deviation reals x
      = Sum l (fun i => centre_of i * centre_of i) / N + 1 / 100000.
  Proof.
    intros HN. replace (deviation reals x)
      with (sqrt (Sum l (fun i => centre_of i * centre_of i) / N + 1 / 100000)).
    - assert (0 <= Sum l (fun i => centre_of i * centre_of i) / N) by pos.
      split; [apply sqrt_lt_R0|apply sqrt_sqrt]; lra.
    - rewrite <- centred_squares. unfold deviation, mean, count, products, centred.
      rewrite length_map2, !map_length, Nat.min_id. reflexivity.
  Qed.
  Lemma length_norm s : length (norm reals s x)
    = Nat.min (length x) (Nat.min (length (fst s)) (length (snd s))).
  Proof. unfold norm, centred. rewrite !length_map2, !map_length. lia. Qed.
  Lemma at_norm s i : (i < length (norm reals s x))%nat ->
    at_ (norm reals s x) i = centre_of i / deviation reals x * at_ (fst s) i + at_ (snd s) i.
  Proof.
    intros H. pose proof H as H'. rewrite length_norm in H. unfold norm in *.
    cbn [reals add mul div] in *.
    rewrite nth_map2, nth_map2, <- at_centred
      by (try exact H'; try lia; rewrite length_map2; unfold centred;
      rewrite !map_length; lia).
    f_equal. f_equal. apply (nth_map (fun y => y / deviation reals x)). unfold centred.
    rewrite map_length. lia.
  Qed.
End Statistics.

(** Roots of numbers that differ by e at most. *)
Lemma inverse_roots a d e low : 0 < low -> low <= a -> low <= d * d -> 0 < d ->
  Rabs (a - d * d) <= e -> Rabs (1 / sqrt a - 1 / d) <= e / (2 * low * sqrt low).
Proof.
  intros Hl Ha Hd Pd He. pose proof (sqrt_lt_R0 _ Hl) as Hb.
  pose proof (sqrt_sqrt low ltac:(lra)) as Eb.
  pose proof (sqrt_le_1_alt _ _ Ha) as Hs. pose proof (sqrt_le low d ltac:(lra) Hd) as Hbd.
  pose proof (sqrt_sqrt a ltac:(lra)) as Es. set (s := sqrt a) in *. set (b := sqrt low) in *.
  assert (P : 0 < s * d * (s + d)) by (repeat apply Rmult_lt_0_compat; lra).
  replace (1 / s - 1 / d) with ((d * d - s * s) / (s * d * (s + d))) by (field; lra).
  unfold Rdiv at 1. rewrite Rabs_mult, (Rabs_right (/ _)), Es, Rabs_minus_sym
    by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat, P).
  apply Rmult_le_compat; [pos|pos|exact He|]. apply Rinv_le_contravar; [nra|].
  rewrite <- Eb. replace (2 * (b * b) * b) with (b * b * (b + b)) by ring. mono.
Qed.

Lemma Forall2_at {A B} (P : A -> B -> Prop) u v i a b : Forall2 P u v -> (i < length v)%nat ->
  P (nth i u a) (nth i v b).
Proof. intros H. revert i. induction H; intros [|i] Hi; cbn in *; try lia; auto with arith. Qed.
Lemma Rdiv_le a b c : 0 < c -> a <= b -> a / c <= b / c.
Proof. intros Hc H. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, Hc|exact H]. Qed.

Section Norm.
  Variables (s : scaling R) (b : ball R) (x y : list R).
  Hypothesis Hx : within b x.
  Hypothesis steady : 0 < steadiness reals real_tools b.
  Notation N := (IZR (Z.of_nat (length x))).
  Notation l := (seq 0 (length x)).
  Notation low := (least_deviation reals b).
  Notation d := (deviation reals (fst b)).
  Notation d' := (deviation reals x).
  Notation variance := (least_variance reals real_tools b).
  Notation square := (square_error reals real_tools b).

  Lemma steady_both : 0 < N /\ 0 < variance.
  Proof.
    rewrite (proj1 Hx). pose proof (count_pos (length (fst b))) as P. pose proof steady as S.
    change (steadiness _ _ _) with (IZR (Z.of_nat (length (fst b))) * variance) in S.
    destruct P as [P|P]; [|rewrite <- P in S; lra].
    split; [exact P|]. apply (Rmult_lt_reg_l _ _ _ P). lra.
  Qed.
  Lemma N_length : N = IZR (Z.of_nat (length l)).
  Proof. rewrite seq_length. reflexivity. Qed.

  Lemma centres_near : Len l (fun i => centre_of x i - centre_of (fst b) i) <= snd b.
  Proof.
    destruct steady_both as [HN _]. destruct Hx as [L H]. eapply Rle_trans; [|exact H].
    eapply Rle_trans; [|apply (Len_minus _ _ L (length x))].
    eapply Rle_trans; [|apply (centre_shortens l N N_length HN)].
    apply Req_le, Len_ext. intros i _. unfold centre_of. rewrite <- L.
    rewrite (Sum_ext l (fun i => at_ x i - at_ (fst b) i) (fun i => at_ x i + -1 * at_ (fst b) i))
      by (intros; ring). rewrite Sum_plus, Sum_scale. field. lra.
  Qed.

  Lemma square_is : square = times (4 * length x + 96) * (reach reals b * reach reals b / N) + tiny.
  Proof. unfold square_error, count. rewrite (proj1 Hx). reflexivity. Qed.

  Lemma deviations : 0 < low /\ low <= d' /\ 0 <= square /\ variance = low * low - square.
  Proof.
    destruct steady_both as [HN Hv]. destruct (deviation_is x HN) as [P' E'].
    destruct (deviation_is (fst b)) as [P E]; [rewrite <- (proj1 Hx); exact HN|].
    rewrite <- (proj1 Hx) in E.
    pose proof (deviation_near l N HN _ _ _ _ (1 / 100000) P P' E E' ltac:(lra)) as H.
    pose proof centres_near. pose proof (sqrt_lt_R0 _ HN) as HW.
    assert (Hd : Rabs (d - d') <= snd b / sqrt N) by (apply le_div; lra).
    assert (El : low = Rmax (d - snd b / sqrt N) 0)
      by (unfold least_deviation, count; rewrite <- (proj1 Hx); reflexivity).
    assert (Hs : 0 <= square) by (rewrite square_is; pose proof (square_pos (reach reals b)); pos).
    assert (Ev : variance = low * low - square) by reflexivity.
    pose proof (Rmax_r (d - snd b / sqrt N) 0) as [Hlow|Z]; rewrite <- El in *;
      [|rewrite Ev, <- Z in Hv; lra].
    repeat split; try assumption. rewrite El. unfold Rmax. destruct (Rle_dec _ _); absolute.
  Qed.

  Lemma norm_within : norms s x y -> within (norm_ball reals real_tools s b) y.
  Proof.
    intros (m & v & r & Hm & Hv & Hr & Hf). pose proof Hx as [L _].
    pose proof (within_reach _ _ Hx) as HX. pose proof (within_error _ _ Hx) as He.
    destruct steady_both as [HN Plv]. destruct deviations as (Hlow & Hd' & Hsq & Ev).
    destruct (deviation_is x HN) as [P' E']. pose proof centres_near as Hc.
    destruct (deviation_is (fst b)) as [P E]; [rewrite <- L; exact HN|]. rewrite <- L in E.
    pose proof (normed_distance l N HN _ _ _ _ (1 / 100000) P P' E E' ltac:(lra) low Hlow Hd')
      as Hn.
    cbv zeta in Hv. rewrite centred_squares, (mean_squares x x _ eq_refl (fun i _ => eq_refl))
      in Hv.
    set (X := reach reals b) in *. set (W := sqrt N). assert (HW : 0 < W) by (apply sqrt_lt_R0, HN).
    rewrite (size_nth x _ (le_n _)) in HX. set (Lx := Len l (fun i => at_ x i)) in *.
    assert (HLx : 0 <= Lx) by apply Len_pos. pose proof tiny_pos'.
    (* the mean *)
    set (dm := times (length x + 48) * (X / W) + tiny).
    assert (Hmean : forall f, (forall i, Rabs (f i) = Rabs (at_ x i)) -> Rabs (Sum l f / N)
      <= X / W).
    { intros f Hf'. eapply Rle_trans; [apply mean_le; [exact N_length|exact HN]|]. apply Rdiv_le;
        [exact HW|].
      eapply Rle_trans; [|exact HX]. apply Len_le. intros i _. rewrite Hf'. apply Rle_refl. }
    assert (Hdm : Rabs (m - mean reals x) <= dm).
    { eapply Rle_trans; [exact Hm|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [pos|].
      rewrite mean_is, map_length. eapply Rle_trans; [apply Rle_abs|apply Hmean]. intros i.
      rewrite <- Rabs_R0 at 1. rewrite (map_nth Rabs). apply Rabs_Rabsolu. }
    assert (Hm' : Rabs m <= X / W + dm).
    { pose proof (Hmean (fun i => at_ x i) (fun i => eq_refl)) as M. rewrite <- mean_is in M. clear
        - M Hdm.
      absolute. }
    (* the variance *)
    assert (Hv' : Rabs (v + 1 / 100000 - d' * d') <= square).
    { rewrite E', square_is. replace (v + 1 / 100000 - _)
        with (v - Sum l (fun i => centre_of x i * centre_of x i) / N) by ring.
      eapply Rle_trans; [exact Hv|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [pos|].
      apply Rdiv_le; [exact HN|]. rewrite <- Len_square. fold Lx X. mono. }
    set (sq := square) in *. set (lv := variance) in *.
    assert (low * low <= d' * d') by mono.
    assert (Ha : lv <= v + 1 / 100000) by (clear - Hv' Ev H0; absolute).
    assert (Hlv : lv <= d' * d') by lra. pose proof (inverse_roots _ _ _ _ Plv Ha Hlv P' Hv') as Hi.
    set (rt := sqrt (v + 1 / 100000)) in *. set (dev := sqrt lv) in *.
    assert (Hdev : 0 < dev) by (apply sqrt_lt_R0, Plv).
    assert (Hrt : dev <= rt) by (apply sqrt_le_1_alt, Ha).
    set (fe := times 20 / dev + tiny + sq / (2 * lv * dev)). set (F := (1 + times 20) / dev + tiny).
    assert (Hir : Rabs (1 / rt) <= 1 / dev).
    { rewrite Rabs_right by (apply Rle_ge; pos). unfold Rdiv. rewrite !Rmult_1_l. apply
        Rinv_le_contravar; lra. }
    assert (Hr' : Rabs (r - 1 / rt) <= times 20 * (1 / dev) + tiny)
      by (eapply Rle_trans; [exact Hr|mono]).
    replace (times 20 * (1 / dev)) with (times 20 / dev) in Hr' by (field; lra).
    assert (Hfe : Rabs (r - 1 / d') <= fe) by (unfold fe; clear - Hr' Hi; absolute).
    assert (HF : Rabs r <= F).
    { unfold F. replace ((1 + times 20) / dev) with (1 / dev + times 20 / dev) by (field; lra).
      clear - Hr' Hir. absolute. }
    pose proof (Rle_trans _ _ _ (Rabs_pos _) HF) as HF0.
    pose proof (Rle_trans _ _ _ (Rabs_pos _) Hfe) as Hfe0.
    pose proof (Rle_trans _ _ _ (Rabs_pos _) Hdm) as Hdm0.
    set (big := largest reals (fst s)). pose proof (largest_pos (fst s) : 0 <= big) as Hbig.
    (* together *)
    assert (Ly : length y = length (norm reals s (fst b)))
      by (rewrite length_norm, <- L, <- (Forall2_length _ _ _ Hf), !combine_length; reflexivity).
    apply within_by; [exact Ly|]. pose proof Ly as Ln. rewrite length_norm, <- L in Ln.
    cbn [norm_ball fst snd]. set (k := times 10 * (big * F) * Rabs m + tiny + big * F * dm).
    pose proof (times_pos 10). assert (Hk : 0 <= k) by (unfold k; pos).
    set (n := length y) in *.
    eapply Rle_trans; [apply (Len_terms _
      [(big, fun i => centre_of x i / d' - centre_of (fst b) i / d);
      (big * fe, centre_of x); (times 10 * (big * F), fun i => at_ x i);
      (times 10, fun i => at_ (snd s) i); (k, fun _ => 1)] fst snd)|].
    - intros u Hu. cbn [In] in Hu. decompose [or] Hu; subst; try contradiction; cbn [fst]; pos.
    - intros i Hi'. apply in_seq in Hi'. rewrite at_norm by (fold n in Ly; lia).
      unfold Sum at 1, sum. cbn [map fold_right fst snd reals add zero of_Z]. rewrite Rabs_R1.
      apply (Forall2_at _ _ _ i (0, (0, 0)) 0) in Hf; [|fold n; lia].
      rewrite nth_combine, nth_combine in Hf by (rewrite ?combine_length in *; lia).
      set (a := at_ x i) in *. pose proof (largest_bounds (fst s) i) as Hw. fold big in Hw.
      set (w := at_ (fst s) i) in *. set (o := at_ (snd s) i) in *.
      set (c' := centre_of x i). set (c := centre_of (fst b) i).
      assert (Ea : a = c' + mean reals x) by (unfold a, c', centre_of; rewrite mean_is; ring).
      replace (at_ y i - _) with ((at_ y i - ((a - m) * (r * w) + o)) + w * (c' / d' - c / d)
        + (w * c' * (r - 1 / d') + w * - (m - mean reals x) * r)) by (rewrite Ea; field; lra).
      eapply Rle_trans; [apply Rabs_triang|].
      eapply Rle_trans; [apply Rplus_le_compat; apply Rabs_triang|].
      rewrite !Rabs_mult, Rabs_Ropp. rewrite Rabs_mult in Hf.
      assert (times 10 * ((Rabs a + Rabs m) * (Rabs r * Rabs w) + Rabs o)
        <= times 10 * ((Rabs a + Rabs m) * (F * big) + Rabs o)) by mono.
      assert (Rabs w * Rabs (c' / d' - c / d) <= big * Rabs (c' / d' - c / d)) by mono.
      assert (Rabs w * Rabs c' * Rabs (r - 1 / d') <= big * Rabs c' * fe) by mono.
      assert (Rabs w * Rabs (m - mean reals x) * Rabs r <= big * dm * F) by mono.
      unfold k. lra.
    - unfold Sum at 1, sum. cbn [map fold_right fst snd reals add zero of_Z].
      rewrite Len_const, seq_length by lra. unfold count. rewrite <- L.
      cbn [reals of_Z div root mul add].
      fold X sq lv W dev big. change (Units (length x + 48) * (X / W) + least real_tools) with dm.
      change ((1 + Units 20) / dev + least real_tools) with F.
      change (Units 20 / dev + least real_tools + sq / (2 * lv * dev)) with fe.
      change (Units 10) with (times 10). change (least real_tools) with tiny.
      assert (D1 : Len (seq 0 n) (fun i => centre_of x i / d' - centre_of (fst b) i / d)
        <= snd b / sqrt (d * low)).
      { eapply Rle_trans; [apply (Len_prefix n (length x)); lia|]. eapply Rle_trans; [exact Hn|].
        apply Rdiv_le; [apply sqrt_lt_R0, Rmult_lt_0_compat; assumption|exact Hc]. }
      assert (D2 : Len (seq 0 n) (centre_of x) <= X).
      { eapply Rle_trans; [apply (Len_prefix n (length x)); lia|]. eapply Rle_trans; [|exact HX].
        apply (centre_shortens l N N_length HN). }
      assert (D3 : Len (seq 0 n) (fun i => at_ x i) <= X)
        by (eapply Rle_trans; [apply (Len_prefix n (length x)); lia|exact HX]).
      pose proof (Len_nth (snd s) n) as D4.
      assert (D5 : sqrt (IZR (Z.of_nat n)) * 1 <= W)
        by (rewrite Rmult_1_r; apply sqrt_le_1_alt, IZR_le; lia).
      assert (D6 : Rabs m * W <= X + W * dm)
        by (replace (X + W * dm) with ((X / W + dm) * W) by (field; lra); mono).
      apply Rle_trans with (big * (snd b / sqrt (d * low)) + big * fe * X + times 10 * (big * F) * X
        + times 10 * Size (snd s) + k * W).
      + rewrite !Rplus_assoc. rewrite (Rplus_0_r (k * _)). mono.
      + unfold k. assert (times 10 * (big * F) * (Rabs m * W) <= times 10 * (big * F)
          * (X + W * dm)) by mono.
        lra.
  Qed.
End Norm.
