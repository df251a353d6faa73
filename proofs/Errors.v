(** How far float32 may be from the reals: formulas, and a proof that they are right. [margins] are
    the leads of the due token over the reals, each less its error. If all margins are positive, the
    due token leads in every result that [float_pass] allows. *)

From Coq Require Import List Arith ZArith Reals Bool Permutation Lia Lra.
From Carry Require Import Decoding Windows Transformer Float32 Related Tables Lengths.
Import ListNotations.

(** * The formulas *)

(** How a matrix is multiplied by a vector, the unit of rounding, and the least normal number. *)
Record tools (T : Type) := Tools {
  multiply : matrix T -> vector T -> vector T; unit : T; least : T }.
Arguments multiply {T}. Arguments unit {T}. Arguments least {T}.

(** A vector over the reals, and how far that of float32 may be from it. *)
Definition ball (T : Type) := (vector T * T)%type.

(** What is known of an affine map: the product with its matrix, by how much this stretches, the
    sizes of its weight and bias, and what roundings may do: relatively, and absolutely. *)
Record known (T : Type) := Known {
  k_rows : vector T -> vector T; k_stretch : T; k_size : T; k_bias : T; k_growth : T; k_lost : T }.
Arguments k_rows {T}. Arguments k_stretch {T}. Arguments k_size {T}. Arguments k_bias {T}.
Arguments k_growth {T}. Arguments k_lost {T}.

(** Of a head: the length at most, and the error, of the query, key and value of a token; the largest
    sum of absolute biases; the root of the width; and units of error of a score. *)
Record doubts (T : Type) := Doubts {
  of_query : token -> T * T; of_key : token -> T * T; of_value_ : token -> T * T;
  largest_bias : T; scale : T; score_units : nat }.
Arguments of_query {T}. Arguments of_key {T}. Arguments of_value_ {T}. Arguments largest_bias {T}.
Arguments scale {T}. Arguments score_units {T}.

(** Of a model: also, whether the norm of a token is safe, and the distances of rows of logits. *)
Record knowledge (T : Type) := Knowledge {
  of_heads : list (parts T * doubts T); of_source : token -> T; of_output : known T;
  of_up : known T; of_down : known T; of_logits : known T; distances : list (list T) }.
Arguments of_heads {T}. Arguments of_source {T}. Arguments of_output {T}. Arguments of_up {T}.
Arguments of_down {T}. Arguments of_logits {T}. Arguments distances {T}.

Section Formulas.
  Context {T : Type} (n : arithmetic T) (s : tools T).
  Local Infix "+" := (add n).
  Local Infix "-" := (sub n).
  Local Infix "*" := (mul n).
  Local Infix "/" := (div n).

  Definition number (k : nat) : T := of_Z n (Z.of_nat k).
  Definition units (k : nat) : T := number k * unit s.
  (** What a sum of k terms may lose, relatively, and to underflow. *)
  Definition growth (k : nat) : T := expo n (units k) - of_Z n 1.
  Definition lost (k : nat) : T := number (2 * k) * expo n (units k) * least s.

  Definition absolute (a : T) : T := larger n a (zero n - a).
  Definition largest (x : vector T) : T :=
    fold_right (fun a m => larger n (absolute a) m) (zero n) x.
  Definition reach (b : ball T) : T := size n (fst b) + snd b.
  Definition zeros {A} (l : list A) : vector T := map (fun _ => zero n) l.
  Definition exactly (x : vector T) : ball T := (x, zero n).

  (** Affine maps of x to which a vector is added. *)
  Definition known_of (a : affine T) : known T :=
    let terms := breadth (fst a) in
    Known T (multiply s (fst a)) (spectral n (fst a)) (frobenius n (fst a)) (size n (snd a))
      (growth (3 + terms)) (root n (count n (fst a)) * lost (2 + terms)).
  Definition roundings (k : known T) (x added : ball T) : T :=
    k_growth k * (k_size k * reach x + k_bias k + reach added) + k_lost k.
  Definition affine_ball (a : affine T) (k : known T) (x added : ball T) : ball T :=
    (map2 (add n) (fst added) (map2 (add n) (k_rows k (fst x)) (snd a)),
     k_stretch k * snd x + snd added + roundings k x added).
  Definition relu_ball (x : ball T) : ball T :=
    (map (fun a => larger n a (zero n)) (fst x), snd x).

  (** Norms: float32 has at least this deviation and this variance; and whether that is enough. *)
  Definition least_deviation (x : ball T) : T :=
    larger n (deviation n (fst x) - snd x / root n (count n (fst x))) (zero n).
  Definition square_error (x : ball T) : T :=
    units (4 * length (fst x) + 96) * (reach x * reach x / count n (fst x)) + least s.
  Definition least_variance (x : ball T) : T :=
    let d := least_deviation x in d * d - square_error x.
  Definition steadiness (x : ball T) : T := count n (fst x) * least_variance x.
  Definition norm_ball (w : scaling T) (x : ball T) : ball T :=
    let wide := root n (count n (fst x)) in let big := largest (fst w) in
    let low := least_deviation x in let variance := least_variance x in
    let deviation' := root n variance in
    let mean_error := units (length (fst x) + 48) * (reach x / wide) + least s in
    let factor := (of_Z n 1 + units 20) / deviation' + least s in
    let factor_error := units 20 / deviation' + least s
      + square_error x / (of_Z n 2 * variance * deviation') in
    (norm n w (fst x),
     big * (snd x / root n (deviation n (fst x) * low) + reach x * factor_error
       + wide * mean_error * factor)
     + units 10 * (big * factor * (of_Z n 2 * reach x + wide * mean_error) + size n (snd w))
     + wide * least s).

  (** Attention. *)
  Definition doubts_of (tokens : nat) (source : token -> ball T) (h : head T) : doubts T :=
    let through a := let k := known_of a in tabulate tokens (fun t =>
      let b := affine_ball a k (source t) (exactly (zeros (snd a))) in (reach b, snd b)) in
    Doubts T (through (query h)) (through (key_map h)) (through (value h))
      (sum n (map (fun level => of_Z n 8 * largest level) (biases h)))
      (root n (count n (snd (query h)))) (4 * length (snd (query h)) * S (length (biases h)) + 60).

  (** The largest length and error of some keys. *)
  Definition most (f : token -> T * T) (keys : list key) : T * T :=
    (largest (map (fun k => fst (f (fst k))) keys), largest (map (fun k => snd (f (fst k))) keys)).
  (** Weights are off by factors, at most exp of this. *)
  Definition shift (d : doubts T) (q : token) (keys : list key) : T :=
    let x := of_query d q in let y := most (of_key d) keys in
    let gross := fst x * fst y / scale d + largest_bias d in
    let score_error := units (score_units d) * gross + least s in
    (snd x * fst y + fst x * snd y) / scale d + score_error
    + units 16 * (of_Z n 2 * (gross + score_error)) + units (64 + 10 * length keys).
  (** The mean distance of values from z. *)
  Definition spread (p : parts T) (q : token) (keys : list key) (z : vector T) : T :=
    over n keys (fun k => weight_of n p q k * size n (map2 (sub n) (of_value p (fst k)) z))
    / over n keys (weight_of n p q).
  Definition head_ball (q : token) (keys : list key) (h : parts T * doubts T) : ball T :=
    let z := attended_head n q keys (fst h) in
    let factor := expo n (shift (snd h) q keys) in
    let y := most (of_value_ (snd h)) keys in let k := length keys in
    (z, factor * (factor - of_Z n 1) * spread (fst h) q keys z + snd y
        + (units (4 * k + 24) + number k / of_Z n (2 ^ 50) * number k) * fst y).

  Definition without_bias (W : matrix T) : affine T := (W, zeros W).
  Definition knowledge_of (w : weights T) : knowledge T :=
    let size_ := length (tokens w) in let source := tabulate size_ (source n w) in
    let ball t := exactly (embedding w t) in
    let balls := tabulate size_ (fun t => norm_ball (before_attention w) (ball t)) in
    Knowledge T
      (map (fun h => (parts_of n size_ source h, doubts_of size_ balls h)) (heads w))
      (tabulate size_ (fun t => steadiness (ball t)))
      (known_of (output w)) (known_of (up w)) (known_of (down w))
      (known_of (without_bias (logits w)))
      (map (fun a => map (fun b => size n (map2 (sub n) a b)) (logits w)) (logits w)).

  Variables (w : weights T) (k : knowledge T).

  Definition heads_ball (q : token) (keys : list key) : ball T :=
    let balls := map (head_ball q keys) (of_heads k) in
    (flat_map fst balls, size n (map snd balls)).
  Definition attention_ball (q : token) (z : ball T) : ball T :=
    affine_ball (output w) (of_output k) z (exactly (embedding w q)).
  Definition hidden_ball (x : ball T) : ball T :=
    let u := affine_ball (up w) (of_up k) (norm_ball (before_hidden w) x)
      (exactly (zeros (snd (up w)))) in
    affine_ball (down w) (of_down k) (relu_ball u) x.

  Definition leads (last : ball T) (y : token) : list T :=
    let l := k_rows (of_logits k) (fst last) in
    let e := roundings (of_logits k) last (exactly (zeros (logits w))) in
    map (fun v => nth y l (zero n) - nth v l (zero n)
        - (nth v (nth y (distances k) []) (zero n) * snd last + of_Z n 2 * e))
      (filter (fun v => negb (v =? y)) (seq 0 (length l))).

  (** All these are to be positive. *)
  Definition margins (c : context) : list T :=
    let '(q, keys, y) := c in
    let x := attention_ball q (heads_ball q keys) in let h := hidden_ball x in
    count n keys :: map (of_source k) (q :: map fst keys) ++ steadiness x :: steadiness h
    :: leads (norm_ball (before_logits w) h) y.
End Formulas.

(** Over the reals. *)
Definition real_tools : tools R := Tools R rows unit32 tiny.
Local Open Scope R_scope.
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
#[local] Hint Resolve times_pos tiny_pos' exp_pos' : pos.

Lemma grow_1 k : 1 <= Grow k.
Proof. rewrite <- exp_0. apply exp_le. pos. Qed.
Lemma grow_step k l : (k < l)%nat -> (1 + unit32) * Grow k <= Grow l.
Proof.
  intros H. apply Rle_trans with (exp (unit32 + times k)).
  - rewrite exp_plus. apply Rmult_le_compat_r; [pos|]. apply Rlt_le, exp_ineq1, Rgt_not_eq, unit32_pos.
  - apply exp_le. apply times_le in H. unfold times in *. rewrite Nat2Z.inj_succ, succ_IZR in H. lra.
Qed.
Lemma growth_pos k : 0 <= growth reals real_tools k.
Proof. pose proof (grow_1 k). unfold growth. change (0 <= Grow k - 1). lra. Qed.
#[local] Hint Resolve growth_pos : pos.

Lemma total_app l m : total (l ++ m) = total l + total m.
Proof. unfold sum. induction l as [|x l IH]; cbn in *; lra. Qed.
Lemma magnitude_bounds l : Rabs (total l) <= magnitude l.
Proof. pose proof (Sum_abs l (fun x => x)) as H. unfold Sum in H. rewrite map_id in H. exact H. Qed.
Lemma magnitude_pos l : 0 <= magnitude l.
Proof. eapply Rle_trans; [apply Rabs_pos|apply magnitude_bounds]. Qed.
#[local] Hint Resolve magnitude_pos : pos.

(** A sum of k terms: (k - 1) tiny numbers are added, and all grows by (1 + u) ^ k at most. *)
Lemma sums_error l r : sums l r -> Rabs (r - total l) + magnitude l
  <= Grow (length l) * (magnitude l + IZR (Z.of_nat (pred (length l))) * tiny).
Proof.
  pose proof unit32_pos as Hu. pose proof tiny_pos as Ht.
  induction 1 as [|x|k l m x y r Hk Hl Hm _ IHl _ IHm Hr].
  - unfold sum, magnitude. cbn. rewrite Rminus_0_r, Rabs_R0. lra.
  - unfold sum. cbn -[magnitude times]. replace (x - (x + 0)) with 0 by lra. rewrite Rabs_R0.
    pose proof (grow_1 1). pose proof (magnitude_pos [x]). nra.
  - unfold magnitude in *. rewrite (sum_permutation _ _ Hk), (sum_permutation _ _ (Permutation_map Rabs Hk)).
    rewrite (Permutation_length Hk), app_length, map_app, !total_app.
    fold (magnitude l) (magnitude m) in *.
    pose proof (magnitude_bounds l). pose proof (magnitude_bounds m).
    destruct l as [|a l]; [contradiction|]. destruct m as [|b m]; [contradiction|].
    pose proof (magnitude_pos (a :: l)). pose proof (magnitude_pos (b :: m)).
    cbn [length pred] in *. set (i := length l) in *. set (j := length m) in *.
    replace (pred (S i + S j)) with (i + j + 1)%nat by lia.
    rewrite !Nat2Z.inj_add, !plus_IZR. change (IZR (Z.of_nat 1)) with 1.
    pose proof (count_pos i). pose proof (count_pos j).
    pose proof (grow_step (S i) (S i + S j) ltac:(lia)). pose proof (grow_step (S j) (S i + S j) ltac:(lia)).
    pose proof (grow_1 (S i + S j)). unfold near in Hr.
    set (g := Grow (S i + S j)) in *. set (A := magnitude (a :: l)) in *. set (B := magnitude (b :: m)) in *.
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
    assert (Rabs (r - (S + T)) <= Rabs (r - (x + y)) + Rabs (x - S) + Rabs (y - T)) by (clear; absolute).
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
    set (X := fold_right Rplus (zero reals) xs) in *. set (P := fold_right Rplus (zero reals) ps) in *.
    split; clear - H IH1 IH2; [|pose proof (Rabs_triang (q - x) x) as D; ring_simplify (q - x + x) in D; lra].
    pose proof (Rabs_triang (q - x) (P - X)). replace (q + P - (x + X)) with (q - x + (P - X)) by ring. lra.
Qed.

Lemma dots_error row x terms r k : (length terms + length (products row x) <= k)%nat ->
  dots row x terms r -> Rabs (r - (total terms + dot_ row x))
    <= growth reals real_tools (S k) * (magnitude terms + magnitude (products row x)) + lost reals real_tools k.
Proof.
  intros Hk (ps & Hps & Hs). apply sums_error in Hs. destruct (near_totals _ _ Hps) as [H1 H2].
  change (dot_ row x) with (total (products row x)).
  change (growth reals real_tools (S k)) with (Grow (S k) - 1).
  change (lost reals real_tools k) with (IZR (Z.of_nat (2 * k)) * Grow k * tiny).
  unfold magnitude in Hs. rewrite map_app, app_length, <- (Forall2_length _ _ _ Hps), !total_app in Hs.
  fold (magnitude terms) (magnitude ps) in Hs. pose proof unit32_pos.
  set (xs := products row x) in *. set (j := (length terms + length xs)%nat) in *.
  pose proof (grow_1 j). pose proof (exp_le _ _ (times_le j k Hk)). pose proof (grow_step j (S k) ltac:(lia)).
  pose proof (exp_le _ _ (times_le j (S k) ltac:(lia))).
  assert (B : IZR (Z.of_nat (length xs)) + IZR (Z.of_nat (pred j)) <= IZR (Z.of_nat (2 * k)))
    by (rewrite <- plus_IZR; apply IZR_le; lia).
  pose proof (magnitude_pos terms). pose proof (magnitude_pos xs). pose proof tiny_pos.
  pose proof (count_pos (length xs)). pose proof (count_pos (pred j)).
  set (b := IZR (Z.of_nat (length xs))) in *. set (c := IZR (Z.of_nat (pred j))) in *.
  set (d := IZR (Z.of_nat (2 * k))) in *. set (g := Grow j) in *. set (g' := Grow (S k)) in *.
  assert (E1 : (g - 1) * magnitude ps <= (g - 1) * ((1 + unit32) * magnitude xs + b * tiny)) by mono.
  assert (E2 : ((1 + unit32) * g) * magnitude xs <= g' * magnitude xs) by mono.
  assert (E3 : g * magnitude terms <= g' * magnitude terms) by mono.
  assert (E4 : (b + c) * g * tiny <= d * Grow k * tiny) by mono.
  assert (Rabs (r - (total terms + total xs)) <= Rabs (r - (total terms + total ps)) + Rabs (total ps - total xs))
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
  destruct a as [W b]. unfold affines, nothing, each, zeros. cbn [fst snd]. rewrite map_map. revert b y.
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
  change (dot_ (snd b :: map snd balls) _) with (snd b * snd b + dot_ (map snd balls) (map snd balls)).
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
  cbn [breadth map fold_right] in Hk. destruct (IH b v _ ltac:(unfold breadth; lia) H4) as (L1 & L2 & IH').
  split; [cbn; rewrite L1; reflexivity|]. split; [cbn; lia|]. intros [|i] Hi.
  - cbn [nth map map2 combine fst snd] in *. apply (dots_error _ _ _ _ (2 + k)) in H2;
      [|unfold products; rewrite length_map2; cbn [length]; lia].
    replace (e + add reals (dot_ row x) o) with (total [o; e] + dot_ row x) by (unfold sum; cbn; ring).
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
  apply within_by; [exact L3|]. unfold affine_ball. cbn [fst snd known_of k_rows multiply real_tools].
  change (map2 (add reals) (rows (fst a) (fst bx)) (snd a)) with (apply reals a (fst bx)).
  change (add reals) with Rplus. set (y' := map2 Rplus v _) in *. set (ref := map2 Rplus (fst bv) _) in *.
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
    assert (Rabs (at_ y i - at_ ref i) <= Rabs (at_ y i - at_ y' i) + Rabs (at_ v i - at_ (fst bv) i)
      + Rabs (dot_ (nth i (fst a) []) x - dot_ (nth i (fst a) []) (fst bx))) by (clear He; absolute).
    lra.
  - unfold Sum, sum. cbn [map fold_right fst snd reals add mul root zero of_Z].
    rewrite Len_const by lra. unfold l at 6. rewrite seq_length.
    assert (Dv : Len l (fun i => at_ v i - at_ (fst bv) i) <= snd bv)
      by (eapply Rle_trans; [apply Len_minus, Lv|exact Hv]).
    assert (Dx : Len l (fun i => at_ (rows (fst a) dx) i) <= spectral reals (fst a) * snd bx)
      by (eapply Rle_trans; [apply Len_nth|eapply Rle_trans; [exact Ss|mono]]).
    assert (Dm : sqrt (IZR (Z.of_nat (length y))) <= sqrt (IZR (Z.of_nat (length (fst a)))))
      by (apply sqrt_le_1_alt, IZR_le; lia).
    pose proof (Len_nth (snd a) (length y)) as Db. pose proof (Len_nth (map Size (fst a)) (length y)) as Df.
    pose proof (Rle_trans _ _ _ (Len_nth v (length y)) Rv) as Dv'. change (count reals (fst a)) with (IZR (Z.of_nat (length (fst a)))).
    fold l in Db, Df, Dv'. change (Size (map Size (fst a))) with (frobenius reals (fst a)) in Df.
    match goal with |- 1 * ?dv + (1 * ?dx + (g * ?X * ?F + (g * ?B + (g * ?V + (t * (?m * 1) + 0))))) <= _ =>
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
    apply sqrt_le_1_alt. pose proof (centre_square f). pose proof (Sum_squares l (fun i => f i - mean f)).
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
    assert (0 <= Sum l (fun i => (c' i / d' - c i / d) * (c' i / d' - c i / d)) * (d * d')) by pos. lra.
  Qed.
  Lemma normed_distance low : 0 < low -> low <= d' ->
    Len l (fun i => c' i / d' - c i / d) <= Len l (fun i => c' i - c i) / sqrt (d * low).
  Proof.
    intros Hl Hld. assert (P : 0 < d * low) by (apply Rmult_lt_0_compat; assumption).
    apply le_div; [apply sqrt_lt_R0, P|]. unfold Len. rewrite <- sqrt_mult by pos.
    apply sqrt_le_1_alt. rewrite <- deviations_distance.
    apply Rle_trans with (Sum l (fun i => (c' i / d' - c i / d) * (c' i / d' - c i / d)) * (d * d')); [mono|].
    assert (0 <= N * ((d - d') * (d - d')) + N * e * ((d - d') * (d - d') / (d * d'))) by pos. lra.
  Qed.
End Centre.

Lemma absolute_is a : absolute reals a = Rabs a.
Proof. change (Rmax a (0 - a) = Rabs a). unfold Rmax. destruct (Rle_dec _ _); absolute. Qed.
Lemma largest_bounds w i : Rabs (at_ w i) <= largest reals w.
Proof.
  revert i. induction w as [|a w IH]; intros i; [rewrite at_nil, Rabs_R0; apply Rle_refl|].
  change (largest reals (a :: w)) with (Rmax (absolute reals a) (largest reals w)). rewrite absolute_is.
  pose proof (Rmax_l (Rabs a) (largest reals w)). pose proof (Rmax_r (Rabs a) (largest reals w)).
  destruct i as [|i]; cbn [nth]; [|specialize (IH i)]; lra.
Qed.
Lemma largest_in l a : In a l -> a <= largest reals l.
Proof.
  intros H. destruct (In_nth l a 0 H) as (i & _ & <-). eapply Rle_trans; [apply Rle_abs|apply largest_bounds].
Qed.
Lemma largest_pos l : 0 <= largest reals l.
Proof. eapply Rle_trans; [apply Rabs_pos|apply (largest_bounds l 0)]. Qed.
#[local] Hint Resolve largest_pos : pos.

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
    intros H. unfold centred, centre_of. rewrite <- mean_is. apply (nth_map (fun y => y - mean reals x)), H.
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
    intros HN. replace (deviation reals x) with (sqrt (Sum l (fun i => centre_of i * centre_of i) / N + 1 / 100000)).
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
    intros H. pose proof H as H'. rewrite length_norm in H. unfold norm in *. cbn [reals add mul div] in *.
    rewrite nth_map2, nth_map2, <- at_centred by (try exact H'; try lia; rewrite length_map2; unfold centred;
      rewrite !map_length; lia).
    f_equal. f_equal. apply (nth_map (fun y => y / deviation reals x)). unfold centred.
    rewrite map_length. lia.
  Qed.
End Statistics.

(** Roots of numbers that differ by e at most. *)
Lemma inverse_roots a d e low : 0 < low -> low <= a -> low <= d * d -> 0 < d ->
  Rabs (a - d * d) <= e -> Rabs (1 / sqrt a - 1 / d) <= e / (2 * low * sqrt low).
Proof.
  intros Hl Ha Hd Pd He. pose proof (sqrt_lt_R0 _ Hl) as Hb. pose proof (sqrt_sqrt low ltac:(lra)) as Eb.
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
    destruct (deviation_is (fst b)) as [P E]; [rewrite <- (proj1 Hx); exact HN|]. rewrite <- (proj1 Hx) in E.
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
    pose proof (normed_distance l N HN _ _ _ _ (1 / 100000) P P' E E' ltac:(lra) low Hlow Hd') as Hn.
    cbv zeta in Hv. rewrite centred_squares, (mean_squares x x _ eq_refl (fun i _ => eq_refl)) in Hv.
    set (X := reach reals b) in *. set (W := sqrt N). assert (HW : 0 < W) by (apply sqrt_lt_R0, HN).
    rewrite (size_nth x _ (le_n _)) in HX. set (Lx := Len l (fun i => at_ x i)) in *.
    assert (HLx : 0 <= Lx) by apply Len_pos. pose proof tiny_pos'.
    (* the mean *)
    set (dm := times (length x + 48) * (X / W) + tiny).
    assert (Hmean : forall f, (forall i, Rabs (f i) = Rabs (at_ x i)) -> Rabs (Sum l f / N) <= X / W).
    { intros f Hf'. eapply Rle_trans; [apply mean_le; [exact N_length|exact HN]|]. apply Rdiv_le; [exact HW|].
      eapply Rle_trans; [|exact HX]. apply Len_le. intros i _. rewrite Hf'. apply Rle_refl. }
    assert (Hdm : Rabs (m - mean reals x) <= dm).
    { eapply Rle_trans; [exact Hm|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [pos|].
      rewrite mean_is, map_length. eapply Rle_trans; [apply Rle_abs|apply Hmean]. intros i.
      rewrite <- Rabs_R0 at 1. rewrite (map_nth Rabs). apply Rabs_Rabsolu. }
    assert (Hm' : Rabs m <= X / W + dm).
    { pose proof (Hmean (fun i => at_ x i) (fun i => eq_refl)) as M. rewrite <- mean_is in M. clear - M Hdm.
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
    assert (Hdev : 0 < dev) by (apply sqrt_lt_R0, Plv). assert (Hrt : dev <= rt) by (apply sqrt_le_1_alt, Ha).
    set (fe := times 20 / dev + tiny + sq / (2 * lv * dev)). set (F := (1 + times 20) / dev + tiny).
    assert (Hir : Rabs (1 / rt) <= 1 / dev).
    { rewrite Rabs_right by (apply Rle_ge; pos). unfold Rdiv. rewrite !Rmult_1_l. apply Rinv_le_contravar; lra. }
    assert (Hr' : Rabs (r - 1 / rt) <= times 20 * (1 / dev) + tiny) by (eapply Rle_trans; [exact Hr|mono]).
    replace (times 20 * (1 / dev)) with (times 20 / dev) in Hr' by (field; lra).
    assert (Hfe : Rabs (r - 1 / d') <= fe) by (unfold fe; clear - Hr' Hi; absolute).
    assert (HF : Rabs r <= F).
    { unfold F. replace ((1 + times 20) / dev) with (1 / dev + times 20 / dev) by (field; lra).
      clear - Hr' Hir. absolute. }
    pose proof (Rle_trans _ _ _ (Rabs_pos _) HF) as HF0. pose proof (Rle_trans _ _ _ (Rabs_pos _) Hfe) as Hfe0.
    pose proof (Rle_trans _ _ _ (Rabs_pos _) Hdm) as Hdm0.
    set (big := largest reals (fst s)). pose proof (largest_pos (fst s) : 0 <= big) as Hbig.
    (* together *)
    assert (Ly : length y = length (norm reals s (fst b)))
      by (rewrite length_norm, <- L, <- (Forall2_length _ _ _ Hf), !combine_length; reflexivity).
    apply within_by; [exact Ly|]. pose proof Ly as Ln. rewrite length_norm, <- L in Ln.
    cbn [norm_ball fst snd]. set (k := times 10 * (big * F) * Rabs m + tiny + big * F * dm).
    pose proof (times_pos 10). assert (Hk : 0 <= k) by (unfold k; pos).
    set (n := length y) in *.
    eapply Rle_trans; [apply (Len_terms _ [(big, fun i => centre_of x i / d' - centre_of (fst b) i / d);
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
      eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat; apply Rabs_triang|].
      rewrite !Rabs_mult, Rabs_Ropp. rewrite Rabs_mult in Hf.
      assert (times 10 * ((Rabs a + Rabs m) * (Rabs r * Rabs w) + Rabs o)
        <= times 10 * ((Rabs a + Rabs m) * (F * big) + Rabs o)) by mono.
      assert (Rabs w * Rabs (c' / d' - c / d) <= big * Rabs (c' / d' - c / d)) by mono.
      assert (Rabs w * Rabs c' * Rabs (r - 1 / d') <= big * Rabs c' * fe) by mono.
      assert (Rabs w * Rabs (m - mean reals x) * Rabs r <= big * dm * F) by mono.
      unfold k. lra.
    - unfold Sum at 1, sum. cbn [map fold_right fst snd reals add zero of_Z].
      rewrite Len_const, seq_length by lra. unfold count. rewrite <- L. cbn [reals of_Z div root mul add].
      fold X sq lv W dev big. change (Units (length x + 48) * (X / W) + least real_tools) with dm.
      change ((1 + Units 20) / dev + least real_tools) with F.
      change (Units 20 / dev + least real_tools + sq / (2 * lv * dev)) with fe.
      change (Units 10) with (times 10). change (least real_tools) with tiny.
      assert (D1 : Len (seq 0 n) (fun i => centre_of x i / d' - centre_of (fst b) i / d) <= snd b / sqrt (d * low)).
      { eapply Rle_trans; [apply (Len_prefix n (length x)); lia|]. eapply Rle_trans; [exact Hn|].
        apply Rdiv_le; [apply sqrt_lt_R0, Rmult_lt_0_compat; assumption|exact Hc]. }
      assert (D2 : Len (seq 0 n) (centre_of x) <= X).
      { eapply Rle_trans; [apply (Len_prefix n (length x)); lia|]. eapply Rle_trans; [|exact HX].
        apply (centre_shortens l N N_length HN). }
      assert (D3 : Len (seq 0 n) (fun i => at_ x i) <= X)
        by (eapply Rle_trans; [apply (Len_prefix n (length x)); lia|exact HX]).
      pose proof (Len_nth (snd s) n) as D4.
      assert (D5 : sqrt (IZR (Z.of_nat n)) * 1 <= W) by (rewrite Rmult_1_r; apply sqrt_le_1_alt, IZR_le; lia).
      assert (D6 : Rabs m * W <= X + W * dm)
        by (replace (X + W * dm) with ((X / W + dm) * W) by (field; lra); mono).
      apply Rle_trans with (big * (snd b / sqrt (d * low)) + big * fe * X + times 10 * (big * F) * X
        + times 10 * Size (snd s) + k * W).
      + rewrite !Rplus_assoc. rewrite (Rplus_0_r (k * _)). mono.
      + unfold k. assert (times 10 * (big * F) * (Rabs m * W) <= times 10 * (big * F) * (X + W * dm)) by mono.
        lra.
  Qed.
End Norm.

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

  Lemma weight_bounds x : In x data -> weight x * exp (- e) <= weight' x
    /\ Rabs (weight' x - weight x) <= weight x * (exp e - 1) /\ 0 < weight' x.
  Proof.
    intros H. destruct (weights_near x H) as (t & Ht & ->). specialize (positive x H).
    assert (L : forall u v, u <= v -> exp u <= exp v)
      by (intros u v [Huv| ->]; [apply Rlt_le, exp_increasing, Huv|apply Rle_refl]).
    assert (Ht' : - e <= t <= e) by (unfold Rabs in Ht; destruct (Rcase_abs t); lra).
    pose proof (L (- e) t ltac:(lra)). pose proof (L t e ltac:(lra)). pose proof (exp_pos t).
    assert (exp e * exp (- e) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    assert (1 <= exp e) by (rewrite <- exp_0; apply L; lra).
    assert (0 <= (exp e - 1) * (exp e - 1)) by apply square_pos.
    assert (1 - exp (- e) <= exp e - 1) by (pose proof (exp_pos (- e)); nra).
    split; [|split].
    - apply Rmult_le_compat_l; lra.
    - replace (weight x * exp t - weight x) with (weight x * (exp t - 1)) by ring.
      rewrite Rabs_mult, Rabs_right by lra. apply Rmult_le_compat_l; [lra|].
      unfold Rabs. destruct (Rcase_abs (exp t - 1)); lra.
    - apply Rmult_lt_0_compat; assumption.
  Qed.

  Lemma total_bounds : Sum data weight * exp (- e) <= Sum data weight' /\ 0 < Sum data weight'.
  Proof.
    assert (H : Sum data weight * exp (- e) <= Sum data weight').
    { rewrite Rmult_comm, <- Sum_scale. apply Sum_le. intros x Hx. rewrite Rmult_comm.
      apply weight_bounds, Hx. }
    split; [exact H|]. eapply Rlt_le_trans; [|exact H]. apply Rmult_lt_0_compat; [exact some|apply exp_pos].
  Qed.

  Lemma mean_within : Len l (fun i => z' i - z i)
    <= exp e * (exp e - 1) * (Sum data (fun x => weight x * Len l (fun i => value x i - z i)) / Sum data weight)
       + error + (a + b * IZR (Z.of_nat (length data))) * long.
  Proof.
    destruct total_bounds as [HW PW]. set (W := Sum data weight) in *. set (W' := Sum data weight') in *.
    set (y i := Sum data (fun x => weight' x * value' x i) / W').
    (* roundings *)
    assert (H1 : Len l (fun i => z' i - y i) <= Sum data (fun x => (a * (weight' x / W') + b) * Len l (value' x))).
    { apply Len_terms.
      - intros x Hx. pose proof (weight_bounds x Hx) as (_ & _ & P).
        assert (0 <= weight' x / W') by (apply le_div; lra).
        pose proof (Rmult_le_pos a (weight' x / W') a_pos ltac:(assumption)). lra.
      - intros i Hi. eapply Rle_trans; [apply rounded, Hi|]. unfold Rdiv at 1. fold W'.
        rewrite (Rmult_comm (Sum _ _) (/ W')), <- Rmult_assoc, <- !Sum_scale, <- Sum_plus.
        apply Req_le, Sum_ext. intros x _. unfold Rdiv. ring. }
    (* values *)
    set (c i := Sum data (fun x => weight' x * value x i) / W').
    assert (H2 : Len l (fun i => y i - c i)
      <= Sum data (fun x => weight' x / W' * Len l (fun i => value' x i - value x i))).
    { apply Len_terms.
      - intros x Hx. pose proof (weight_bounds x Hx) as (_ & _ & P). apply le_div; lra.
      - intros i Hi. unfold y, c. rewrite <- !Sum_div.
        match goal with |- Rabs (?s - ?t) <= _ => replace (s - t) with (s + -1 * t) by ring end.
        rewrite <- Sum_scale, <- Sum_plus. eapply Rle_trans; [apply Sum_abs|]. apply Sum_le.
        intros x Hx. pose proof (weight_bounds x Hx) as (_ & _ & P).
        replace (weight' x * value' x i / W' + _) with (weight' x / W' * (value' x i - value x i))
          by (field; lra).
        rewrite Rabs_mult, (Rabs_right (weight' x / W')) by (apply Rle_ge, le_div; lra). lra. }
    (* weights *)
    assert (H3 : Len l (fun i => c i - z i)
      <= Sum data (fun x => Rabs (weight' x - weight x) / W' * Len l (fun i => value x i - z i))).
    { apply Len_terms.
      - intros x Hx. apply le_div; [exact PW|]. pose proof (Rabs_pos (weight' x - weight x)). lra.
      - intros i Hi.
        replace (c i - z i) with (Sum data (fun x => (weight' x - weight x) / W' * (value x i - z i))).
        + eapply Rle_trans; [apply Sum_abs|]. apply Sum_le. intros x Hx. unfold Rdiv.
          rewrite !Rabs_mult, (Rabs_right (/ W')) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat, PW). lra.
        + assert (E : Sum data (fun x => weight x * value x i) = z i * W)
            by (rewrite (mean i Hi); fold W; field; lra).
          rewrite (Sum_ext data _ (fun x => (weight' x * value x i + - z i * weight' x
            + (-1 * (weight x * value x i) + z i * weight x)) / W')) by (intros; field; lra).
          rewrite Sum_div, !Sum_plus, !Sum_scale, E. fold W W'. unfold c. field. lra. }
    (* together *)
    assert (B1 : Sum data (fun x => (a * (weight' x / W') + b) * Len l (value' x))
      <= (a + b * IZR (Z.of_nat (length data))) * long).
    { replace (a + b * IZR (Z.of_nat (length data))) with (Sum data (fun x => a * (weight' x / W') + b))
        by (rewrite Sum_plus, Sum_scale, Sum_div, Sum_const; fold W'; field; lra).
      rewrite Rmult_comm, <- Sum_scale. apply Sum_le. intros x Hx. rewrite Rmult_comm.
      pose proof (weight_bounds x Hx) as (_ & _ & P). apply Rmult_le_compat_r; [|apply lengths, Hx].
      assert (0 <= weight' x / W') by (apply le_div; lra).
      pose proof (Rmult_le_pos a (weight' x / W') a_pos ltac:(assumption)). lra. }
    assert (B2 : Sum data (fun x => weight' x / W' * Len l (fun i => value' x i - value x i)) <= error).
    { replace error with (error * Sum data (fun x => weight' x / W')) by (rewrite Sum_div; fold W'; field; lra).
      rewrite <- Sum_scale. apply Sum_le. intros x Hx. rewrite Rmult_comm.
      pose proof (weight_bounds x Hx) as (_ & _ & P).
      apply Rmult_le_compat_r; [apply le_div; lra|apply values_near, Hx]. }
    assert (B3 : Sum data (fun x => Rabs (weight' x - weight x) / W' * Len l (fun i => value x i - z i))
      <= exp e * (exp e - 1) * (Sum data (fun x => weight x * Len l (fun i => value x i - z i)) / W)).
    { rewrite <- Sum_div, <- Sum_scale. apply Sum_le. intros x Hx.
      pose proof (weight_bounds x Hx) as (_ & P & _). pose proof (exp_pos e).
      replace (exp e * (exp e - 1) * _) with (weight x * (exp e - 1) * (exp e / W)
        * Len l (fun i => value x i - z i)) by (field; lra).
      apply Rmult_le_compat_r; [apply Len_pos|].
      apply Rmult_le_compat; [apply Rabs_pos|apply Rlt_le, Rinv_0_lt_compat, PW|exact P|].
      apply le_div; [exact some|]. fold W. apply (Rmult_le_reg_l W'); [exact PW|].
      rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra.
      assert (exp e * exp (- e) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
      pose proof (Rmult_le_compat_l (exp e) _ _ ltac:(lra) HW). 
      replace W with (exp e * (W * exp (- e))) by (rewrite (Rmult_comm W), <- Rmult_assoc, H0; ring). lra. }
    eapply Rle_trans; [apply (Len_le l _ (fun i => (z' i - y i) + ((y i - c i) + (c i - z i))))|].
    - intros i _. apply Req_le. f_equal. ring.
    - eapply Rle_trans; [apply Len_plus|]. pose proof (Len_plus l (fun i => y i - c i) (fun i => c i - z i)). lra.
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

  Lemma most_bounds a f x : In x data -> (forall t, f t = (reach reals (through a t), snd (through a t))) ->
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
    Rabs (d_score x - score reals w h q (d_key x)) <= (snd Q * fst K + reach reals Q * snd K) * iw + score_error
    /\ Rabs (d_score x) <= gross + score_error.
  Proof.
    intros Hx. pose proof Hdata as Hd. rewrite Forall_forall in Hd.
    destruct (Hd x Hx) as (s' & k & Hs' & Hk & _ & Hscore & _). cbv zeta in Hscore.
    assert (Ht : In (fst (d_key x)) (q :: map fst keys))
      by (right; apply in_map; rewrite <- Hkeys; apply in_map, Hx).
    pose proof (through_within _ _ _ _ (or_introl eq_refl) Hs Hq) as Bq. fold Q in Bq.
    pose proof (through_within _ _ _ _ Ht Hs' Hk) as Bk.
    pose proof (dot_near _ _ _ _ Bq Bk) as D. unfold Q in D at 1. rewrite !through_is in D.
    destruct (most_bounds _ (of_key d) _ Hx (known_through (key_map h))) as [Mk Ek]. fold K in Mk, Ek.
    pose proof (within_reach _ _ Bq) as Rq. pose proof (within_reach _ _ Bk) as Rk.
    pose proof (within_error _ _ Bq). pose proof (within_error _ _ Bk).
    pose proof (size_pos qv). pose proof (size_pos k).
    assert (Hi : 0 <= iw) by apply inverse_pos, sqrt_pos.
    pose proof (bias_bound (d_key x)) as HB. unfold Rdiv in Hscore.
    change (sqrt (IZR (Z.of_nat (length (snd (query h)))))) with (scale d) in Hscore. fold iw in Hscore.
    set (biases := map _ (combine _ _)) in *. pose proof (magnitude_bounds biases).
    set (ps := products qv k) in *. pose proof (products_le qv k) as Hp. fold ps in Hp.
    assert (M : magnitude ps * iw <= reach reals Q * fst K * iw).
    { apply Rmult_le_compat_r; [exact Hi|]. eapply Rle_trans; [exact Hp|].
      pose proof (Rle_trans _ _ _ Rk Mk). mono. }
    assert (D' : Rabs (total ps * iw) <= magnitude ps * iw).
    { rewrite Rabs_mult, (Rabs_right iw) by lra. apply Rmult_le_compat_r; [exact Hi|]. apply magnitude_bounds. }
    assert (HE : times (4 * length (snd (query h)) * S (length biases) + 60)
        * (magnitude ps * iw + magnitude biases) + tiny <= score_error).
    { assert (times (4 * length (snd (query h)) * S (length biases) + 60) <= times (score_units d)).
      { apply times_le. cbn [score_units d doubts_of]. unfold biases. rewrite map_length, combine_length. nia. }
      assert (magnitude ps * iw + magnitude biases <= gross) by (unfold gross; lra).
      unfold score_error. mono. }
    assert (Hd' : Rabs (d_score x - (total ps * iw + total biases)) <= score_error) by lra.
    split; [|clear D; unfold gross in *; absolute].
    assert (D2 : Rabs (total ps * iw - dot_ (apply reals (query h) (source reals w q))
      (apply reals (key_map h) (source reals w (fst (d_key x)))) * iw)
      <= (snd Q * fst K + reach reals Q * snd K) * iw).
    { rewrite <- Rmult_minus_distr_r, Rabs_mult, (Rabs_right iw) by lra. apply Rmult_le_compat_r; [exact Hi|].
      eapply Rle_trans; [exact D|]. mono. }
    change (score reals w h q (d_key x)) with (dot_ (apply reals (query h) (source reals w q))
      (apply reals (key_map h) (source reals w (fst (d_key x)))) * iw + total biases).
    clear - Hd' D2. absolute.
  Qed.

  Lemma weight_near x : In x data -> exists t, Rabs t <= shift reals real_tools d q keys
    /\ d_weight x = exp (score reals w h q (d_key x)) * exp t.
  Proof.
    intros Hx. destruct (score_near x Hx) as [Sx Ax]. pose proof Hdata as Hd. rewrite Forall_forall in Hd.
    destruct (Hd x Hx) as (_ & _ & _ & _ & _ & _ & y & e & Hy & Hw & He).
    destruct (score_near y Hy) as [_ Ay]. rewrite <- (map_length d_key data), Hkeys in He.
    exists (d_score x - score reals w h q (d_key x) + e). split.
    - replace (shift reals real_tools d q keys) with ((snd Q * fst K + reach reals Q * snd K) * iw
        + score_error + times 16 * (2 * (gross + score_error)) + times (64 + 10 * length keys))
        by (unfold shift; unfold shift; change (of_query d q) with (tabulate size_ (fun t =>
          let b := affine_ball reals (query h) (Known_of (query h)) (tabulate size_ (fun t => source_ball t) t)
        (Exactly (Zeros (snd (query h)))) in (reach reals b, snd b)) q); rewrite known_through; reflexivity).
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (times_pos 16).
      assert (times 16 * (Rabs (d_score x) + Rabs (d_score y)) <= times 16 * (2 * (gross + score_error)))
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
    - intros k. unfold parts. rewrite weight_of_tables. cbn [of_value parts_of]. rewrite !tabulate_eq.
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
      * Len indices (fun i => value_at (d_key x) i - at_ ref i)) / Sum data (fun x => weight (d_key x))).
    { change (spread reals parts q keys ref) with (Sum keys (fun k => weight_of reals parts q k
        * Size (minus (of_value parts (fst k)) ref)) / Sum keys (weight_of reals parts q)).
      rewrite !SK. f_equal; apply Sum_ext; intros x _; unfold parts; rewrite weight_of_tables; [|reflexivity].
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
    - intros x Hx. pose proof (Len_minus _ _ (proj1 (Hv x Hx)) (length z)) as V. rewrite through_is in V.
      eapply Rle_trans; [exact V|]. rewrite <- through_is. eapply Rle_trans; [apply Hv, Hx|apply HM, Hx].
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
    - eapply Rle_trans; [exact A|]. eapply Rle_trans; [apply Len_minus, HL|]. eapply Rle_trans; [exact H|].
      pose proof (within_reach _ _ Hx) as HX. unfold b. cbn [affine_ball snd exactly]. change (zero reals) with 0.
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
    specialize (H _ (in_map _ _ v Hin)). cbn [reals sub mul add of_Z] in H. change (zero reals) with 0 in H.
    cbn [knowledge_of of_logits distances known_of k_rows multiply real_tools without_bias fst] in H.
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
  (forall v, (v < length (logits w))%nat -> length (nth v (logits w) []) = length (hd [] (logits w))) ->
  (y < length (logits w))%nat ->
  Forall (Rlt 0) (margins reals real_tools w (knowledge_of reals real_tools w) (q, keys, y)) ->
  float_pass w q keys l -> leads_by 0 l y.
Proof.
  intros same Hy M (zs & x & n1 & u & h & last & H1 & H2 & H3 & H4 & H5 & H6 & H7).
  unfold margins in M. cbv zeta in M. rewrite Forall_cons_iff, Forall_app, !Forall_cons_iff in M.
  destruct M as (Hkeys & Hsource & M1 & M2 & M3). rewrite Forall_forall in Hsource.
  assert (Z : within (heads_ball reals real_tools (knowledge_of reals real_tools w) q keys) (concat zs)).
  { apply concat_within. cbn [knowledge_of of_heads]. rewrite map_map.
    assert (steady : forall t, In t (q :: map fst keys) ->
      0 < steadiness reals real_tools (Exactly (embedding w t))).
    { intros t Ht. specialize (Hsource _ (in_map _ _ _ Ht)). cbn [knowledge_of of_source] in Hsource.
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
