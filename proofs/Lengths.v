(** Lengths of vectors over the reals, and by how much matrices stretch them. *)

From Coq Require Import List Arith ZArith Reals Lia Lra.
From Carry Require Import Transformer.
Import ListNotations.

(** * Formulas *)

Section Formulas.
  Context {T : Type} (n : arithmetic T).

  (** The length of a vector; of a matrix, as one vector. *)
  Definition size (x : vector T) : T := root n (dot n x x).
  Definition frobenius (W : matrix T) : T := size (map size W).

  (** By how much a matrix may stretch a vector: W^T W does by the square at most, and so on. *)
  Definition breadth (W : matrix T) : nat := fold_right Nat.max 0 (map (@length T) W).
  Definition columns (W : matrix T) : matrix T :=
    map (fun j => map (fun row => nth j row (zero n)) W) (seq 0 (breadth W)).
  Definition gram (W : matrix T) : matrix T :=
    let C := columns W in map (fun c => map (fun d => dot n d c) C) C.
  Fixpoint stretch (k : nat) (W : matrix T) : T :=
    match k with O => frobenius W | S k => root n (stretch k (gram W)) end.
  Definition spectral (W : matrix T) : T :=
    stretch 3 (if length W <? breadth W then columns W else W).
End Formulas.

Local Open Scope R_scope.
Notation total := (sum reals).

(** * Automation: signs, and inequalities between formulas of the same shape *)

Lemma square_pos x : 0 <= x * x.
Proof. apply Rle_0_sqr. Qed.
Lemma inverse_pos a : 0 <= a -> 0 <= / a.
Proof. intros [H| <-]; [apply Rlt_le, Rinv_0_lt_compat, H|rewrite Rinv_0; lra]. Qed.
Lemma count_pos k : 0 <= IZR (Z.of_nat k).
Proof. apply IZR_le. lia. Qed.
Create HintDb pos.
#[export] Hint Resolve Rabs_pos sqrt_pos square_pos Rle_0_sqr count_pos : pos.

Ltac pos :=
  first
    [ assumption
    | lazymatch goal with
      | |- 0 <= _ * _ => first [solve [auto with pos] | apply Rmult_le_pos; pos]
      | |- 0 <= _ + _ => apply Rplus_le_le_0_compat; pos
      | |- 0 <= _ / _ => apply Rmult_le_pos; pos
      | |- 0 <= / _ => apply inverse_pos; pos
      | |- _ => first [lra | solve [auto with pos]]
      end ].
Ltac mono :=
  first
    [ assumption | apply Rle_refl
    | lazymatch goal with
      | |- _ + _ <= _ + _ => apply Rplus_le_compat; mono
      | |- _ * _ <= _ * _ => apply Rmult_le_compat; [pos|pos|mono|mono]
      | |- _ / _ <= _ / _ => apply Rmult_le_compat; [pos|pos|mono|mono]
      | |- sqrt _ <= sqrt _ => apply sqrt_le_1_alt; mono
      end
    | lra ].
Ltac absolute := unfold Rabs in *; repeat destruct (Rcase_abs _); lra.

Lemma le_div a b c : 0 < c -> a * c <= b -> a <= b / c.
Proof.
  intros Hc H. apply (Rmult_le_reg_r c); [exact Hc|]. unfold Rdiv.
  rewrite Rmult_assoc, Rinv_l; lra.
Qed.
Lemma sqrt_le x y : 0 <= y -> x <= y * y -> sqrt x <= y.
Proof. intros Hy H. rewrite <- (sqrt_square y Hy). apply sqrt_le_1_alt, H. Qed.

(** * Sums over indices, and lengths *)

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
    apply Rplus_le_compat; auto.
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
    eapply Rle_trans; [apply Rabs_triang|apply Rplus_le_compat_l, IH].
  Qed.
  Lemma Sum_const a : Sum l (fun _ => a) = IZR (Z.of_nat (length l)) * a.
  Proof.
    unfold Sum, sum. induction l as [|i m IH]; [cbn; ring|].
    cbn [map fold_right length reals add] in *.
    rewrite IH, Nat2Z.inj_succ, <- Z.add_1_r, plus_IZR. ring.
  Qed.
  Lemma Sum_pos f : (forall i, In i l -> 0 <= f i) -> 0 <= Sum l f.
  Proof. intros H. apply Sum_le in H. rewrite Sum_const, Rmult_0_r in H. exact H. Qed.
  Lemma Sum_squares f : 0 <= Sum l (fun i => f i * f i).
  Proof. apply Sum_pos. intros. pos. Qed.
  Lemma Len_square f : Len l f * Len l f = Sum l (fun i => f i * f i).
  Proof. apply sqrt_sqrt, Sum_squares. Qed.
  Lemma Len_pos f : 0 <= Len l f.
  Proof. apply sqrt_pos. Qed.
  Lemma Len_le f g : (forall i, In i l -> Rabs (f i) <= Rabs (g i)) -> Len l f <= Len l g.
  Proof. intros H. apply sqrt_le_1_alt, Sum_le. intros i Hi. apply Rsqr_le_abs_1, H, Hi. Qed.
  Lemma Len_ext f g : (forall i, In i l -> f i = g i) -> Len l f = Len l g.
  Proof.
    intros H. unfold Len. f_equal. apply Sum_ext. intros i Hi. rewrite (H i Hi). reflexivity.
  Qed.
End Sums.
#[export] Hint Resolve Sum_squares Len_pos : pos.

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
  rewrite Sum_cons. unfold Len at 1 2. rewrite !Sum_cons, <- !Len_square, <- sqrt_mult by pos.
  eapply Rle_trans; [apply Rplus_le_compat_l, IH|]. eapply Rle_trans; [apply Rle_abs|].
  rewrite <- sqrt_Rsqr_abs. apply sqrt_le_1_alt. unfold Rsqr.
  pose proof (square_pos (f a * Len l g - Len l f * g a)). lra.
Qed.

Section Lengths.
  Context {A : Type} (l : list A).
  Implicit Types f g h : A -> R.

  Lemma Len_scale a f : Len l (fun i => a * f i) = Rabs a * Len l f.
  Proof.
    unfold Len. rewrite <- sqrt_Rsqr_abs, <- sqrt_mult by pos. f_equal.
    rewrite <- Sum_scale. apply Sum_ext. intros. unfold Rsqr. ring.
  Qed.
  Lemma cauchy_abs f g : Rabs (Sum l (fun i => f i * g i)) <= Len l f * Len l g.
  Proof.
    pose proof (cauchy l f g) as H. pose proof (cauchy l (fun i => -1 * f i) g) as H'.
    rewrite (Sum_ext l _ (fun i => -1 * (f i * g i))), Sum_scale, Len_scale in H' by (intros; ring).
    rewrite (Rabs_left (-1)) in H' by lra. absolute.
  Qed.
  Lemma Len_plus f g : Len l (fun i => f i + g i) <= Len l f + Len l g.
  Proof.
    apply sqrt_le; [pos|]. pose proof (cauchy l f g). pose proof (Len_square l f).
    pose proof (Len_square l g).
    rewrite (Sum_ext l _ (fun i => f i * f i + g i * g i + 2 * (f i * g i))) by (intros; ring).
    rewrite !Sum_plus, Sum_scale. lra.
  Qed.
  Lemma Len_scaled a f g : 0 <= a ->
    (forall i, In i l -> Rabs (f i) <= a * Rabs (g i)) -> Len l f <= a * Len l g.
  Proof.
    intros Ha H. rewrite <- (Rabs_right a), <- Len_scale by lra. apply Len_le. intros i Hi.
    rewrite Rabs_mult, (Rabs_right a) by lra. apply H, Hi.
  Qed.
  Lemma Len_const a : 0 <= a -> Len l (fun _ => a) = sqrt (IZR (Z.of_nat (length l))) * a.
  Proof. intros Ha. unfold Len. rewrite Sum_const, sqrt_mult, sqrt_square by pos. reflexivity. Qed.

  (** A bound by several terms. *)
  Lemma Len_terms {B} (terms : list B) (a : B -> R) (g : B -> A -> R) f :
    (forall t, In t terms -> 0 <= a t) ->
    (forall i, In i l -> Rabs (f i) <= Sum terms (fun t => a t * Rabs (g t i))) ->
    Len l f <= Sum terms (fun t => a t * Len l (g t)).
  Proof.
    intros Ha H. apply Rle_trans with (Len l (fun i => Sum terms (fun t => a t * Rabs (g t i)))).
    { apply Len_le. intros i Hi. eapply Rle_trans; [apply H, Hi|apply Rle_abs]. }
    clear H. induction terms as [|t terms IH].
    - apply Req_le. etransitivity; [apply (Len_const 0)|apply Rmult_0_r]. lra.
    - rewrite Sum_cons. eapply Rle_trans; [apply (Len_plus (fun i => a t * Rabs (g t i)))|].
      apply Rplus_le_compat; [|apply IH; intros; apply Ha; right; assumption].
      assert (0 <= a t) by (apply Ha; left; reflexivity). apply Len_scaled; [assumption|].
      intros i _. rewrite Rabs_mult, Rabs_Rabsolu, (Rabs_right (a t)) by lra. lra.
  Qed.
  Lemma Len_at f i : In i l -> Rabs (f i) <= Len l f.
  Proof.
    intros H. rewrite <- sqrt_Rsqr_abs. apply sqrt_le_1_alt.
    induction l as [|a m IH]; [contradiction|].
    rewrite Sum_cons. cbv beta. pose proof (square_pos (f a)). pose proof (Sum_squares m f).
    unfold Rsqr in *. destruct H as [->|H]; [|specialize (IH H)]; lra.
  Qed.
End Lengths.

(** * Vectors as lists *)

Notation Size := (size reals).
Notation dot_ := (dot reals).
Notation at_ x i := (nth i x 0).

Lemma nth_map {A B} (f : A -> B) l i a b : (i < length l)%nat ->
  nth i (map f l) b = f (nth i l a).
Proof.
  intros H. rewrite (nth_indep _ b (f a)) by (rewrite map_length; exact H). apply map_nth.
Qed.
Lemma at_nil i : at_ [] i = 0.
Proof. destruct i; reflexivity. Qed.
Lemma nth_combine {A B} (u : list A) (v : list B) i a b : (i < length (combine u v))%nat ->
  nth i (combine u v) (a, b) = (nth i u a, nth i v b).
Proof. revert v i. induction u; intros [|] [|] H; cbn in *; try lia; auto with arith. Qed.
Lemma length_map2 {T} (f : T -> T -> T) u v : length (map2 f u v) = Nat.min (length u) (length v).
Proof. unfold map2. rewrite map_length. apply combine_length. Qed.
Lemma nth_map2 (f : R -> R -> R) u v i : (i < length (map2 f u v))%nat ->
  at_ (map2 f u v) i = f (at_ u i) (at_ v i).
Proof.
  unfold map2. intros H. rewrite map_length in H.
  rewrite (nth_map _ _ _ (0, 0)), nth_combine by exact H. reflexivity.
Qed.

Lemma Sum_seq m f : Sum (seq 0 (S m)) f = f 0%nat + Sum (seq 0 m) (fun i => f (S i)).
Proof. unfold Sum. cbn [seq map]. rewrite <- seq_shift, map_map. reflexivity. Qed.
Lemma total_nth x m : (length x <= m)%nat -> total x = Sum (seq 0 m) (fun i => at_ x i).
Proof.
  revert m. induction x as [|a x IH]; intros m Hm.
  - rewrite (Sum_ext _ _ (fun _ => 0)), Sum_const by (intros; apply at_nil). cbn. ring.
  - destruct m as [|m]; cbn in Hm; [lia|]. rewrite Sum_seq. cbn [nth].
    rewrite <- IH by lia. reflexivity.
Qed.
Lemma dot_nth x y m : (Nat.min (length x) (length y) <= m)%nat ->
  dot_ x y = Sum (seq 0 m) (fun i => at_ x i * at_ y i).
Proof.
  intros H. unfold dot. rewrite (total_nth _ m) by (rewrite length_map2; exact H).
  apply Sum_ext. intros i _.
  destruct (Nat.lt_ge_cases i (length (map2 Rmult x y))) as [Hi|Hi]; [apply nth_map2, Hi|].
  rewrite nth_overflow by exact Hi. rewrite length_map2 in Hi.
  destruct (Nat.min_spec (length x) (length y)) as [[_ E]|[_ E]]; rewrite E in Hi;
    rewrite (nth_overflow _ _ Hi); ring.
Qed.
Lemma dot_comm x y : dot_ x y = dot_ y x.
Proof.
  rewrite (dot_nth x y (length x + length y)), (dot_nth y x (length x + length y)) by lia.
  apply Sum_ext. intros. ring.
Qed.
Lemma size_nth x m : (length x <= m)%nat -> Size x = Len (seq 0 m) (fun i => at_ x i).
Proof. intros H. unfold size, Len. cbn. f_equal. apply dot_nth. lia. Qed.
Lemma Len_prefix m k f : (m <= k)%nat -> Len (seq 0 m) f <= Len (seq 0 k) f.
Proof.
  intros H. apply sqrt_le_1_alt. revert k f H.
  induction m as [|m IH]; intros [|k] f H; try lia; try apply Sum_squares.
  rewrite !Sum_seq. apply Rplus_le_compat_l, (IH k (fun i => f (S i))). lia.
Qed.
Lemma Len_nth x m : Len (seq 0 m) (fun i => at_ x i) <= Size x.
Proof. rewrite (size_nth x (m + length x)) by lia. apply Len_prefix. lia. Qed.
Lemma size_pos x : 0 <= Size x.
Proof. apply sqrt_pos. Qed.
#[export] Hint Resolve size_pos : pos.
Lemma size_square x : Size x * Size x = dot_ x x.
Proof. rewrite (size_nth x _ (le_n _)), Len_square. symmetry. apply dot_nth. lia. Qed.
Lemma dot_le x y : Rabs (dot_ x y) <= Size x * Size y.
Proof.
  rewrite (dot_nth x y (length x + length y)), (size_nth x (length x + length y)),
    (size_nth y (length x + length y)) by lia. apply cauchy_abs.
Qed.

(** Differences of vectors of one length. *)
Definition minus : list R -> list R -> list R := map2 Rminus.
Section Minus.
  Variables x y : list R.
  Hypothesis same : length x = length y.
  Lemma at_minus i : at_ (minus x y) i = at_ x i - at_ y i.
  Proof.
    destruct (Nat.lt_ge_cases i (length x)) as [Hi|Hi].
    - apply nth_map2. rewrite length_map2. lia.
    - rewrite !nth_overflow by (unfold minus; rewrite ?length_map2; lia). ring.
  Qed.
  Lemma size_minus : Size (minus x y) = Len (seq 0 (length x)) (fun i => at_ x i - at_ y i).
  Proof.
    rewrite (size_nth _ (length x)) by (unfold minus; rewrite length_map2; lia).
    apply Len_ext. intros. apply at_minus.
  Qed.
  Lemma Len_minus m : Len (seq 0 m) (fun i => at_ x i - at_ y i) <= Size (minus x y).
  Proof. rewrite <- (Len_ext _ _ _ (fun i _ => at_minus i)). apply Len_nth. Qed.
  Lemma dot_minus row : dot_ row (minus x y) = dot_ row x - dot_ row y.
  Proof.
    rewrite !(dot_nth row _ (length x)) by (unfold minus; rewrite ?length_map2; lia).
    match goal with |- _ = ?a - ?b => replace (a - b) with (a + -1 * b) by ring end.
    rewrite <- Sum_scale, <- Sum_plus. apply Sum_ext. intros. rewrite at_minus. ring.
  Qed.
  Lemma dot_app u v : dot_ (x ++ u) (y ++ v) = dot_ x y + dot_ u v.
  Proof.
    clear - same. revert y same.
    induction x as [|a x' IH]; intros [|b y'] H; cbn in H; try discriminate.
    - unfold dot, map2, sum. cbn. ring.
    - specialize (IH y' ltac:(congruence)). unfold dot, map2, sum in *. cbn in *. rewrite IH. ring.
  Qed.
  Lemma minus_app u v : minus (x ++ u) (y ++ v) = minus x y ++ minus u v.
  Proof.
    clear - same. revert y same.
    induction x as [|a x' IH]; intros [|b y'] H; cbn in H; try discriminate; [reflexivity|].
    unfold minus, map2 in *. cbn. f_equal. apply IH. congruence.
  Qed.
End Minus.

(** * By how much a matrix stretches *)

Definition rows (W : matrix R) (x : vector R) : vector R := map (fun row => dot_ row x) W.
Definition stretches (W : matrix R) (s : R) : Prop :=
  0 <= s /\ forall x, Size (rows W x) <= s * Size x.

Lemma nth_rows W x i : at_ (rows W x) i = dot_ (nth i W []) x.
Proof. apply (map_nth (fun row => dot_ row x) W []). Qed.
Lemma length_rows W x : length (rows W x) = length W.
Proof. apply map_length. Qed.
Lemma nth_sizes W i : at_ (map Size W) i = Size (@nth (list R) i W []).
Proof. rewrite <- (map_nth Size). f_equal. symmetry. apply sqrt_0. Qed.

Lemma frobenius_stretches W : stretches W (frobenius reals W).
Proof.
  split; [apply size_pos|]. intros x. rewrite Rmult_comm. unfold frobenius.
  rewrite (size_nth (rows W x) (length W)), (size_nth (map Size W) (length W))
    by (unfold rows; rewrite map_length; auto).
  apply Len_scaled; [pos|]. intros i _. rewrite nth_rows, nth_sizes.
  rewrite (Rabs_right (Size _)), Rmult_comm by (apply Rle_ge; pos). apply dot_le.
Qed.

Lemma row_breadth (W : matrix R) i : (length (nth i W []) <= breadth W)%nat.
Proof.
  unfold breadth. revert i. induction W as [|r W IH]; intros [|i]; cbn; try lia.
  specialize (IH i). lia.
Qed.
Lemma nth_columns W j : (j < breadth W)%nat ->
  nth j (columns reals W) [] = map (fun row => at_ row j) W.
Proof.
  intros H. unfold columns. rewrite (nth_map _ _ _ 0%nat), seq_nth; rewrite ?seq_length; auto.
Qed.

Lemma adjoint W x y : dot_ (rows W x) y = dot_ x (rows (columns reals W) y).
Proof.
  rewrite (dot_nth _ y (length W)), (dot_nth x _ (breadth W))
    by (rewrite length_rows; unfold columns; rewrite ?map_length, ?seq_length; lia).
  rewrite (Sum_ext _ _ (fun i => Sum (seq 0 (breadth W))
    (fun j => at_ (nth i W []) j * at_ x j * at_ y i))).
  - rewrite Sum_swap. apply Sum_ext. intros j Hj. apply in_seq in Hj.
    rewrite nth_rows, nth_columns, (dot_nth _ y (length W)), <- Sum_scale
      by (rewrite ?map_length; lia).
    apply Sum_ext. intros i _. rewrite <- (at_nil j) at 5.
    rewrite (map_nth (fun row => at_ row j) W []). ring.
  - intros i _. rewrite nth_rows, (dot_nth _ x (breadth W)) by (pose proof (row_breadth W i); lia).
    rewrite Rmult_comm, <- Sum_scale. apply Sum_ext. intros. ring.
Qed.

(** The square of the length of W x, by the columns of W. *)
Lemma square_rows W x :
  Size (rows W x) * Size (rows W x) <= Size x * Size (rows (columns reals W) (rows W x)).
Proof. rewrite size_square, adjoint. eapply Rle_trans; [apply Rle_abs|apply dot_le]. Qed.

(** A matrix stretches as its columns do, and by the root of what its Gram matrix does. *)
Lemma columns_stretch W s : stretches (columns reals W) s -> stretches W s.
Proof.
  intros [Hs H]. split; [exact Hs|]. intros x. specialize (H (rows W x)).
  pose proof (square_rows W x). apply Rnot_lt_le. intros Hlt.
  assert (0 <= s * Size x) by pos.
  assert (Size x * Size (rows (columns reals W) (rows W x)) <= Size x * (s * Size (rows W x)))
    by mono.
  assert (s * Size x * Size (rows W x) < Size (rows W x) * Size (rows W x))
    by (apply Rmult_lt_compat_r; lra). lra.
Qed.
Lemma gram_stretches W s : stretches (gram reals W) s -> stretches W (sqrt s).
Proof.
  intros [Hs H]. split; [pos|]. intros x. specialize (H x).
  replace (rows (gram reals W) x) with (rows (columns reals W) (rows W x)) in H.
  - rewrite <- (sqrt_square (Size (rows W x))), <- (sqrt_square (Size x)), <- sqrt_mult by pos.
    apply sqrt_le_1_alt. pose proof (square_rows W x).
    assert (Size x * Size (rows (columns reals W) (rows W x)) <= Size x * (s * Size x)) by mono.
    lra.
  - unfold gram, rows at 1 3. rewrite map_map. apply map_ext. intros c.
    fold (rows (columns reals W) c). rewrite dot_comm, adjoint. apply dot_comm.
Qed.
Lemma spectral_stretches W : stretches W (spectral reals W).
Proof.
  assert (H : forall k V, stretches V (stretch reals k V))
    by (induction k; intros V; [apply frobenius_stretches|apply gram_stretches, IHk]).
  unfold spectral. destruct (_ <? _)%nat; [apply columns_stretch|]; apply H.
Qed.
