(** How far float32 may be from the reals after attention: [margins] says it by formulas. If all of
    them are positive, the due token leads in every result that [float_pass] allows. *)

From Coq Require Import List Arith ZArith Reals Bool Permutation Lia Lra.
From Carry Require Import Decoding Windows Transformer Float32 Related Tables.
Import ListNotations.

(** * The formulas *)

Section Formulas.
  (** Of numbers, and of how a matrix is multiplied by a vector. *)
  Context {T : Type} (n : arithmetic T) (multiply : matrix T -> vector T -> vector T).
  Local Infix "+" := (add n).
  Local Infix "-" := (sub n).
  Local Infix "*" := (mul n).
  Local Infix "/" := (div n).

  (** Units, tiny numbers, and what a sum of k terms may lose: relatively, and to underflow. *)
  Definition number (k : nat) : T := of_Z n (Z.of_nat k).
  Definition units (k : nat) : T := number k / of_Z n (2 ^ 24).
  Definition smallest : T := of_Z n 1 / of_Z n (2 ^ 126).
  Definition growth (k : nat) : T := expo n (units k) - of_Z n 1.
  Definition lost (k : nat) : T := number (2 * k) * expo n (units k) * smallest.

  (** The length of a vector; of a matrix as one vector; the largest absolute number. *)
  Definition size (x : vector T) : T := root n (dot n x x).
  Definition frobenius (W : matrix T) : T := size (map size W).
  Definition absolute (a : T) : T := larger n a (zero n - a).
  Definition largest (x : vector T) : T := fold_right (fun a m => larger n (absolute a) m) (zero n) x.

  (** By how much a matrix may stretch a vector. W^T W stretches by the square at most, and so on. *)
  Definition breadth (W : matrix T) : nat := fold_right Nat.max 0 (map (@length T) W).
  Definition columns (W : matrix T) : matrix T :=
    map (fun j => map (fun row => nth j row (zero n)) W) (seq 0 (breadth W)).
  Definition gram (W : matrix T) : matrix T :=
    let C := columns W in map (fun c => map (fun d => dot n d c) C) C.
  Fixpoint stretch (k : nat) (W : matrix T) : T :=
    match k with O => frobenius W | S k => root n (stretch k (gram W)) end.
  Definition spectral (W : matrix T) : T :=
    stretch 3 (if length W <? breadth W then columns W else W).

  (** A vector over the reals, and how far that of float32 may be from it. *)
  Definition ball := (vector T * T)%type.
  Definition reach (b : ball) : T := size (fst b) + snd b.

  (** What is known of an affine map, calculated once: how it is done, by how much it stretches, the
      sizes of its weight and bias, and the errors of its roundings: relatively, and absolutely. *)
  Record known := Known {
    k_rows : vector T -> vector T; k_stretch : T; k_size : T; k_bias : T; k_growth : T; k_lost : T }.
  Definition known_of (a : affine T) : known :=
    let terms := breadth (fst a) in
    Known (multiply (fst a)) (spectral (fst a)) (frobenius (fst a)) (size (snd a))
      (growth (3 + terms)) (root n (count n (fst a)) * lost (2 + terms)).

  (** The rounding errors of an affine map of x to which a vector is added, and all errors. *)
  Definition roundings (k : known) (x added : ball) : T :=
    k_growth k * (k_size k * reach x + k_bias k + reach added) + k_lost k.
  Definition affine_ball (a : affine T) (k : known) (x added : ball) : ball :=
    (map2 (add n) (fst added) (map2 (add n) (k_rows k (fst x)) (snd a)),
     k_stretch k * snd x + snd added + roundings k x added).
  Definition relu_ball (x : ball) : ball := (map (fun a => larger n a (zero n)) (fst x), snd x).
  Definition no_vector {A} (l : list A) : ball := (map (fun _ => zero n) l, zero n).

  (** Norms: float32 has at least this deviation, and this variance. *)
  Definition least_deviation (x : ball) : T :=
    larger n (deviation n (fst x) - snd x / root n (count n (fst x))) (zero n).
  Definition square_error (x : ball) : T :=
    units (4 * length (fst x) + 96) * (reach x * reach x / count n (fst x)) + smallest.
  Definition least_variance (x : ball) : T :=
    let s := least_deviation x in s * s - square_error x.
  (** Positive if there are numbers, and float32 has a positive variance. *)
  Definition steadiness (x : ball) : T := count n (fst x) * least_variance x.
  Definition norm_ball (s : scaling T) (x : ball) : ball :=
    let wide := root n (count n (fst x)) in
    let low := least_deviation x in let variance := least_variance x in
    let least := root n variance in
    let big := largest (fst s) in let mean_error := units (length (fst x) + 48) * (reach x / wide) + smallest in
    let factor := (of_Z n 1 + units 20) / least + smallest in
    let factor_error := units 20 / least + smallest
      + square_error x / (of_Z n 2 * variance * least) in
    (norm n s (fst x),
     big * (snd x / root n (deviation n (fst x) * low)
       + reach x * factor_error
       + wide * mean_error * factor)
     + units 10 * (big * factor * (of_Z n 2 * reach x + wide * mean_error)
       + size (snd s))
     + wide * smallest).

  Definition embedding_ball (w : weights T) (t : token) : ball := (embedding w t, zero n).

  (** Of a head: the errors of its scores but for roundings; the terms of scores, added absolutely;
      the errors of values, and their lengths. *)
  Record doubts := Doubts {
    crossed : token -> token -> T; gross : token -> token -> T; gross_rows : list (nat -> T);
    value_error : token -> T; value_reach : token -> T; score_units : nat }.

  Definition doubts_of (size_ : nat) (source : token -> ball) (h : head T) : doubts :=
    let through a := let k := known_of a in
      tabulate size_ (fun t => affine_ball a k (source t) (no_vector (snd a))) in
    let queries := through (query h) in let keys := through (key_map h) in
    let values := through (value h) in
    let scale := root n (count n (snd (query h))) in
    Doubts
      (tabulate size_ (fun q => let x := queries q in tabulate size_ (fun t =>
         (snd x * reach (keys t) + size (fst x) * snd (keys t)) / scale)))
      (tabulate size_ (fun q => let x := reach (queries q) in tabulate size_ (fun t =>
         x * reach (keys t) / scale)))
      (map (fun level => tabulate (length level)
         (fun r => absolute (of_Z n 8 * nth r level (zero n)))) (biases h))
      (tabulate size_ (fun t => snd (values t))) (tabulate size_ (fun t => reach (values t)))
      (4 * length (snd (query h)) * S (length (biases h)) + 60).

  (** The relative error of a weight is below exp of this, less 1. *)
  Definition shift (d : doubts) (q : token) (keys : list key) : T :=
    let g := largest (map (fun k => gross d q (fst k)
      + sum n (map (fun p => fst p (snd p)) (combine (gross_rows d) (snd k)))) keys) in
    let e := units (score_units d) * g + smallest in
    largest (map (fun k => crossed d q (fst k)) keys) + e
    + units 16 * (of_Z n 2 * (g + e)) + units (64 + 10 * length keys).

  (** The mean distance of values from z. *)
  Definition spread (p : parts T) (q : token) (keys : list key) (z : vector T) : T :=
    over n keys (fun k => weight_of n p q k * size (map2 (sub n) (of_value p (fst k)) z))
    / over n keys (weight_of n p q).

  Definition head_ball (q : token) (keys : list key) (h : parts T * doubts) : ball :=
    let z := attended_head n q keys (fst h) in
    let factor := expo n (shift (snd h) q keys) in
    (z, factor * (factor - of_Z n 1) * spread (fst h) q keys z
        + largest (map (fun k => value_error (snd h) (fst k)) keys)
        + (units (4 * length keys + 24) + number (length keys * length keys) / of_Z n (2 ^ 50))
          * largest (map (fun k => value_reach (snd h) (fst k)) keys)).

  (** What is known of a model; of the logits, the distances between their rows. *)
  Record knowledge := Knowledge {
    of_heads : list (parts T * doubts); of_source : token -> T;
    of_output : known; of_up : known; of_down : known; of_logits : known;
    distances : list (list T) }.
  Definition without_bias (W : matrix T) : affine T := (W, map (fun _ => zero n) W).
  Definition knowledge_of (w : weights T) : knowledge :=
    let size_ := length (tokens w) in
    let source := tabulate size_ (source n w) in
    let balls := tabulate size_ (fun t => norm_ball (before_attention w) (embedding_ball w t)) in
    Knowledge
      (map (fun h => (parts_of n size_ source h, doubts_of size_ balls h)) (heads w))
      (tabulate size_ (fun t => steadiness (embedding_ball w t)))
      (known_of (output w)) (known_of (up w)) (known_of (down w))
      (known_of (without_bias (logits w)))
      (map (fun a => map (fun b => size (map2 (sub n) a b)) (logits w)) (logits w)).

  Variables (w : weights T) (k : knowledge).

  Definition heads_ball (q : token) (keys : list key) : ball :=
    let balls := map (head_ball q keys) (of_heads k) in
    (flat_map fst balls, size (map snd balls)).
  Definition attention_ball (q : token) (z : ball) : ball :=
    affine_ball (output w) (of_output k) z (embedding_ball w q).
  Definition hidden_ball (x : ball) : ball :=
    let u := affine_ball (up w) (of_up k) (norm_ball (before_hidden w) x) (no_vector (snd (up w))) in
    affine_ball (down w) (of_down k) (relu_ball u) x.

  (** The leads of the due token, each less its error. *)
  Definition leads (last : ball) (y : token) : list T :=
    let l := k_rows (of_logits k) (fst last) in
    let e := roundings (of_logits k) last (no_vector (logits w)) in
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
Arguments ball : clear implicits.
Arguments doubts : clear implicits.
Arguments known : clear implicits.
Arguments knowledge : clear implicits.

(** * Sums over indices, and lengths *)

Local Open Scope R_scope.
Notation Size := (size reals).
Notation dot_ := (dot reals).

Lemma le_sqrt x y : x * x <= y -> x <= sqrt y.
Proof.
  intros H. apply Rle_trans with (Rabs x); [apply Rle_abs|]. rewrite <- sqrt_Rsqr_abs.
  apply sqrt_le_1_alt, H.
Qed.
Lemma sqrt_le x y : 0 <= y -> x <= y * y -> sqrt x <= y.
Proof.
  intros Hy H. rewrite <- (sqrt_square y Hy). apply sqrt_le_1_alt, H.
Qed.
Lemma le_div a b c : 0 < c -> a * c <= b -> a <= b / c.
Proof.
  intros Hc H. apply (Rmult_le_reg_r c); [exact Hc|]. unfold Rdiv.
  rewrite Rmult_assoc, Rinv_l; lra.
Qed.
Lemma square_pos x : 0 <= x * x.
Proof. apply Rle_0_sqr. Qed.

Definition Sum {A} (l : list A) (f : A -> R) : R := total (map f l).
Definition Len {A} (l : list A) (f : A -> R) : R := sqrt (Sum l (fun i => f i * f i)).

Section Sums.
  Context {A : Type} (l : list A).
  Implicit Types f g : A -> R.

  Lemma Sum_cons a f : Sum (a :: l) f = f a + Sum l f.
  Proof. reflexivity. Qed.
  Lemma Sum_le f g : (forall i, In i l -> f i <= g i) -> Sum l f <= Sum l g.
  Proof.
    unfold Sum, sum. induction l as [|a m IH]; intros H; cbn in *; [lra|].
    pose proof (H a (or_introl eq_refl)). specialize (IH (fun i Hi => H i (or_intror Hi))). lra.
  Qed.
  Lemma Sum_ext f g : (forall i, In i l -> f i = g i) -> Sum l f = Sum l g.
  Proof. intros H. apply Rle_antisym; apply Sum_le; intros i Hi; rewrite (H i Hi); lra. Qed.
  Lemma Sum_plus f g : Sum l (fun i => f i + g i) = Sum l f + Sum l g.
  Proof. unfold Sum, sum. induction l as [|i m IH]; cbn in *; [|rewrite IH]; ring. Qed.
  Lemma Sum_scale a f : Sum l (fun i => a * f i) = a * Sum l f.
  Proof. unfold Sum, sum. induction l as [|i m IH]; cbn in *; [|rewrite IH]; ring. Qed.
  Lemma Sum_div f a : Sum l (fun i => f i / a) = Sum l f / a.
  Proof. unfold Rdiv. rewrite Rmult_comm, <- Sum_scale. apply Sum_ext. intros. ring. Qed.
  Lemma Sum_abs f : Rabs (Sum l f) <= Sum l (fun i => Rabs (f i)).
  Proof.
    unfold Sum, sum. induction l as [|i m IH]; cbn in *; [rewrite Rabs_R0; lra|].
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat_l, IH.
  Qed.
  Lemma Sum_const a : Sum l (fun _ => a) = IZR (Z.of_nat (length l)) * a.
  Proof.
    unfold Sum, sum. induction l as [|i m IH]; cbn [map fold_right length reals add] in *; [cbn; ring|].
    rewrite IH, Nat2Z.inj_succ, <- Z.add_1_r, plus_IZR. ring.
  Qed.
  Lemma Sum_pos f : (forall i, In i l -> 0 <= f i) -> 0 <= Sum l f.
  Proof. intros H. apply Sum_le in H. rewrite Sum_const, Rmult_0_r in H. exact H. Qed.

  Lemma Len_pos f : 0 <= Len l f.
  Proof. apply sqrt_pos. Qed.
  Lemma Len_square f : Len l f * Len l f = Sum l (fun i => f i * f i).
  Proof. apply sqrt_sqrt, Sum_pos. intros. apply square_pos. Qed.
  Lemma Len_below f a : 0 <= a -> Sum l (fun i => f i * f i) <= a * a -> Len l f <= a.
  Proof. apply sqrt_le. Qed.
  Lemma Len_le f g : (forall i, In i l -> Rabs (f i) <= Rabs (g i)) -> Len l f <= Len l g.
  Proof.
    intros H. apply sqrt_le_1_alt, Sum_le. intros i Hi. apply Rsqr_le_abs_1, H, Hi.
  Qed.
End Sums.

Lemma Sum_swap {A B} (l : list A) (m : list B) f :
  Sum l (fun i => Sum m (fun j => f i j)) = Sum m (fun j => Sum l (fun i => f i j)).
Proof.
  induction l as [|a l IH].
  - symmetry. etransitivity; [apply (Sum_const m 0)|apply Rmult_0_r].
  - rewrite Sum_cons, IH, <- Sum_plus. reflexivity.
Qed.

Lemma cauchy {A} (l : list A) f g : Sum l (fun i => f i * g i) <= Len l f * Len l g.
Proof.
  induction l as [|a l IH]; [unfold Sum, Len, Sum, sum; cbn; rewrite sqrt_0; lra|].
  rewrite Sum_cons. unfold Len at 1 2. rewrite !Sum_cons, <- !Len_square.
  pose proof (Len_pos l f). pose proof (Len_pos l g).
  set (F := Len l f) in *. set (G := Len l g) in *. set (x := f a). set (y := g a).
  apply Rle_trans with (x * y + F * G); [lra|].
  rewrite <- sqrt_mult by (pose proof (square_pos x); pose proof (square_pos y);
    pose proof (square_pos F); pose proof (square_pos G); lra).
  apply le_sqrt. pose proof (square_pos (x * G - F * y)). lra.
Qed.

Section Lengths.
  Context {A : Type} (l : list A).
  Implicit Types f g h : A -> R.

  Lemma Len_plus f g : Len l (fun i => f i + g i) <= Len l f + Len l g.
  Proof.
    pose proof (Len_pos l f). pose proof (Len_pos l g). apply Len_below; [lra|].
    pose proof (cauchy l f g). pose proof (Len_square l f). pose proof (Len_square l g).
    rewrite (Sum_ext l _ (fun i => f i * f i + g i * g i + 2 * (f i * g i))) by (intros; ring).
    rewrite !Sum_plus, Sum_scale. lra.
  Qed.
  Lemma Len_scale a f : Len l (fun i => a * f i) = Rabs a * Len l f.
  Proof.
    unfold Len. rewrite <- sqrt_Rsqr_abs, <- sqrt_mult.
    - f_equal. rewrite <- Sum_scale. apply Sum_ext. intros. unfold Rsqr. ring.
    - apply Rle_0_sqr.
    - apply Sum_pos. intros. apply square_pos.
  Qed.
  Lemma Len_const a : 0 <= a -> Len l (fun _ => a) = sqrt (IZR (Z.of_nat (length l))) * a.
  Proof.
    intros Ha. unfold Len. rewrite Sum_const, sqrt_mult, sqrt_square; auto using square_pos.
    apply IZR_le. lia.
  Qed.

  Lemma cauchy_abs f g : Rabs (Sum l (fun i => f i * g i)) <= Len l f * Len l g.
  Proof.
    apply Rabs_le. split; [|apply cauchy]. pose proof (cauchy l (fun i => -1 * f i) g) as H.
    rewrite Len_scale, (Rabs_left (-1)) in H by lra.
    rewrite (Sum_ext l _ (fun i => -1 * (f i * g i))), Sum_scale in H by (intros; ring). lra.
  Qed.

  Lemma Len_scaled a f g : 0 <= a ->
    (forall i, In i l -> Rabs (f i) <= a * Rabs (g i)) -> Len l f <= a * Len l g.
  Proof.
    intros Ha H. rewrite <- (Rabs_right a), <- Len_scale by lra. apply Len_le. intros i Hi.
    rewrite Rabs_mult, (Rabs_right a) by lra. apply H, Hi.
  Qed.

  (** A bound by several terms. *)
  Lemma Len_terms {B} (terms : list B) (a : B -> R) (g : B -> A -> R) f :
    (forall t, In t terms -> 0 <= a t) ->
    (forall i, In i l -> Rabs (f i) <= Sum terms (fun t => a t * Rabs (g t i))) ->
    Len l f <= Sum terms (fun t => a t * Len l (g t)).
  Proof.
    revert f. induction terms as [|t terms IH]; intros f Ha H.
    - eapply Rle_trans; [apply (Len_scaled 0 f f)|]; [lra| |rewrite Rmult_0_l; apply Rle_refl].
      intros i Hi. rewrite Rmult_0_l. exact (H i Hi).
    - assert (Ht : forall u, In u terms -> 0 <= a u) by (intros; apply Ha; right; assumption).
      specialize (Ha t (or_introl eq_refl)). rewrite Sum_cons.
      set (h i := Sum terms (fun t => a t * Rabs (g t i))) in *.
      assert (Hh : forall i, 0 <= h i)
        by (intros i; apply Sum_pos; intros; apply Rmult_le_pos; auto using Rabs_pos).
      eapply Rle_trans; [apply (Len_le l f (fun i => a t * Rabs (g t i) + h i))|].
      + intros i Hi. eapply Rle_trans; [apply H, Hi|apply Rle_abs].
      + eapply Rle_trans; [apply Len_plus|]. apply Rplus_le_compat.
        * apply Len_scaled; [exact Ha|]. intros i _.
          rewrite Rabs_mult, Rabs_Rabsolu, (Rabs_right (a t)) by lra. lra.
        * apply IH; [exact Ht|]. intros i _. rewrite Rabs_right by (apply Rle_ge, Hh). apply Rle_refl.
  Qed.
End Lengths.

(** * Vectors as lists *)

Notation at_ x i := (nth i x 0).

Lemma nth_map {A B} (f : A -> B) l i a b : (i < length l)%nat -> nth i (map f l) b = f (nth i l a).
Proof. intros H. rewrite (nth_indep _ b (f a)) by (rewrite map_length; exact H). apply map_nth. Qed.
Lemma at_nil i : at_ [] i = 0.
Proof. destruct i; reflexivity. Qed.

Lemma Sum_seq m f : Sum (seq 0 (S m)) f = f 0%nat + Sum (seq 0 m) (fun i => f (S i)).
Proof. unfold Sum. cbn [seq map]. rewrite <- seq_shift, map_map. reflexivity. Qed.

Lemma total_nth x m : (length x <= m)%nat -> total x = Sum (seq 0 m) (fun i => at_ x i).
Proof.
  revert m. induction x as [|a x IH]; intros m Hm.
  - rewrite (Sum_ext _ _ (fun _ => 0)) by (intros; apply at_nil).
    rewrite Sum_const, Rmult_0_r. reflexivity.
  - destruct m as [|m]; [cbn in Hm; lia|]. rewrite Sum_seq. cbn [nth].
    rewrite <- IH by (cbn in Hm; lia). reflexivity.
Qed.

Lemma nth_combine {A B} (u : list A) (v : list B) i a b :
  (i < length (combine u v))%nat -> nth i (combine u v) (a, b) = (nth i u a, nth i v b).
Proof.
  revert v i. induction u as [|x u IH]; intros [|y v] [|i] H; cbn in *; try lia; auto with arith.
Qed.
Lemma nth_map2 (f : R -> R -> R) u v i : (i < length (map2 f u v))%nat ->
  at_ (map2 f u v) i = f (at_ u i) (at_ v i).
Proof.
  unfold map2. intros H. rewrite map_length in H.
  rewrite (nth_map _ _ _ (0, 0)), nth_combine by exact H. reflexivity.
Qed.
Lemma length_map2 {T} (f : T -> T -> T) u v : length (map2 f u v) = Nat.min (length u) (length v).
Proof. unfold map2. rewrite map_length, combine_length. reflexivity. Qed.

Lemma dot_nth x y m : (Nat.min (length x) (length y) <= m)%nat ->
  dot_ x y = Sum (seq 0 m) (fun i => at_ x i * at_ y i).
Proof.
  intros H. unfold dot. rewrite (total_nth _ m) by (rewrite length_map2; exact H).
  apply Sum_ext. intros i _. destruct (Nat.lt_ge_cases i (Nat.min (length x) (length y))) as [Hi|Hi].
  - apply (nth_map2 Rmult). rewrite length_map2. exact Hi.
  - rewrite nth_overflow by (rewrite length_map2; exact Hi).
    destruct (Nat.min_spec (length x) (length y)) as [[_ E]|[_ E]]; rewrite E in Hi;
      rewrite (nth_overflow _ _ Hi); ring.
Qed.
Lemma dot_comm x y : dot_ x y = dot_ y x.
Proof.
  rewrite (dot_nth x y _ (le_n _)), (dot_nth y x (Nat.min (length x) (length y))) by lia.
  apply Sum_ext. intros. ring.
Qed.

Lemma size_nth x m : (length x <= m)%nat -> Size x = Len (seq 0 m) (fun i => at_ x i).
Proof. intros H. unfold size, Len. cbn. f_equal. apply dot_nth. lia. Qed.
Lemma Len_prefix m k f : (m <= k)%nat -> Len (seq 0 m) f <= Len (seq 0 k) f.
Proof.
  intros H. unfold Len. apply sqrt_le_1_alt. revert k f H.
  induction m as [|m IH]; intros [|k] f H; try lia; try (apply Sum_pos; intros; apply square_pos).
  rewrite !Sum_seq. apply Rplus_le_compat_l, (IH k (fun i => f (S i))). lia.
Qed.
Lemma Len_nth x m : Len (seq 0 m) (fun i => at_ x i) <= Size x.
Proof. rewrite (size_nth x (m + length x)) by lia. apply Len_prefix. lia. Qed.
Lemma size_pos x : 0 <= Size x.
Proof. apply sqrt_pos. Qed.
Lemma size_square x : Size x * Size x = dot_ x x.
Proof.
  rewrite (size_nth x _ (le_n _)), Len_square. symmetry. apply dot_nth. lia.
Qed.
Lemma dot_le x y : Rabs (dot_ x y) <= Size x * Size y.
Proof.
  set (m := (length x + length y)%nat). rewrite (dot_nth x y m), (size_nth x m), (size_nth y m) by lia.
  apply cauchy_abs.
Qed.

(** * By how much a matrix stretches *)

Definition rows (W : matrix R) (x : vector R) : vector R := map (fun row => dot_ row x) W.
Definition stretches (W : matrix R) (s : R) : Prop :=
  0 <= s /\ forall x, Size (rows W x) <= s * Size x.

Lemma nth_rows W x i : at_ (rows W x) i = dot_ (nth i W []) x.
Proof. apply (map_nth (fun row => dot_ row x) W []). Qed.

Lemma nth_sizes W i : at_ (map Size W) i = Size (@nth (list R) i W []).
Proof.
  rewrite <- (map_nth Size). f_equal. symmetry. apply sqrt_0.
Qed.

Lemma frobenius_stretches W : stretches W (frobenius reals W).
Proof.
  split; [apply size_pos|]. intros x. unfold frobenius. set (m := length W).
  rewrite (size_nth (rows W x) m), (size_nth (map Size W) m), Rmult_comm
    by (unfold rows; rewrite map_length; auto).
  apply Len_scaled; [apply size_pos|]. intros i _. rewrite nth_rows, nth_sizes.
  rewrite (Rabs_right (Size _)), Rmult_comm by (apply Rle_ge, size_pos). apply dot_le.
Qed.

Lemma row_breadth (W : matrix R) i : (length (nth i W []) <= breadth W)%nat.
Proof. unfold breadth. revert i. induction W as [|r W IH]; intros [|i]; cbn; try lia. specialize (IH i). lia. Qed.

Lemma length_rows W x : length (rows W x) = length W.
Proof. apply map_length. Qed.
Lemma length_columns W : length (columns reals W) = breadth W.
Proof. unfold columns. rewrite map_length. apply seq_length. Qed.

Lemma at_columns W i j : (j < breadth W)%nat ->
  at_ (nth j (columns reals W) []) i = at_ (nth i W []) j.
Proof.
  intros H. unfold columns. rewrite (nth_map _ _ _ 0%nat), seq_nth by (rewrite ?seq_length; exact H).
  rewrite <- (at_nil (0 + j)) at 1. apply (map_nth (fun row => at_ row (0 + j)) W []).
Qed.

Lemma adjoint W x y : dot_ (rows W x) y = dot_ x (rows (columns reals W) y).
Proof.
  rewrite (dot_nth _ y (length W)), (dot_nth x _ (breadth W))
    by (rewrite length_rows, ?length_columns; lia).
  rewrite (Sum_ext _ _ (fun i => Sum (seq 0 (breadth W))
    (fun j => at_ (nth i W []) j * at_ x j * at_ y i))).
  - rewrite Sum_swap. apply Sum_ext. intros j Hj. apply in_seq in Hj.
    assert (length (nth j (columns reals W) []) = length W).
    { unfold columns. rewrite (nth_map _ _ _ 0%nat) by (rewrite seq_length; lia). apply map_length. }
    rewrite nth_rows, (dot_nth _ y (length W)), <- Sum_scale by lia.
    apply Sum_ext. intros i _. rewrite at_columns by lia. ring.
  - intros i _. rewrite nth_rows, (dot_nth _ x (breadth W)) by (pose proof (row_breadth W i); lia).
    rewrite Rmult_comm, <- Sum_scale. apply Sum_ext. intros j _. ring.
Qed.

(** A matrix stretches as its columns do ... *)
Lemma columns_stretch W s : stretches (columns reals W) s -> stretches W s.
Proof.
  intros [Hs H]. split; [exact Hs|]. intros x. specialize (H (rows W x)).
  pose proof (size_square (rows W x)) as E. rewrite adjoint in E.
  set (c := rows (columns reals W) (rows W x)) in *.
  pose proof (dot_le x c). pose proof (Rle_abs (dot_ x c)). pose proof (size_pos x).
  pose proof (size_pos (rows W x)). assert (0 <= s * Size x) by (apply Rmult_le_pos; assumption).
  apply Rnot_lt_le. intros Hlt. assert (Size x * Size c <= Size x * (s * Size (rows W x)))
    by (apply Rmult_le_compat_l; assumption).
  assert (s * Size x * Size (rows W x) < Size (rows W x) * Size (rows W x))
    by (apply Rmult_lt_compat_r; lra). lra.
Qed.

(** ... and at most by the root of what its Gram matrix does. *)
Lemma gram_stretches W s : stretches (gram reals W) s -> stretches W (sqrt s).
Proof.
  intros [Hs H]. split; [apply sqrt_pos|]. intros x. specialize (H x).
  assert (E : rows (gram reals W) x = rows (columns reals W) (rows W x)).
  { unfold gram, rows at 1. rewrite map_map. apply map_ext. intros c. fold (rows (columns reals W) c).
    rewrite dot_comm, <- adjoint. apply dot_comm. }
  rewrite E in H. pose proof (size_square (rows W x)) as S. rewrite adjoint in S.
  set (c := rows (columns reals W) (rows W x)) in *.
  pose proof (dot_le x c). pose proof (Rle_abs (dot_ x c)). pose proof (size_pos x).
  rewrite <- (sqrt_square (Size (rows W x))), <- (sqrt_square (Size x)), <- sqrt_mult
    by auto using size_pos, square_pos. apply sqrt_le_1_alt. rewrite S.
  assert (Size x * Size c <= Size x * (s * Size x)) by (apply Rmult_le_compat_l; assumption). lra.
Qed.

Lemma stretch_stretches k W : stretches W (stretch reals k W).
Proof.
  revert W. induction k as [|k IH]; intros W; [apply frobenius_stretches|].
  apply gram_stretches, IH.
Qed.
Lemma spectral_stretches W : stretches W (spectral reals W).
Proof.
  unfold spectral. destruct (_ <? _); [apply columns_stretch|]; apply stretch_stretches.
Qed.

(** * Errors of sums *)

Lemma unit32_pos : 0 < unit32.
Proof. apply Rinv_0_lt_compat, IZR_lt. reflexivity. Qed.
Lemma tiny_pos : 0 < tiny.
Proof. apply Rinv_0_lt_compat, IZR_lt. reflexivity. Qed.
Lemma smallest_is : smallest reals = tiny.
Proof. apply Rmult_1_l. Qed.
Lemma times_pos k : 0 <= times k.
Proof. apply Rmult_le_pos; [apply IZR_le; lia|apply Rlt_le, unit32_pos]. Qed.

(** [grow k] is 1 more than [growth reals k]. *)
Definition grow (k : nat) : R := exp (times k).

Lemma grow_le k l : (k <= l)%nat -> grow k <= grow l.
Proof.
  intros H. assert (times k <= times l) by (apply Rmult_le_compat_r; [apply Rlt_le, unit32_pos|
    apply IZR_le; lia]).
  destruct H0 as [H0|H0]; unfold grow; [apply Rlt_le, exp_increasing, H0|rewrite H0; lra].
Qed.
Lemma grow_1 k : 1 <= grow k.
Proof.
  pose proof (grow_le 0 k ltac:(lia)) as H.
  unfold grow at 1, times at 1 in H. cbn in H. rewrite Rmult_0_l, exp_0 in H. exact H.
Qed.
Lemma grow_step k l : (k < l)%nat -> (1 + unit32) * grow k <= grow l.
Proof.
  intros H. apply Rle_trans with (grow (S k)); [|apply grow_le, H]. unfold grow.
  replace (times (S k)) with (unit32 + times k)
    by (unfold times; rewrite Nat2Z.inj_succ, <- Z.add_1_r, plus_IZR; ring).
  rewrite exp_plus. apply Rmult_le_compat_r; [apply Rlt_le, exp_pos|].
  apply Rlt_le, exp_ineq1. apply Rgt_not_eq, unit32_pos.
Qed.

Lemma total_app l m : total (l ++ m) = total l + total m.
Proof. unfold sum. induction l as [|x l IH]; cbn in *; lra. Qed.
Lemma magnitude_app l m : magnitude (l ++ m) = magnitude l + magnitude m.
Proof. unfold magnitude. rewrite map_app. apply total_app. Qed.
Lemma magnitude_bounds l : Rabs (total l) <= magnitude l.
Proof.
  unfold magnitude, sum. induction l as [|x l IH]; cbn in *; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|lra].
Qed.
Lemma magnitude_pos l : 0 <= magnitude l.
Proof. eapply Rle_trans; [apply Rabs_pos|apply magnitude_bounds]. Qed.

Lemma sums_error l r : sums l r -> Rabs (r - total l)
  <= (grow (length l) - 1) * magnitude l + IZR (Z.of_nat (pred (length l))) * (grow (length l) * tiny).
Proof.
  pose proof unit32_pos as Hu. pose proof tiny_pos as Ht.
  induction 1 as [|x|k l m x y r Hk Hl Hm _ IHl _ IHm Hr].
  - unfold sum, magnitude. cbn. rewrite Rminus_0_r, Rabs_R0. lra.
  - unfold sum. cbn -[magnitude]. replace (x - (x + 0)) with 0 by lra.
    rewrite Rabs_R0, Rmult_0_l, Rplus_0_r.
    apply Rmult_le_pos; [pose proof (grow_1 1); lra|apply magnitude_pos].
  - rewrite (sum_permutation _ _ Hk). unfold magnitude in *.
    rewrite (sum_permutation _ _ (Permutation_map Rabs Hk)), (Permutation_length Hk), app_length.
    rewrite map_app, !total_app. fold (magnitude l) (magnitude m) in *.
    pose proof (magnitude_bounds l). pose proof (magnitude_bounds m).
    pose proof (magnitude_pos l). pose proof (magnitude_pos m).
    destruct l as [|a l]; [contradiction|]. destruct m as [|b m]; [contradiction|].
    set (A := magnitude (a :: l)) in *. set (B := magnitude (b :: m)) in *.
    set (S := total (a :: l)) in *. set (T := total (b :: m)) in *. clearbody A B S T.
    cbn [length pred] in *. set (i := length l) in *. set (j := length m) in *.
    replace (pred (Datatypes.S i + Datatypes.S j)) with (i + j + 1)%nat by lia.
    rewrite !Nat2Z.inj_add, !plus_IZR. 
    pose proof (grow_step (Datatypes.S i) (Datatypes.S i + Datatypes.S j) ltac:(lia)) as Gi.
    pose proof (grow_step (Datatypes.S j) (Datatypes.S i + Datatypes.S j) ltac:(lia)) as Gj.
    pose proof (grow_1 (Datatypes.S i + Datatypes.S j)) as G1.
    set (g := grow (Datatypes.S i + Datatypes.S j)) in *.
    set (gi := grow (Datatypes.S i)) in *. set (gj := grow (Datatypes.S j)) in *. clearbody g gi gj.
    pose proof (IZR_le 0 (Z.of_nat i) ltac:(lia)). pose proof (IZR_le 0 (Z.of_nat j) ltac:(lia)).
    change (IZR (Z.of_nat 1)) with 1.
    set (I := IZR (Z.of_nat i)) in *. set (J := IZR (Z.of_nat j)) in *. clearbody I J.
    unfold near in Hr.
    assert (Rabs (x + y) <= Rabs (x - S) + Rabs (y - T) + A + B).
    { replace (x + y) with ((x - S) + (y - T) + S + T) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
      pose proof (Rabs_triang (x - S) (y - T)). lra. }
    assert (Rabs (r - (S + T)) <= Rabs (r - (x + y)) + Rabs (x - S) + Rabs (y - T)).
    { replace (r - (S + T)) with ((r - (x + y)) + (x - S) + (y - T)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat_r, Rabs_triang. }
    assert ((1 + unit32) * Rabs (x - S) <= (1 + unit32) * ((gi - 1) * A + I * (gi * tiny)))
      by (apply Rmult_le_compat_l; lra).
    assert ((1 + unit32) * Rabs (y - T) <= (1 + unit32) * ((gj - 1) * B + J * (gj * tiny)))
      by (apply Rmult_le_compat_l; lra).
    assert ((1 + unit32) * gi * (A + I * tiny) <= g * (A + I * tiny)).
    { apply Rmult_le_compat_r; [|assumption]. assert (0 <= I * tiny) by (apply Rmult_le_pos; lra). lra. }
    assert ((1 + unit32) * gj * (B + J * tiny) <= g * (B + J * tiny)).
    { apply Rmult_le_compat_r; [|assumption]. assert (0 <= J * tiny) by (apply Rmult_le_pos; lra). lra. }
    assert (1 * tiny <= g * tiny) by (apply Rmult_le_compat_r; lra).
    assert (unit32 * Rabs (x + y) <= unit32 * (Rabs (x - S) + Rabs (y - T) + A + B))
      by (apply Rmult_le_compat_l; lra).
    lra.
Qed.

Lemma near_totals xs ps : Forall2 (near unit32) xs ps ->
  Rabs (total ps - total xs) <= unit32 * magnitude xs + IZR (Z.of_nat (length xs)) * tiny /\
  magnitude ps <= (1 + unit32) * magnitude xs + IZR (Z.of_nat (length xs)) * tiny.
Proof.
  unfold magnitude, sum. induction 1 as [|x q xs ps H _ [IH1 IH2]].
  - cbn. rewrite Rminus_0_r, Rabs_R0. lra.
  - cbn [map fold_right reals add length] in *. rewrite Nat2Z.inj_succ, <- Z.add_1_r, plus_IZR.
    unfold near in H. set (X := fold_right Rplus (zero reals) xs) in *.
    set (P := fold_right Rplus (zero reals) ps) in *. split.
    + replace (q + P - (x + X)) with ((q - x) + (P - X)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra.
    + pose proof (Rabs_triang (q - x) x). replace (q - x + x) with q in * by ring. lra.
Qed.

Lemma lost_is k : lost reals k = IZR (Z.of_nat (2 * k)) * grow k * tiny.
Proof. unfold lost. rewrite smallest_is. reflexivity. Qed.
Lemma growth_is k : growth reals k = grow k - 1.
Proof. reflexivity. Qed.
Lemma lost_pos k : 0 <= lost reals k.
Proof.
  rewrite lost_is. pose proof (grow_1 k). pose proof tiny_pos.
  repeat apply Rmult_le_pos; try lra. apply IZR_le. lia.
Qed.

Lemma dots_error row x terms r k : (length terms + length (products row x) <= k)%nat ->
  dots row x terms r -> Rabs (r - (total terms + dot_ row x))
    <= growth reals (S k) * (magnitude terms + magnitude (products row x)) + lost reals k.
Proof.
  intros Hk (ps & Hps & Hs). apply sums_error in Hs. destruct (near_totals _ _ Hps) as [H1 H2].
  change (dot_ row x) with (total (products row x)). rewrite growth_is, lost_is.
  rewrite app_length, <- (Forall2_length _ _ _ Hps), total_app, magnitude_app in Hs.
  pose proof unit32_pos. pose proof tiny_pos. 
  set (xs := products row x) in *. set (a := length terms) in *. set (b := length xs) in *.
  pose proof (magnitude_pos terms). pose proof (magnitude_pos xs). pose proof (grow_1 (a + b)).
  pose proof (grow_le (a + b) k Hk). pose proof (grow_step (a + b) (S k) ltac:(lia)).
  pose proof (grow_le k (S k) ltac:(lia)).
  assert (0 <= IZR (Z.of_nat b)) by (apply IZR_le; lia).
  assert (IZR (Z.of_nat b) + IZR (Z.of_nat (pred (a + b))) <= IZR (Z.of_nat (2 * k)))
    by (rewrite <- plus_IZR; apply IZR_le; lia).
  assert (0 <= IZR (Z.of_nat (pred (a + b)))) by (apply IZR_le; lia).
  set (g := grow (a + b)) in *. set (B := IZR (Z.of_nat b)) in *.
  set (C := IZR (Z.of_nat (pred (a + b)))) in *. set (K := IZR (Z.of_nat (2 * k))) in *.
  assert ((g - 1) * magnitude ps <= (g - 1) * ((1 + unit32) * magnitude xs + B * tiny))
    by (apply Rmult_le_compat_l; lra).
  assert (((1 + unit32) * g - 1) * magnitude xs <= (grow (S k) - 1) * magnitude xs)
    by (apply Rmult_le_compat_r; lra).
  assert ((g - 1) * magnitude terms <= (grow (S k) - 1) * magnitude terms)
    by (apply Rmult_le_compat_r; lra).
  assert ((B + C) * (g * tiny) <= K * (grow k * tiny)).
  { apply Rmult_le_compat; [lra|apply Rmult_le_pos; lra|assumption|].
    apply Rmult_le_compat_r; lra. }
  replace (r - (total terms + total xs))
    with ((r - (total terms + total ps)) + (total ps - total xs)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma magnitude_products u v : magnitude (products u v) = dot_ (map Rabs u) (map Rabs v).
Proof.
  revert v. induction u as [|a u IH]; intros [|b v]; try reflexivity.
  unfold magnitude, products, dot, map2, sum in *. cbn in *. rewrite IH, Rabs_mult. reflexivity.
Qed.
Lemma size_abs x : Size (map Rabs x) = Size x.
Proof.
  unfold size. cbn. f_equal. induction x as [|a x IH]; [reflexivity|].
  unfold dot, map2, sum in *. cbn in *. rewrite IH. apply Rplus_eq_compat_r, eq_sym, Rsqr_abs.
Qed.
Lemma magnitude_le u v : magnitude (products u v) <= Size u * Size v.
Proof.
  rewrite magnitude_products, <- (size_abs u), <- (size_abs v).
  eapply Rle_trans; [apply Rle_abs|apply dot_le].
Qed.

(** * Affine maps *)

(** [within b x]: x is in the ball. *)
Definition within (b : ball R) (x : list R) : Prop :=
  length x = length (fst b)
  /\ Len (seq 0 (length x)) (fun i => at_ x i - at_ (fst b) i) <= snd b.

Lemma within_error b x : within b x -> 0 <= snd b.
Proof. intros [_ H]. exact (Rle_trans _ _ _ (Len_pos _ _) H). Qed.
Lemma within_reach b x : within b x -> Size x <= reach reals b.
Proof.
  intros [Hl H]. unfold reach. cbn [reals add]. rewrite (size_nth x _ (le_n _)).
  rewrite (size_nth (fst b) (length x)) by lia.
  eapply Rle_trans; [|apply Rplus_le_compat_l, H].
  eapply Rle_trans; [|apply Len_plus]. apply Len_le. intros i _. apply Req_le. f_equal. ring.
Qed.

(** The error of each entry. *)
Lemma affine_errors a x v y m : (breadth (fst a) <= m)%nat -> affines a x (each v) y ->
  let y' := map2 Rplus v (apply reals a x) in
  length y = length y' /\ (length y <= length (fst a))%nat /\
  forall i, (i < length y)%nat ->
  Rabs (at_ y i - at_ y' i)
    <= growth reals (3 + m)
       * (Size (nth i (fst a) []) * Size x + (Rabs (at_ (snd a) i) + Rabs (at_ v i)))
     + lost reals (2 + m).
Proof.
  destruct a as [W b]. unfold affines, each, apply. cbn [fst snd]. revert b v y.
  induction W as [|row W IH]; intros [|o b] [|e v] y Hm H; inversion H; subst; clear H;
    try (cbn; repeat split; try lia; intros; lia).
  cbn [breadth map fold_right] in Hm. destruct (IH b v _ ltac:(unfold breadth; lia) H4) as (L1 & L2 & IH'). cbn [fst snd] in *.
  split; [cbn; rewrite L1; reflexivity|]. split; [cbn; lia|]. intros [|i] Hi.
  - cbn [nth map map2 combine fst snd] in *.
    apply (dots_error _ _ _ _ (2 + m)) in H2;
      [|unfold products; rewrite length_map2; cbn [length]; lia].
    replace (total [o; e]) with (o + e) in H2 by (unfold sum; cbn; ring).
    replace (magnitude [o; e]) with (Rabs o + Rabs e) in H2 by (unfold magnitude, sum; cbn; ring).
    replace (e + add reals (dot_ row x) o) with (o + e + dot_ row x) by (cbn; ring).
    eapply Rle_trans; [exact H2|]. apply Rplus_le_compat_r, Rmult_le_compat_l.
    + rewrite growth_is. pose proof (grow_1 (3 + m)). lra.
    + pose proof (magnitude_le row x). lra.
  - apply IH'. cbn in Hi. lia.
Qed.

Lemma at_affine a x v i : (i < length (map2 Rplus v (apply reals a x)))%nat ->
  at_ (map2 Rplus v (apply reals a x)) i = at_ v i + (dot_ (nth i (fst a) []) x + at_ (snd a) i).
Proof.
  intros H. rewrite nth_map2 by exact H. f_equal. rewrite length_map2 in H.
  unfold apply. cbn [reals add]. rewrite nth_map2 by (unfold apply in H; cbn [reals add] in H; lia).
  f_equal. apply nth_rows.
Qed.

Definition minus : list R -> list R -> list R := map2 Rminus.

Lemma at_minus x y i : length x = length y -> at_ (minus x y) i = at_ x i - at_ y i.
Proof.
  intros H. destruct (Nat.lt_ge_cases i (length x)) as [Hi|Hi].
  - apply nth_map2. rewrite length_map2. lia.
  - rewrite !nth_overflow by (unfold minus; rewrite ?length_map2; lia). ring.
Qed.
Lemma size_minus x y : length x = length y ->
  Size (minus x y) = Len (seq 0 (length x)) (fun i => at_ x i - at_ y i).
Proof.
  intros H. rewrite (size_nth _ (length x)) by (unfold minus; rewrite length_map2; lia).
  unfold Len. f_equal. apply Sum_ext. intros i _. rewrite !at_minus by exact H. reflexivity.
Qed.
Lemma dot_minus row x y : length x = length y -> dot_ row (minus x y) = dot_ row x - dot_ row y.
Proof.
  intros H. rewrite !(dot_nth row _ (length x)) by (unfold minus; rewrite ?length_map2; lia).
  match goal with |- _ = ?a - ?b => replace (a - b) with (a + -1 * b) by ring end.
  rewrite <- Sum_scale, <- Sum_plus. apply Sum_ext. intros i _. rewrite at_minus by exact H. ring.
Qed.

Lemma affine_within a x v y bx bv : within bx x -> within bv v -> affines a x (each v) y ->
  within (affine_ball reals a (known_of reals rows a) bx bv) y.
Proof.
  intros Hx Hv H. destruct (affine_errors _ _ _ _ _ (le_n _) H) as (L1 & L2 & He).
  pose proof (within_reach _ _ Hx) as Rx. pose proof (within_reach _ _ Hv) as Rv.
  destruct Hx as [Lx Hx]. destruct Hv as [Lv Hv]. destruct (spectral_stretches (fst a)) as [Hs Ss].
  set (d := minus x (fst bx)). specialize (Ss d).
  rewrite <- (size_minus _ _ Lx) in Hx. fold d in Hx.
  assert (L3 : length y = length (map2 Rplus (fst bv) (apply reals a (fst bx)))).
  { rewrite L1, !length_map2. unfold apply. rewrite !length_map2, !map_length, Lv. reflexivity. }
  split; [exact L3|]. unfold affine_ball. cbn [fst snd known_of k_rows].
  change (map2 (add reals) (rows (fst a) (fst bx)) (snd a)) with (apply reals a (fst bx)). change (add reals) with Rplus.
  set (ref := map2 Rplus (fst bv) _) in *. unfold roundings.
  cbn [known_of k_stretch k_size k_bias k_growth k_lost].
  set (g := growth reals (3 + breadth (fst a))) in *. set (t := lost reals (2 + breadth (fst a))) in *.
  assert (Hg : 0 <= g) by (unfold g; rewrite growth_is; pose proof (grow_1 (3 + breadth (fst a))); lra).
  assert (Ht : 0 <= t) by apply lost_pos. pose proof (size_pos x).
  assert (0 <= g * Size x) by (apply Rmult_le_pos; assumption).
  eapply Rle_trans; [apply (Len_terms _ [(1, fun i => at_ v i - at_ (fst bv) i);
    (1, fun i => at_ (rows (fst a) d) i);
    (g * Size x, fun i => at_ (map Size (fst a)) i); (g, fun i => at_ (snd a) i);
    (g, fun i => at_ v i); (t, fun _ => 1)] fst snd)|].
  - intros u Hu. cbn [In] in Hu. decompose [or] Hu; subst; try contradiction; cbn [fst]; lra.
  - intros i Hi. apply in_seq in Hi. specialize (He i ltac:(lia)).
    unfold Sum, sum. cbn [map fold_right fst snd reals add zero of_Z]. rewrite Rabs_R1.
    rewrite nth_rows, nth_sizes, (Rabs_right (Size _)) by (apply Rle_ge, size_pos).
    unfold d. rewrite dot_minus by exact Lx.
    set (y' := map2 Rplus v _) in *. assert (Hi' : (i < length y')%nat) by lia. assert (Hr : (i < length ref)%nat) by lia.
    assert (E : at_ y i - at_ ref i = (at_ y i - at_ y' i) + ((at_ v i - at_ (fst bv) i)
      + (dot_ (nth i (fst a) []) x - dot_ (nth i (fst a) []) (fst bx)))).
    { unfold y', ref. rewrite (at_affine a x v i Hi'), (at_affine a (fst bx) (fst bv) i Hr). ring. }
    rewrite E. eapply Rle_trans; [apply Rabs_triang|].
    eapply Rle_trans; [apply Rplus_le_compat_l, Rabs_triang|]. lra.
  - unfold Sum, sum. cbn [map fold_right fst snd reals add mul root zero of_Z]. rewrite Len_const, seq_length by lra.
    pose proof (Len_nth (rows (fst a) d) (length y)). pose proof (Len_nth (map Size (fst a)) (length y)).
    pose proof (Len_nth (snd a) (length y)). pose proof (Len_nth v (length y)).
    assert (Len (seq 0 (length y)) (fun i => at_ v i - at_ (fst bv) i) <= snd bv).
    { eapply Rle_trans; [apply Len_prefix|exact Hv]. rewrite L1, length_map2. lia. }
    assert (sqrt (IZR (Z.of_nat (length y))) <= sqrt (IZR (Z.of_nat (length (fst a)))))
      by (apply sqrt_le_1_alt, IZR_le; lia).
    assert (spectral reals (fst a) * Size d <= spectral reals (fst a) * snd bx)
      by (apply Rmult_le_compat_l; assumption).
    change (Size (map Size (fst a))) with (frobenius reals (fst a)) in *.
    pose proof (size_pos (map Size (fst a))) as Hf. change (0 <= frobenius reals (fst a)) in Hf.
    set (F := Len _ (fun i => at_ (map Size (fst a)) i)) in *.
    set (B := Len _ (fun i => at_ (snd a) i)) in *. set (V := Len _ (fun i => at_ v i)) in *.
    assert (g * (Size x * F + B + V)
      <= g * (frobenius reals (fst a) * reach reals bx + Size (snd a) + reach reals bv)).
    { apply Rmult_le_compat_l; [exact Hg|]. repeat apply Rplus_le_compat; try lra.
      rewrite Rmult_comm. apply Rmult_le_compat; auto using Len_pos. apply Len_pos. }
    assert (t * sqrt (IZR (Z.of_nat (length y))) <= t * sqrt (IZR (Z.of_nat (length (fst a)))))
      by (apply Rmult_le_compat_l; assumption).
    unfold count. cbn [reals of_Z]. lra.
Qed.

(** Nothing added is as good as zeros. *)
Lemma near_exact x : near unit32 x x.
Proof.
  unfold near. rewrite Rminus_eq_0, Rabs_R0. pose proof unit32_pos. pose proof tiny_pos.
  pose proof (Rmult_le_pos unit32 (Rabs x) ltac:(lra) (Rabs_pos x)). lra.
Qed.
Lemma sums_reordered l m r : Permutation l m -> sums l r -> sums m r.
Proof.
  intros H S. destruct S as [|x|k l m' x y r Hk Hl Hm Hx Hy Hr].
  - rewrite (Permutation_nil H). constructor.
  - rewrite (Permutation_length_1_inv H). constructor.
  - apply (sums_two m l m' x y r); auto. rewrite <- H. exact Hk.
Qed.
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
  revert S. apply sums_reordered. rewrite <- app_assoc. apply Permutation_middle.
Qed.

Lemma affines_nothing a x y : affines a x (nothing a) y ->
  affines a x (each (fst (no_vector reals (snd a)))) y.
Proof.
  unfold affines, nothing, each, no_vector. cbn [fst]. rewrite map_map. destruct a as [W b]. cbn [fst snd].
  revert b y. induction W as [|row W IH]; intros [|o b] y H; inversion H; subst; constructor; auto.
  cbn [fst snd] in *. apply (dots_zero _ _ [o]). assumption.
Qed.
Lemma affines_without_bias W x y : Forall2 (fun row r => dots row x [] r) W y ->
  affines (without_bias reals W) x (each (fst (no_vector reals W))) y.
Proof.
  unfold affines, each, without_bias, no_vector. cbn [fst snd]. rewrite map_map.
  induction 1; constructor; auto. apply (dots_zero _ _ [0]), (dots_zero _ _ []). assumption.
Qed.
Lemma within_no_vector {A} (l : list A) : within (no_vector reals l) (fst (no_vector reals l)).
Proof.
  split; [reflexivity|]. apply Len_below; [cbn; lra|]. apply Req_le.
  rewrite (Sum_ext _ _ (fun _ => 0)) by (intros; ring). rewrite Sum_const. cbn. ring.
Qed.
Lemma within_itself x : within (x, 0) x.
Proof.
  split; [reflexivity|]. apply Len_below; [cbn; lra|]. apply Req_le.
  rewrite (Sum_ext _ _ (fun _ => 0)) by (intros; cbn [fst]; ring). rewrite Sum_const. cbn. ring.
Qed.

Lemma relu_within b x : within b x -> within (relu_ball reals b) (map (fun a => Rmax a 0) x).
Proof.
  intros [L H]. unfold relu_ball. cbn [reals larger].
  change (fun a => Rmax a (zero reals)) with (fun a => Rmax a 0).
  split; cbn [fst snd]; rewrite ?map_length; [exact L|].
  eapply Rle_trans; [|exact H]. apply Len_le. intros i _.
  assert (E : forall y, at_ (map (fun a => Rmax a 0) y) i = Rmax (at_ y i) 0).
  { intros y. rewrite <- (map_nth (fun a => Rmax a 0)). f_equal. symmetry. apply Rmax_right. lra. }
  rewrite !E. unfold Rmax. repeat destruct (Rle_dec _ _); unfold Rabs; repeat destruct (Rcase_abs _); lra.
Qed.

(** * Norms *)

Section Centre.
  Variables (l : list nat) (f : nat -> R) (N : R).
  Hypothesis HN : N = IZR (Z.of_nat (length l)).
  Hypothesis pos : 0 < N.
  Notation centre f := (fun i => f%function i - Sum l f%function / N).

  (** Centring shortens, and the mean is the length at most, by the root of the number. *)
  Lemma centre_square : Sum l (fun i => centre f i * centre f i)
    = Sum l (fun i => f i * f i) - N * (Sum l f / N * (Sum l f / N)).
  Proof.
    set (m := Sum l f / N). assert (E : Sum l f = N * m) by (unfold m; field; lra).
    rewrite (Sum_ext l _ (fun i => f i * f i + (-2 * m * f i + m * m))) by (intros; ring).
    rewrite !Sum_plus, Sum_scale, Sum_const, <- HN, E. ring.
  Qed.
  Lemma centre_shortens : Len l (centre f) <= Len l f.
  Proof.
    apply sqrt_le_1_alt. rewrite centre_square.
    pose proof (Rmult_le_pos N _ (Rlt_le _ _ pos) (square_pos (Sum l f / N))). lra.
  Qed.
  Lemma mean_le : Rabs (Sum l f / N) <= Len l f / sqrt N.
  Proof.
    unfold Rdiv at 2, Len. rewrite <- sqrt_inv, <- sqrt_mult, <- sqrt_Rsqr_abs.
    - apply sqrt_le_1_alt. pose proof centre_square as E.
      pose proof (Sum_pos l (fun i => centre f i * centre f i) (fun i _ => square_pos _)).
      apply (Rmult_le_reg_l N); [exact pos|]. unfold Rsqr.
      replace (N * (Sum l (fun i => f i * f i) * / N)) with (Sum l (fun i => f i * f i)) by (field; lra).
      lra.
    - apply Sum_pos. intros. apply square_pos.
    - apply Rlt_le, Rinv_0_lt_compat, pos.
  Qed.

  (** Two centred vectors, divided by their deviations. *)
  Variables (c c' : nat -> R) (d d' e : R).
  Hypothesis Hd : 0 < d.
  Hypothesis Hd' : 0 < d'.
  Hypothesis Ed : d * d = Sum l (fun i => c i * c i) / N + e.
  Hypothesis Ed' : d' * d' = Sum l (fun i => c' i * c' i) / N + e.
  Hypothesis He : 0 <= e.

  Lemma deviations_distance :
    Sum l (fun i => (c' i / d' - c i / d) * (c' i / d' - c i / d)) * (d * d')
    + N * ((d - d') * (d - d')) + N * e * ((d - d') * (d - d') / (d * d'))
    = Sum l (fun i => (c' i - c i) * (c' i - c i)).
  Proof.
    rewrite (Sum_ext l _ (fun i => / (d' * d') * (c' i * c' i) + / (d * d) * (c i * c i)
      + -2 / (d * d') * (c' i * c i))) by (intros; field; lra).
    rewrite (Sum_ext l (fun i => (c' i - c i) * _) (fun i => c' i * c' i + c i * c i + -2 * (c' i * c i)))
      by (intros; ring).
    rewrite !Sum_plus, !Sum_scale.
    replace (Sum l (fun i => c i * c i)) with (N * (d * d - e)) by (rewrite Ed; field; lra).
    replace (Sum l (fun i => c' i * c' i)) with (N * (d' * d' - e)) by (rewrite Ed'; field; lra).
    field. lra.
  Qed.
  Lemma deviation_near : sqrt N * Rabs (d - d') <= Len l (fun i => c' i - c i).
  Proof.
    rewrite <- sqrt_Rsqr_abs, <- sqrt_mult by (try apply Rle_0_sqr; lra). apply sqrt_le_1_alt.
    rewrite <- deviations_distance. unfold Rsqr.
    assert (0 < d * d') by (apply Rmult_lt_0_compat; assumption).
    assert (0 <= N * e * ((d - d') * (d - d') / (d * d'))).
    { apply Rmult_le_pos; [apply Rmult_le_pos; lra|]. apply Rmult_le_pos; [apply square_pos|].
      apply Rlt_le, Rinv_0_lt_compat. assumption. }
    pose proof (Sum_pos l _ (fun i _ => square_pos (c' i / d' - c i / d))) as P.
    pose proof (Rmult_le_pos _ (d * d') P ltac:(lra)). lra.
  Qed.
  Lemma normed_distance low : 0 < low -> low <= d' ->
    Len l (fun i => c' i / d' - c i / d) <= Len l (fun i => c' i - c i) / sqrt (d * low).
  Proof.
    intros Hlow H2. pose proof (Len_pos l (fun i => c' i - c i)) as P0.
    assert (Pl : 0 < d * low) by (apply Rmult_lt_0_compat; assumption).
    assert (Pd : d * low <= d * d') by (apply Rmult_le_compat_l; lra).
    pose proof (sqrt_lt_R0 _ Pl) as Ps. pose proof (sqrt_sqrt (d * low) ltac:(lra)) as Es.
    set (s := sqrt (d * low)) in *. apply Len_below; [apply le_div; lra|].
    replace (Len l (fun i => c' i - c i) / s * (Len l (fun i => c' i - c i) / s))
      with (Len l (fun i => c' i - c i) * Len l (fun i => c' i - c i) / (s * s)) by (field; lra).
    rewrite Len_square, <- deviations_distance, Es. apply le_div; [exact Pl|].
    pose proof (Sum_pos l _ (fun i _ => square_pos (c' i / d' - c i / d))) as P.
    pose proof (Rmult_le_compat_l _ _ _ P Pd).
    assert (0 <= N * ((d - d') * (d - d'))) by (apply Rmult_le_pos; [lra|apply square_pos]).
    assert (0 <= N * e * ((d - d') * (d - d') / (d * d'))).
    { apply Rmult_le_pos; [apply Rmult_le_pos; lra|]. apply le_div; [lra|].
      pose proof (square_pos (d - d')). lra. }
    lra.
  Qed.
End Centre.

Lemma absolute_is a : absolute reals a = Rabs a.
Proof.
  change (Rmax a (0 - a) = Rabs a). unfold Rmax, Rabs. destruct (Rle_dec _ _), (Rcase_abs a); lra.
Qed.
Lemma largest_bounds w i : Rabs (at_ w i) <= largest reals w.
Proof.
  revert i. induction w as [|a w IH]; intros i; [rewrite at_nil, Rabs_R0; apply Rle_refl|].
  change (largest reals (a :: w)) with (Rmax (absolute reals a) (largest reals w)).
  rewrite absolute_is.
  pose proof (Rmax_l (Rabs a) (largest reals w)). pose proof (Rmax_r (Rabs a) (largest reals w)).
  destruct i as [|i]; cbn [nth]; [|specialize (IH i)]; lra.
Qed.

(** The mean, the centred vector and the deviation, as sums over indices. *)
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
    (forall i, (i < length x)%nat -> at_ y i = f i) ->
    mean reals (products y y) = Sum l (fun i => f i * f i) / N /\ dot_ y y = Sum l (fun i => f i * f i).
  Proof.
    intros Hy Hf. assert (E : dot_ y y = Sum l (fun i => f i * f i)).
    { rewrite (dot_nth y y (length x)) by lia. apply Sum_ext. intros i Hi. apply in_seq in Hi.
      rewrite Hf by lia. reflexivity. }
    split; [|exact E]. rewrite <- E. unfold mean, products, count. rewrite length_map2, Hy, Nat.min_id.
    reflexivity.
  Qed.
  Lemma centred_squares : mean reals (products (centred reals x) (centred reals x))
      = Sum l (fun i => centre_of i * centre_of i) / N
    /\ dot_ (centred reals x) (centred reals x) = Sum l (fun i => centre_of i * centre_of i).
  Proof. apply mean_squares; [apply map_length|apply at_centred]. Qed.
  Lemma deviation_is : 0 < N -> 0 < deviation reals x
    /\ deviation reals x * deviation reals x
      = Sum l (fun i => centre_of i * centre_of i) / N + 1 / 100000.
  Proof.
    intros HN. unfold deviation. cbn [reals root add div of_Z]. rewrite (proj2 centred_squares).
    change (count reals x) with N.
    assert (0 <= Sum l (fun i => centre_of i * centre_of i) / N).
    { apply Rmult_le_pos; [apply Sum_pos; intros; apply square_pos|]. apply Rlt_le, Rinv_0_lt_compat, HN. }
    split; [apply sqrt_lt_R0|apply sqrt_sqrt]; lra.
  Qed.
End Statistics.

Lemma at_norm s x i : (i < length (norm reals s x))%nat ->
  at_ (norm reals s x) i
  = centre_of x i / deviation reals x * at_ (fst s) i + at_ (snd s) i.
Proof.
  unfold norm. cbn [reals add mul div]. intros H. pose proof H as H'.
  rewrite !length_map2 in H. unfold centred in H. rewrite !map_length in H.
  rewrite nth_map2 by exact H'.
  rewrite nth_map2 by (rewrite length_map2; unfold centred; rewrite !map_length; lia).
  f_equal. f_equal. rewrite <- at_centred by lia.
  apply (nth_map (fun y => y / deviation reals x)). unfold centred. rewrite map_length. lia.
Qed.
Lemma length_norm s x : length (norm reals s x)
  = Nat.min (length x) (Nat.min (length (fst s)) (length (snd s))).
Proof. unfold norm, centred. rewrite !length_map2, !map_length. lia. Qed.

Lemma Rdiv_le a b c : 0 < c -> a <= b -> a / c <= b / c.
Proof. intros Hc H. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, Hc|exact H]. Qed.

(** Roots of numbers that differ by e at most. *)
Lemma inverse_roots a d e low : 0 < low -> low <= a -> low <= d * d -> 0 < d ->
  Rabs (a - d * d) <= e -> Rabs (1 / sqrt a - 1 / d) <= e / (2 * low * sqrt low).
Proof.
  intros Hl Ha Hd Pd He. set (s := sqrt a). set (b := sqrt low).
  assert (Hb : 0 < b) by (apply sqrt_lt_R0, Hl).
  assert (Hs : b <= s) by (apply sqrt_le_1_alt, Ha).
  assert (Hbd : b <= d) by (apply sqrt_le; lra).
  assert (Es : s * s = a) by (apply sqrt_sqrt; lra). assert (Eb : b * b = low) by (apply sqrt_sqrt; lra).
  replace (1 / s - 1 / d) with ((d * d - s * s) / (s * d * (s + d))) by (field; lra).
  assert (P : 0 < s * d * (s + d)) by (apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat|]; lra).
  unfold Rdiv at 1. rewrite Rabs_mult, (Rabs_right (/ _)), Es, Rabs_minus_sym
    by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat, P).
  assert (Pe : 0 <= e) by (eapply Rle_trans; [apply Rabs_pos|exact He]).
  apply Rmult_le_compat; [apply Rabs_pos|apply Rlt_le, Rinv_0_lt_compat, P|exact He|].
  apply Rinv_le_contravar; [rewrite <- Eb; apply Rmult_lt_0_compat; [nra|exact Hb]|].
  rewrite <- Eb. replace (2 * (b * b) * b) with (b * b * (b + b)) by ring.
  apply Rmult_le_compat; try nra.
Qed.

Lemma Forall2_at {A B} (P : A -> B -> Prop) u v i a b : Forall2 P u v -> (i < length v)%nat ->
  P (nth i u a) (nth i v b).
Proof. intros H. revert i. induction H; intros [|i] Hi; cbn in *; try lia; auto with arith. Qed.
Lemma Rabs_four a b c e : Rabs (a + b + c + e) <= Rabs a + Rabs b + Rabs c + Rabs e.
Proof.
  pose proof (Rabs_triang (a + b + c) e). pose proof (Rabs_triang (a + b) c).
  pose proof (Rabs_triang a b). lra.
Qed.

Section Norm.
  Variables (s : scaling R) (b : ball R) (x y : list R).
  Hypothesis Hx : within b x.
  Hypothesis Hy : norms s x y.
  Hypothesis steady : 0 < steadiness reals b.
  Notation N := (IZR (Z.of_nat (length x))).
  Notation l := (seq 0 (length x)).
  Notation low := (least_deviation reals b).
  Notation d := (deviation reals (fst b)).
  Notation d' := (deviation reals x).

  Lemma steady_both : 0 < count reals (fst b) /\ 0 < least_variance reals b.
  Proof.
    assert (0 <= count reals (fst b)) by (apply IZR_le; lia).
    assert (S : 0 < count reals (fst b) * least_variance reals b) by exact steady.
    destruct (Req_dec (count reals (fst b)) 0) as [E|E]; [rewrite E in S; lra|].
    split; [lra|]. apply (Rmult_lt_reg_l (count reals (fst b))); lra.
  Qed.
  Let nonempty := proj1 steady_both.
  Let variance := proj2 steady_both.
  Lemma N_pos : 0 < N.
  Proof. rewrite (proj1 Hx). exact nonempty. Qed.

  Lemma square_error_is : square_error reals b
    = times (4 * length x + 96) * (reach reals b * reach reals b / N) + tiny.
  Proof. unfold square_error, count. rewrite smallest_is, <- (proj1 Hx). reflexivity. Qed.

  Lemma centres_near : Len l (fun i => centre_of x i - centre_of (fst b) i) <= snd b.
  Proof.
    destruct Hx as [L H]. eapply Rle_trans; [|exact H].
    eapply Rle_trans; [|apply (centre_shortens l _ N); [rewrite seq_length; reflexivity|apply N_pos]].
    apply Len_le. intros i _. apply Req_le. f_equal. unfold centre_of. rewrite <- L.
    rewrite (Sum_ext l (fun i => at_ x i - at_ (fst b) i) (fun i => at_ x i + -1 * at_ (fst b) i))
      by (intros; ring).
    rewrite Sum_plus, Sum_scale. pose proof N_pos. field. lra.
  Qed.

  Lemma deviations : 0 < low /\ low <= d /\ low <= d' /\ 0 <= square_error reals b
    /\ least_variance reals b = low * low - square_error reals b.
  Proof.
    pose proof N_pos as HN. destruct (deviation_is x HN) as [P' E'].
    assert (HN' : 0 < IZR (Z.of_nat (length (fst b)))) by exact nonempty.
    destruct (deviation_is (fst b) HN') as [P E]. rewrite <- (proj1 Hx) in E.
    pose proof (deviation_near l N HN _ _ _ _ (1 / 100000)
      P P' E E' ltac:(lra)) as H.
    pose proof centres_near. pose proof (within_error _ _ Hx) as He.
    assert (HW : 0 < sqrt N) by (apply sqrt_lt_R0, HN).
    assert (Hd : Rabs (d - d') <= snd b / sqrt N) by (apply le_div; [exact HW|]; lra).
    assert (HeW : 0 <= snd b / sqrt N) by (apply le_div; [exact HW|]; lra).
    assert (El : low = Rmax (d - snd b / sqrt N) 0)
      by (unfold least_deviation, count; rewrite <- (proj1 Hx); reflexivity).
    assert (Hs : 0 <= square_error reals b).
    { rewrite square_error_is. pose proof tiny_pos.
      assert (0 <= times (4 * length x + 96) * (reach reals b * reach reals b / N)); [|lra].
      apply Rmult_le_pos; [apply times_pos|]. apply le_div; [exact HN|].
      pose proof (square_pos (reach reals b)). lra. }
    assert (Ev : least_variance reals b = low * low - square_error reals b) by reflexivity.
    pose proof (Rmax_r (d - snd b / sqrt N) 0) as Hlow. rewrite <- El in Hlow.
    assert (0 < low).
    { destruct Hlow as [|Z]; [assumption|]. rewrite Ev, <- Z in variance. lra. }
    repeat split; try assumption; rewrite El; unfold Rmax, Rabs in *;
      destruct (Rle_dec _ _), (Rcase_abs _); lra.
  Qed.

  Lemma norm_within : within (norm_ball reals s b) y.
  Proof.
    pose proof Hx as [L _]. pose proof (within_reach _ _ Hx) as HX. pose proof N_pos as HN.
    destruct deviations as (Hlow & Hd & Hd' & Hsq & Ev). pose proof centres_near as Hc.
    destruct (deviation_is x HN) as [P' E'].
    destruct (deviation_is (fst b) nonempty) as [P E]. rewrite <- L in E.
    pose proof (normed_distance l N HN _ _ _ _ (1 / 100000)
      P P' E E' ltac:(lra) low Hlow Hd') as Hn.
    destruct Hy as (m & v & r & Hm & Hv & Hr & Hf). cbv zeta in Hv.
    rewrite (proj1 (centred_squares x)) in Hv.
    rewrite (proj1 (mean_squares x x _ eq_refl (fun i _ => eq_refl))) in Hv.
    set (X := reach reals b) in *. set (W := sqrt N). assert (HW : 0 < W) by (apply sqrt_lt_R0, HN).
    rewrite (size_nth x _ (le_n _)) in HX. set (Lx := Len l (fun i => at_ x i)) in *.
    assert (HLx : 0 <= Lx) by apply Len_pos.
    (* the mean *)
    set (dm := times (length x + 48) * (X / W) + tiny).
    assert (Hmean : Rabs (mean reals x) <= X / W /\ mean reals (map Rabs x) <= X / W).
    { assert (Lx / W <= X / W) by (apply Rdiv_le; assumption). split.
      - rewrite mean_is. eapply Rle_trans; [apply mean_le|exact H]; [rewrite seq_length; reflexivity|exact HN].
      - rewrite mean_is, map_length. eapply Rle_trans; [apply Rle_abs|].
        eapply Rle_trans; [apply mean_le|]; [rewrite seq_length; reflexivity|exact HN|].
        eapply Rle_trans; [|exact H]. apply Rdiv_le; [exact HW|]. apply Len_le. intros i _.
        rewrite <- Rabs_R0 at 1. rewrite (map_nth Rabs), Rabs_Rabsolu. apply Rle_refl. }
    destruct Hmean as [Hmean Habs].
    assert (Hdm : Rabs (m - mean reals x) <= dm).
    { eapply Rle_trans; [exact Hm|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [apply times_pos|exact Habs]. }
    assert (Hm' : Rabs m <= X / W + dm).
    { replace m with (m - mean reals x + mean reals x) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra. }
    (* the variance *)
    assert (Hv' : Rabs (v + 1 / 100000 - d' * d') <= square_error reals b).
    { rewrite E', square_error_is. replace (v + 1 / 100000 - _)
        with (v - Sum l (fun i => centre_of x i * centre_of x i) / N) by ring.
      eapply Rle_trans; [exact Hv|]. apply Rplus_le_compat_r, Rmult_le_compat_l; [apply times_pos|].
      apply Rdiv_le; [exact HN|]. rewrite <- Len_square. fold Lx X. apply Rmult_le_compat; assumption. }
    set (sq := square_error reals b) in *. set (lv := least_variance reals b) in *.
    assert (low * low <= d' * d') by (apply Rmult_le_compat; lra).
    assert (Ha : lv <= v + 1 / 100000) by (unfold Rabs in Hv'; destruct (Rcase_abs _); lra).
    assert (Hlv : lv <= d' * d') by lra.
    pose proof (inverse_roots _ _ _ _ variance Ha Hlv P' Hv') as Hi.
    set (rt := sqrt (v + 1 / 100000)) in *. set (least := sqrt lv) in *.
    assert (Hleast : 0 < least) by (apply sqrt_lt_R0, variance).
    assert (Hroot : least <= rt) by (apply sqrt_le_1_alt, Ha).
    pose proof tiny_pos as Ht. pose proof (times_pos 20) as H20. pose proof (times_pos 10) as H10.
    assert (Hir : Rabs (1 / rt) <= 1 / least).
    { rewrite Rabs_right; [|apply Rle_ge, le_div; lra]. unfold Rdiv. rewrite !Rmult_1_l.
      apply Rinv_le_contravar; lra. }
    set (fe := times 20 / least + tiny + sq / (2 * lv * least)).
    set (F := (1 + times 20) / least + tiny).
    assert (Hr' : Rabs (r - 1 / rt) <= times 20 / least + tiny).
    { eapply Rle_trans; [exact Hr|]. apply Rplus_le_compat_r.
      replace (times 20 / least) with (times 20 * (1 / least)) by (field; lra).
      apply Rmult_le_compat_l; assumption. }
    assert (Hfe : Rabs (r - 1 / d') <= fe).
    { replace (r - 1 / d') with ((r - 1 / rt) + (1 / rt - 1 / d')) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. unfold fe. lra. }
    assert (HF : Rabs r <= F).
    { replace r with ((r - 1 / rt) + 1 / rt) by ring. eapply Rle_trans; [apply Rabs_triang|].
      unfold F. replace ((1 + times 20) / least) with (1 / least + times 20 / least) by (field; lra). lra. }
    assert (HF0 : 0 <= F) by (eapply Rle_trans; [apply Rabs_pos|exact HF]).
    assert (Hfe0 : 0 <= fe) by (eapply Rle_trans; [apply Rabs_pos|exact Hfe]).
    assert (Hdm0 : 0 <= dm) by (eapply Rle_trans; [apply Rabs_pos|exact Hdm]).
    set (big := largest reals (fst s)).
    assert (Hbig : 0 <= big) by (eapply Rle_trans; [apply Rabs_pos|apply (largest_bounds _ 0)]).
    (* lengths *)
    assert (Ly : length y = length (norm reals s (fst b))).
    { rewrite length_norm, <- L, <- (Forall2_length _ _ _ Hf), !combine_length. reflexivity. }
    split; [exact Ly|]. cbn [norm_ball fst snd].
    assert (Ln : (length y <= length x)%nat) by (rewrite Ly, length_norm; lia).
    assert (0 <= big * fe) by (apply Rmult_le_pos; assumption).
    assert (0 <= big * F) by (apply Rmult_le_pos; assumption).
    assert (0 <= times 10 * (big * F)) by (apply Rmult_le_pos; assumption).
    assert (0 <= times 10 * (big * F) * Rabs m) by (apply Rmult_le_pos; [assumption|apply Rabs_pos]).
    assert (0 <= big * F * dm) by (apply Rmult_le_pos; assumption).
    set (k := times 10 * (big * F) * Rabs m + tiny + big * F * dm). assert (Hk : 0 <= k) by (unfold k; lra).
    eapply Rle_trans; [apply (Len_terms _ [(big, fun i => centre_of x i / d' - centre_of (fst b) i / d);
      (big * fe, centre_of x); (times 10 * (big * F), fun i => at_ x i);
      (times 10, fun i => at_ (snd s) i); (k, fun _ => 1)] fst snd)|].
    - intros u Hu. cbn [In] in Hu. decompose [or] Hu; subst; try contradiction; cbn [fst]; lra.
    - intros i Hi'. apply in_seq in Hi'. rewrite at_norm by lia.
      unfold Sum at 1, sum. cbn [map fold_right fst snd reals add zero of_Z]. rewrite Rabs_R1.
      apply (Forall2_at _ _ _ i (0, (0, 0)) 0) in Hf; [|lia].
      assert (Lc : (i < length (combine x (combine (fst s) (snd s))))%nat)
        by (rewrite !combine_length; rewrite length_norm in Ly; lia).
      rewrite nth_combine, nth_combine in Hf by (rewrite ?combine_length in *; lia).
      set (a := at_ x i) in *. set (w := at_ (fst s) i) in *. set (o := at_ (snd s) i) in *.
      assert (Hw : Rabs w <= big) by apply largest_bounds.
      set (c' := centre_of x i). set (c := centre_of (fst b) i).
      assert (Ea : a = c' + mean reals x) by (unfold a, c', centre_of; rewrite mean_is; ring).
      replace (at_ y i - _) with ((at_ y i - ((a - m) * (r * w) + o)) + w * (c' / d' - c / d)
        + w * c' * (r - 1 / d') + w * - (m - mean reals x) * r) by (rewrite Ea; field; lra).
      eapply Rle_trans; [apply Rabs_four|]. rewrite !Rabs_mult, Rabs_Ropp. rewrite Rabs_mult in Hf.
      assert (Rabs r * Rabs w <= F * big) by (apply Rmult_le_compat; auto using Rabs_pos).
      assert (times 10 * ((Rabs a + Rabs m) * (Rabs r * Rabs w)) <= times 10 * ((Rabs a + Rabs m) * (F * big))).
      { apply Rmult_le_compat_l; [exact H10|]. apply Rmult_le_compat_l; [|assumption].
        pose proof (Rabs_pos a). pose proof (Rabs_pos m). lra. }
      assert (Rabs w * Rabs (c' / d' - c / d) <= big * Rabs (c' / d' - c / d))
        by (apply Rmult_le_compat_r; auto using Rabs_pos).
      assert (Rabs w * Rabs c' * Rabs (r - 1 / d') <= big * Rabs c' * fe)
        by (repeat apply Rmult_le_compat; auto using Rabs_pos, Rmult_le_pos, Rle_refl).
      assert (Rabs w * Rabs (m - mean reals x) * Rabs r <= big * dm * F)
        by (repeat apply Rmult_le_compat; auto using Rabs_pos, Rmult_le_pos, Rle_refl).
      unfold k. lra.
    - unfold Sum at 1, sum. cbn [map fold_right fst snd reals add zero of_Z].
      rewrite Len_const, seq_length, Rmult_1_r by lra.
      set (n := length y) in *. set (W' := sqrt (IZR (Z.of_nat n))).
      assert (HW' : 0 <= W' <= W) by (split; [apply sqrt_pos|apply sqrt_le_1_alt, IZR_le; lia]).
      pose proof (Len_prefix n _ (fun i => centre_of x i / d' - centre_of (fst b) i / d) Ln) as H'.
      pose proof (Len_prefix n _ (centre_of x) Ln). pose proof (Len_nth (snd s) n).
      assert (Len (seq 0 n) (fun i => at_ x i) <= Lx) by (apply Len_prefix, Ln).
      assert (Len l (centre_of x) <= Lx) by (apply (centre_shortens l _ N); [rewrite seq_length; reflexivity|exact HN]).
      assert (Len l (fun i => centre_of x i - centre_of (fst b) i) / sqrt (d * low)
        <= snd b / sqrt (d * low))
        by (apply Rdiv_le; [apply sqrt_lt_R0, Rmult_lt_0_compat|]; assumption).
      set (L1 := Len (seq 0 n) (fun i => centre_of x i / d' - centre_of (fst b) i / d)) in *.
      set (L2 := Len (seq 0 n) (centre_of x)) in *. set (L3 := Len (seq 0 n) (fun i => at_ x i)) in *.
      set (L4 := Len (seq 0 n) (fun i => at_ (snd s) i)) in *.
      assert (big * L1 <= big * (snd b / sqrt (d * low))) by (apply Rmult_le_compat_l; lra).
      assert (big * fe * L2 <= big * fe * X) by (apply Rmult_le_compat_l; lra).
      assert (times 10 * (big * F) * L3 <= times 10 * (big * F) * X) by (apply Rmult_le_compat_l; lra).
      assert (times 10 * L4 <= times 10 * Size (snd s)) by (apply Rmult_le_compat_l; lra).
      assert (k * W' <= k * W) by (apply Rmult_le_compat_l; lra).
      assert (W * Rabs m <= X + W * dm).
      { replace (X + W * dm) with (W * (X / W + dm)) by (field; lra). apply Rmult_le_compat_l; lra. }
      assert (times 10 * (big * F) * (W * Rabs m) <= times 10 * (big * F) * (X + W * dm))
        by (apply Rmult_le_compat_l; assumption).
      unfold k in *. fold X low. fold sq lv.
      rewrite smallest_is. unfold count. rewrite <- L. cbn [reals of_Z div root mul add].
      change (units reals 20) with (times 20). change (units reals 10) with (times 10).
      change (units reals (length x + 48)) with (times (length x + 48)).
      fold least W. fold dm. fold F. fold fe. fold big.
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

Lemma within_len b x m : within b x -> Len (seq 0 m) (fun i => at_ x i - at_ (fst b) i) <= snd b.
Proof.
  intros [L H]. rewrite <- (size_minus _ _ L) in H. eapply Rle_trans; [|exact H].
  eapply Rle_trans; [|apply (Len_nth _ m)]. apply Len_le. intros i _. rewrite at_minus by exact L. lra.
Qed.
Lemma dot_near b c x y : within b x -> within c y ->
  Rabs (dot_ x y - dot_ (fst b) (fst c)) <= snd b * reach reals c + Size (fst b) * snd c.
Proof.
  intros Hx Hy. pose proof (within_reach _ _ Hy) as Ry. destruct Hx as [Lx Hx]. destruct Hy as [Ly Hy].
  rewrite <- (size_minus _ _ Lx) in Hx. rewrite <- (size_minus _ _ Ly) in Hy.
  replace (dot_ x y - dot_ (fst b) (fst c)) with (dot_ (minus x (fst b)) y + dot_ (fst b) (minus y (fst c)))
    by (rewrite (dot_comm (minus _ _)), !dot_minus, !(dot_comm y) by assumption; ring).
  eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; (eapply Rle_trans; [apply dot_le|]).
  - apply Rmult_le_compat; auto using size_pos.
  - apply Rmult_le_compat_l; auto using size_pos.
Qed.
Lemma largest_in l a : In a l -> Rabs a <= largest reals l.
Proof. intros H. destruct (In_nth l a 0 H) as (i & _ & <-). apply largest_bounds. Qed.
Lemma plus_zeros (a : affine R) x :
  map2 Rplus (map (fun _ => 0) (snd a)) (apply reals a x) = apply reals a x.
Proof.
  unfold apply, map2. generalize (map (fun row => dot_ row x) (fst a)).
  induction (snd a) as [|o b IH]; intros [|r l]; cbn; try reflexivity. f_equal; [lra|apply IH].
Qed.
Lemma inverse_root_pos k : 0 <= / sqrt (IZR (Z.of_nat k)).
Proof.
  destruct (sqrt_pos (IZR (Z.of_nat k))) as [H|H]; [apply Rlt_le, Rinv_0_lt_compat, H|].
  rewrite <- H, Rinv_0. lra.
Qed.

Section Head.
  Variables (w : weights R) (h : head R) (q : token) (keys : list key) (z : list R) (size_ : nat).
  Notation source_ball t := (norm_ball reals (before_attention w) (embedding_ball reals w t)).
  Definition through (a : affine R) (t : token) : ball R :=
    affine_ball reals a (known_of reals rows a) (source_ball t) (no_vector reals (snd a)).
  Let parts := parts_of reals size_ (tabulate size_ (source reals w)) h.
  Let d := doubts_of reals rows size_ (tabulate size_ (fun t => source_ball t)) h.
  Hypothesis steady : forall t, In t (q :: map fst keys) -> 0 < steadiness reals (embedding_ball reals w t).

  Lemma through_within a t s y : In t (q :: map fst keys) ->
    norms (before_attention w) (embedding w t) s -> affines a s (nothing a) y -> within (through a t) y.
  Proof.
    intros Ht Hs Hy. apply (affine_within a s (fst (no_vector reals (snd a)))).
    - exact (norm_within _ _ _ _ (within_itself _) Hs (steady t Ht)).
    - apply within_no_vector.
    - apply affines_nothing, Hy.
  Qed.
  Lemma through_is a t : fst (through a t) = apply reals a (source reals w t).
  Proof. apply plus_zeros. Qed.

  Notation scale := (sqrt (IZR (Z.of_nat (length (snd (query h)))))).
  Notation biases_of k := (map (fun br => 8 * nth (snd br) (fst br) 0) (combine (biases h) (snd k))).
  Definition gross_of (k : key) : R :=
    reach reals (through (query h) q) * reach reals (through (key_map h) (fst k)) / scale
    + magnitude (biases_of k).

  Lemma gross_is k : gross d q (fst k)
    + total (map (fun p => fst p (snd p)) (combine (gross_rows d) (snd k))) = gross_of k.
  Proof.
    unfold d, gross_of. cbn [doubts_of gross gross_rows]. rewrite !tabulate_eq. cbv zeta. rewrite ?tabulate_eq.
    f_equal. generalize (snd k). induction (biases h) as [|level levels IH]; intros [|r l]; try reflexivity.
    cbn [map combine fst snd]. unfold magnitude in *. cbn [map]. unfold sum in *. cbn [fold_right].
    rewrite IH, tabulate_eq, absolute_is. reflexivity.
  Qed.

  (** The largest sum of absolute terms, and the largest of the other errors. *)
  Let G := largest reals (map (fun k => gross d q (fst k)
    + total (map (fun p => fst p (snd p)) (combine (gross_rows d) (snd k)))) keys).
  Let C := largest reals (map (fun k => crossed d q (fst k)) keys).
  Let E := times (score_units d) * G + tiny.

  Variables (s qv : list R) (data : list datum).
  Hypothesis Hs : norms (before_attention w) (embedding w q) s.
  Hypothesis Hq : affines (query h) s (nothing (query h)) qv.
  Hypothesis Hkeys : map d_key data = keys.
  Hypothesis Hdata : Forall (computes w h qv data) data.

  Lemma key_in x : In x data -> In (d_key x) keys.
  Proof. rewrite <- Hkeys. apply in_map. Qed.
  Lemma token_in x : In x data -> In (fst (d_key x)) (q :: map fst keys).
  Proof. right. apply in_map, key_in, H. Qed.

  Lemma score_near x : In x data ->
    Rabs (d_score x - score reals w h q (d_key x)) <= C + E /\ Rabs (d_score x) <= G + E.
  Proof.
    intros Hx. rewrite Forall_forall in Hdata.
    destruct (Hdata x Hx) as (s' & k & Hs' & Hk & _ & Hscore & _). cbv zeta in Hscore.
    pose proof (through_within _ _ _ _ (or_introl eq_refl) Hs Hq) as Bq.
    pose proof (through_within _ _ _ _ (token_in x Hx) Hs' Hk) as Bk.
    pose proof (dot_near _ _ _ _ Bq Bk) as D. pose proof (within_reach _ _ Bq) as Rq.
    pose proof (within_reach _ _ Bk) as Rk. rewrite !through_is in D.
    set (bq := through (query h) q) in *. set (bk := through (key_map h) (fst (d_key x))) in *.
    assert (HC : (snd bq * reach reals bk + Size (apply reals (query h) (source reals w q)) * snd bk)
      / scale <= C).
    { eapply Rle_trans; [apply Rle_abs|]. apply largest_in.
      refine (eq_ind _ (fun a => In a _) (in_map _ _ _ (key_in x Hx)) _ _). unfold d. cbn [doubts_of crossed].
      rewrite !tabulate_eq. cbv zeta. rewrite ?tabulate_eq. fold (through (query h) q) bq.
      fold (through (key_map h) (fst (d_key x))) bk. rewrite <- through_is. reflexivity. }
    assert (HG : gross_of (d_key x) <= G).
    { rewrite <- gross_is. eapply Rle_trans; [apply Rle_abs|]. apply largest_in.
      exact (in_map _ _ _ (key_in x Hx)). }
    unfold gross_of in HG. fold bq bk in HG.
    pose proof (inverse_root_pos (length (snd (query h)))) as Hi. unfold Rdiv in *.
    set (i := / scale) in *. pose proof (magnitude_le qv k) as M. pose proof (size_pos qv).
    pose proof (size_pos k). set (biases := biases_of (d_key x)) in *.
    assert (Rabs (total biases) <= magnitude biases) by apply magnitude_bounds.
    assert (M' : magnitude (products qv k) * i <= reach reals bq * reach reals bk * i).
    { apply Rmult_le_compat_r; [exact Hi|]. eapply Rle_trans; [exact M|]. apply Rmult_le_compat; assumption. }
    assert (D' : Rabs (dot_ qv k * i) <= magnitude (products qv k) * i).
    { rewrite Rabs_mult, (Rabs_right i) by lra. apply Rmult_le_compat_r; [exact Hi|]. apply magnitude_bounds. }
    set (K := times (4 * length (snd (query h)) * S (length biases) + 60)) in *.
    assert (HK : 0 <= K <= times (score_units d)).
    { split; [apply times_pos|]. apply Rmult_le_compat_r; [apply Rlt_le, unit32_pos|]. apply IZR_le.
      cbn [score_units d doubts_of]. unfold biases. rewrite map_length, combine_length. nia. }
    assert (HE : K * (magnitude (products qv k) * i + magnitude biases) + tiny <= E).
    { apply Rplus_le_compat_r. apply Rmult_le_compat; [lra| |lra|lra].
      pose proof (magnitude_pos biases). pose proof (magnitude_pos (products qv k)).
      pose proof (Rmult_le_pos _ i (magnitude_pos (products qv k)) Hi). lra. }
    change (total (products qv k)) with (dot_ qv k) in Hscore.
    split.
    - unfold score. cbn [reals add div root]. fold i. change (bias reals h (snd (d_key x))) with (total biases).
      change (count reals (snd (query h))) with (IZR (Z.of_nat (length (snd (query h))))). unfold Rdiv. fold i.
      assert (D2 : Rabs (dot_ qv k * i - dot_ (apply reals (query h) (source reals w q))
        (apply reals (key_map h) (source reals w (fst (d_key x)))) * i) <= C).
      { eapply Rle_trans; [|exact HC].
        rewrite <- Rmult_minus_distr_r, Rabs_mult, (Rabs_right i) by lra.
        apply Rmult_le_compat_r; [exact Hi|exact D]. }
      unfold Rabs in *. repeat destruct (Rcase_abs _); lra.
    - unfold Rabs in *. repeat destruct (Rcase_abs _); lra.
  Qed.

  Lemma weight_near x : In x data -> exists t,
    Rabs t <= shift reals d q keys /\ d_weight x = exp (score reals w h q (d_key x)) * exp t.
  Proof.
    intros Hx. destruct (score_near x Hx) as [Sx Ax]. pose proof Hdata as Hd. rewrite Forall_forall in Hd.
    destruct (Hd x Hx) as (_ & _ & _ & _ & _ & _ & y & e & Hy & Hw & He).
    destruct (score_near y Hy) as [_ Ay].
    exists (d_score x - score reals w h q (d_key x) + e). split.
    - rewrite <- (map_length d_key data), Hkeys in He.
      replace (shift reals d q keys) with (C + E + times 16 * (2 * (G + E)) + times (64 + 10 * length keys))
        by (unfold shift; rewrite smallest_is; reflexivity).
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (times_pos 16).
      assert (times 16 * (Rabs (d_score x) + Rabs (d_score y)) <= times 16 * (2 * (G + E)))
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
  Let width := length z.

  Lemma attended_is : attended_head reals q keys parts
    = map (fun i => Sum keys (fun k => weight k * value_at k i) / Sum keys weight) (seq 0 width).
  Proof.
    unfold attended_head. rewrite map_map. cbn [fst].
    rewrite (map_ext _ _ (weight_of_tables w size_ h q)), (map_ext _ (fun k => (weight k, map (value_at k) (seq 0 width)))).
    - unfold width. rewrite Hlen. fold parts. change (Tables.width parts) with (length (snd (value h))).
      rewrite weighted_is_sum, map_map. reflexivity.
    - intros k. unfold parts. rewrite weight_of_tables. cbn [of_value parts_of]. rewrite !tabulate_eq.
      unfold width. rewrite Hlen. reflexivity.
  Qed.

  Lemma head_within : within (head_ball reals q keys (parts, d)) z.
  Proof.
    assert (E1 : length z = length (attended_head reals q keys parts))
      by (rewrite attended_is, map_length, seq_length; reflexivity).
    split; [exact E1|]. unfold head_ball. cbv zeta. cbn [fst snd].
    set (ref := attended_head reals q keys parts) in *.
    assert (value_ball : forall x, In x data -> within (through (value h) (fst (d_key x))) (d_value x)).
    { intros x Hx. pose proof Hdata as Hd. rewrite Forall_forall in Hd.
      destruct (Hd x Hx) as (s' & k & Hs' & _ & Hv & _). exact (through_within _ _ _ _ (token_in x Hx) Hs' Hv). }
    assert (P : 0 < Sum keys weight).
    { destruct keys as [|k l]; [contradiction|]. rewrite Sum_cons. pose proof (exp_pos (score reals w h q k)).
      pose proof (Sum_pos l weight (fun i _ => Rlt_le _ _ (exp_pos _))). unfold weight in *. lra. }
    assert (SK : forall f, Sum keys f = Sum data (fun x => f (d_key x)))
      by (intros f; unfold Sum; rewrite <- Hkeys, map_map; reflexivity).
    rewrite SK in P.
    eapply Rle_trans; [eapply (mean_within data (seq 0 width) (fun x => weight (d_key x)) d_weight
      (fun x => value_at (d_key x)) (fun x i => at_ (d_value x) i) (fun i => at_ ref i) _ (shift reals d q keys)
      (largest reals (map (fun k => value_error d (fst k)) keys))
      (largest reals (map (fun k => value_reach d (fst k)) keys))
      (times (4 * length data + 24)) (IZR (Z.of_nat (length data)) / IZR (2 ^ 50)))|].
    - exact P.
    - intros x _. apply exp_pos.
    - intros x Hx. exact (weight_near x Hx).
    - intros x Hx. pose proof (within_len _ _ width (value_ball x Hx)) as V. rewrite through_is in V.
      eapply Rle_trans; [exact V|]. eapply Rle_trans; [apply Rle_abs|]. apply largest_in.
      refine (eq_ind _ (fun a => In a _) (in_map _ _ _ (key_in x Hx)) _ _). unfold d. cbn [doubts_of value_error].
      rewrite !tabulate_eq. reflexivity.
    - intros x Hx. eapply Rle_trans; [apply Len_nth|].
      eapply Rle_trans; [apply (within_reach _ _ (value_ball x Hx))|]. eapply Rle_trans; [apply Rle_abs|].
      apply largest_in. refine (eq_ind _ (fun a => In a _) (in_map _ _ _ (key_in x Hx)) _ _).
      unfold d. cbn [doubts_of value_reach]. rewrite !tabulate_eq. reflexivity.
    - apply times_pos.
    - apply le_div; [apply IZR_lt; reflexivity|]. rewrite Rmult_0_l. apply IZR_le. lia.
    - intros i Hi. apply in_seq in Hi. unfold ref. rewrite attended_is.
      rewrite (nth_map _ _ _ 0%nat), seq_nth, !SK by (rewrite ?seq_length; lia). reflexivity.
    - intros i Hi. apply in_seq in Hi. exact (Hz i ltac:(unfold width in Hi; lia)).
    - assert (ES : spread reals parts q keys ref = Sum data (fun x => weight (d_key x)
        * Len (seq 0 width) (fun i => value_at (d_key x) i - at_ ref i)) / Sum data (fun x => weight (d_key x))).
      { change (spread reals parts q keys ref) with (Sum keys (fun k => weight_of reals parts q k
          * Size (minus (of_value parts (fst k)) ref)) / Sum keys (weight_of reals parts q)).
        rewrite !SK. f_equal; apply Sum_ext; intros x _; unfold parts; rewrite weight_of_tables; [|reflexivity].
        f_equal. cbn [of_value parts_of]. rewrite !tabulate_eq, <- Hlen. cbv zeta.
        rewrite size_minus by (rewrite map_length, seq_length; exact E1).
        rewrite map_length, seq_length. unfold Len. f_equal. apply Sum_ext. intros i Hi. apply in_seq in Hi.
        rewrite (nth_map _ _ _ 0%nat), seq_nth by (rewrite ?seq_length; lia). reflexivity. }
      rewrite ES. rewrite <- Hkeys, map_length. apply Req_le. f_equal. f_equal.
      unfold number. cbn [reals of_Z div add mul]. rewrite Nat2Z.inj_mul, mult_IZR.
      change (units reals (4 * length data + 24)) with (times (4 * length data + 24)).
      change (expo reals) with exp. change (sub reals) with Rminus. unfold Rdiv. ring.
  Qed.
End Head.

Lemma dot_app u v u' v' : length u = length u' -> dot_ (u ++ v) (u' ++ v') = dot_ u u' + dot_ v v'.
Proof.
  revert u'. induction u as [|a u IH]; intros [|b u'] H; cbn in H; try discriminate;
    [unfold dot, map2, sum; cbn; ring|].
  specialize (IH u' ltac:(congruence)). unfold dot, map2, sum in *. cbn in *. rewrite IH. ring.
Qed.
Lemma minus_app u v u' v' : length u = length u' -> minus (u ++ v) (u' ++ v') = minus u u' ++ minus v v'.
Proof.
  revert u'. induction u as [|a u IH]; intros [|b u'] H; cbn in H; try discriminate; [reflexivity|].
  cbn [app]. unfold minus, map2 in *. cbn. f_equal. apply IH. congruence.
Qed.

(** The balls of the heads in one. *)
Lemma concat_within balls zs : Forall2 within balls zs ->
  within (flat_map fst balls, Size (map snd balls)) (concat zs).
Proof.
  induction 1 as [|b z balls zs [L H] _ [L' H']]; [split; [reflexivity|apply Rle_refl]|].
  cbn [map flat_map concat fst snd] in *.
  assert (L2 : length (z ++ concat zs) = length (fst b ++ flat_map fst balls))
    by (rewrite !app_length; congruence).
  split; [exact L2|]. cbn [fst snd]. rewrite <- size_minus in H, H' |- * by assumption.
  rewrite minus_app by exact L.
  unfold size at 1 2. apply sqrt_le_1_alt. rewrite dot_app by reflexivity.
  change (dot_ (snd b :: map snd balls) _) with (snd b * snd b + dot_ (map snd balls) (map snd balls)).
  rewrite <- !size_square. pose proof (size_pos (minus z (fst b))).
  pose proof (size_pos (minus (concat zs) (flat_map fst balls))).
  apply Rplus_le_compat; apply Rmult_le_compat; assumption.
Qed.

(** * The due token leads *)

Lemma Len_at {A} (l : list A) f i : In i l -> Rabs (f i) <= Len l f.
Proof.
  intros H. rewrite <- sqrt_Rsqr_abs. apply sqrt_le_1_alt. induction l as [|a l IH]; [contradiction|].
  rewrite Sum_cons. cbv beta. pose proof (square_pos (f a)).
  pose proof (Sum_pos l _ (fun i _ => square_pos (f i))). unfold Rsqr in *.
  destruct H as [->|H]; [|specialize (IH H)]; lra.
Qed.

Lemma roundings_le a b x v : within b x ->
  roundings reals (known_of reals rows a) (x, 0) v <= roundings reals (known_of reals rows a) b v.
Proof.
  intros H. pose proof (within_reach _ _ H) as HX. apply Rplus_le_compat_r, Rmult_le_compat_l.
  - cbn [known_of k_growth]. rewrite growth_is. pose proof (grow_1 (3 + breadth (fst a))). lra.
  - apply Rplus_le_compat_r, Rplus_le_compat_r, Rmult_le_compat_l; [apply size_pos|].
    unfold reach at 1. cbn [fst snd reals add]. lra.
Qed.
Lemma at_zeros {A} (l : list A) i : at_ (map (fun _ => 0) l) i = 0.
Proof. revert i. induction l as [|a l IH]; intros [|i]; cbn; auto. Qed.

Section Leads.
  Variables (w : weights R) (last : ball R) (x l : list R) (y : token).
  Notation W := (logits w).
  Hypothesis Hx : within last x.
  Hypothesis Hl : Forall2 (fun row r => dots row x [] r) W l.
  Hypothesis same : forall v v', (v < length W)%nat -> (v' < length W)%nat ->
    length (nth v W []) = length (nth v' W []).
  Hypothesis Hy : (y < length W)%nat.
  Notation without := (without_bias reals W).
  Notation nothing := (no_vector reals W).
  Notation E := (roundings reals (known_of reals rows without) last nothing).

  Lemma logit_error v : (v < length l)%nat -> Rabs (at_ l v - dot_ (nth v W []) x) <= E.
  Proof.
    intros Hv. pose proof (affines_without_bias _ _ _ Hl) as H.
    apply (affine_within _ _ _ _ _ _ (within_itself x) (within_no_vector W)) in H.
    destruct H as [HL H]. assert (Hin : In v (seq 0 (length l))) by (apply in_seq; lia).
    unfold affine_ball in H, HL. cbn [fst snd] in H, HL.
    change (map2 (add reals) (k_rows (known_of reals rows without) x) (snd without))
      with (apply reals without x) in *. change (add reals) with Rplus in *.
    match type of H with Len _ ?f <= _ => pose proof (Len_at _ f _ Hin) as Ha end. cbv beta in Ha.
    rewrite at_affine in Ha by lia.
    change (zero reals) with 0 in *.
    replace (at_ (fst nothing) v + (dot_ (nth v (fst without) []) x + at_ (snd without) v))
      with (dot_ (nth v W []) x) in Ha by (cbn [no_vector without_bias fst snd]; rewrite !at_zeros; ring).
    pose proof (roundings_le without last x nothing Hx) as M.
    change (mul reals) with Rmult in H.
    eapply Rle_trans; [exact Ha|]. eapply Rle_trans; [exact H|]. eapply Rle_trans; [|exact M].
    rewrite Rmult_0_r, !Rplus_0_l. apply Rle_refl.
  Qed.

  Lemma leads_right : Forall (Rlt 0) (leads reals w (knowledge_of reals rows w) last y) -> leads_by 0 l y.
  Proof.
    intros H. assert (L : length W = length l) by exact (Forall2_length _ _ _ Hl).
    split; [lia|]. intros v Hv Hne. rewrite Forall_forall in H.
    pose proof (logit_error v Hv) as Ev. pose proof (logit_error y ltac:(lia)) as Ey.
    unfold leads in H. cbv zeta in H. change (length (k_rows _ (fst last))) with (length (rows W (fst last))) in H.
    rewrite length_rows in H.
    assert (Hin : In v (filter (fun v => negb (v =? y)) (seq 0 (length W))))
      by (apply filter_In; rewrite in_seq, negb_true_iff, Nat.eqb_neq; lia).
    specialize (H _ (in_map _ _ v Hin)).
    cbv beta in H. cbn [knowledge_of of_logits] in H.
    change (k_rows _ (fst last)) with (rows W (fst last)) in H.
    cbn [reals sub mul add of_Z] in H. change (zero reals) with 0 in H. rewrite !nth_rows in H.
    cbn [knowledge_of of_logits distances] in H.
    replace (at_ (nth y _ []) v) with (Size (minus (nth y W []) (nth v W []))) in H.
    - pose proof (dot_le (minus (nth y W []) (nth v W [])) (minus x (fst last))) as D.
      rewrite (size_minus x), dot_minus in D by apply Hx.
      rewrite !(dot_comm (minus _ _)), !dot_minus, !(dot_comm x), !(dot_comm (fst last)) in D
        by (apply same; lia).
      pose proof (Rmult_le_compat_l _ _ _ (size_pos (minus (nth y W []) (nth v W []))) (proj2 Hx)).
      unfold Rabs in *. repeat destruct (Rcase_abs _); lra.
    - rewrite (nth_map _ W y [] []), (nth_map _ W v [] 0) by lia. reflexivity.
  Qed.
End Leads.

(** The theorem: if the margins of a context are positive, the due token leads. *)
Theorem margins_right w q keys l y :
  (forall v v', (v < length (logits w))%nat -> (v' < length (logits w))%nat ->
    length (nth v (logits w) []) = length (nth v' (logits w) [])) ->
  (y < length (logits w))%nat ->
  Forall (Rlt 0) (margins reals w (knowledge_of reals rows w) (q, keys, y)) ->
  float_pass w q keys l -> leads_by 0 l y.
Proof.
  intros same Hy M (zs & x & n1 & u & h & last & H1 & H2 & H3 & H4 & H5 & H6 & H7).
  unfold margins in M. cbv zeta in M. rewrite Forall_cons_iff, Forall_app, !Forall_cons_iff in M.
  destruct M as (Hkeys & Hsource & M1 & M2 & M3).
  assert (Z : within (heads_ball reals (knowledge_of reals rows w) q keys) (concat zs)).
  { apply concat_within. cbn [knowledge_of of_heads]. rewrite map_map.
    assert (steady : forall t, In t (q :: map fst keys) -> 0 < steadiness reals (embedding_ball reals w t)).
    { intros t Ht. rewrite Forall_forall in Hsource. specialize (Hsource _ (in_map _ _ _ Ht)).
      cbn [knowledge_of of_source] in Hsource. rewrite tabulate_eq in Hsource. exact Hsource. }
    assert (some : keys <> []) by (intros ->; apply (Rlt_irrefl 0), Hkeys).
    clear H2. induction H1 as [|head z heads zs (s & qv & data & Hs & Hq & Hk & Hd & Hlen & Hz) _ IH];
      [constructor|]. cbn [map]. constructor; [|exact IH].
    exact (head_within w head q keys z _ steady s qv data Hs Hq Hk Hd Hlen some Hz). }
  pose proof (affine_within _ _ _ _ _ _ Z (within_itself _) H2) as Hx.
  pose proof (norm_within _ _ _ _ Hx H3 M1) as Hn.
  pose proof (affine_within _ _ _ _ _ _ Hn (within_no_vector _) (affines_nothing _ _ _ H4)) as Hu.
  pose proof (affine_within _ _ _ _ _ _ (relu_within _ _ Hu) Hx H5) as Hh.
  pose proof (norm_within _ _ _ _ Hh H6 M2) as Hlast.
  exact (leads_right _ _ _ _ _ Hlast H7 same Hy M3).
Qed.
