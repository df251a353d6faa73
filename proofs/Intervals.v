(** Intervals bound the model over the reals, and a lead that they show is there. *)

From Coq Require Import List Arith ZArith Reals Bool Lia Lra.
From Flocq Require Import Core.Zaux.
From Interval Require Import Real.Xreal Float.Basic Float.Sig Interval.Interval.
From Interval Require Import Interval.Float Interval.Float_full.
From Carry Require Import Decoding Windows Transformer Related Tables.
Import ListNotations.

(** For any floats that coq-interval can calculate with. *)
Module Intervals (F : FloatOps with Definition radix := radix2
                               with Definition sensible_format := true).
Module I := FloatIntervalFull F.

Section Precision.
  Variable p : F.precision.

  (** The larger of two numbers, by the sign of their difference, else as (a + b + |a - b|) / 2. *)
  Definition larger_interval (a b : I.type) : I.type :=
    let d := I.sub p a b in
    match I.sign_strict d with
    | Xgt => a
    | Xlt => b
    | _ => I.div p (I.add p (I.add p a b) (I.abs d)) (I.fromZ p 2)
    end.

  Definition intervals : numbers I.type := Numbers I.type
    (I.fromZ p) (I.add p) (I.sub p) (I.mul p) (I.div p) (I.sqrt p) (I.exp p) larger_interval.

  Definition holds (i : I.type) (x : R) : Prop := contains (I.convert i) (Xreal x).

  Lemma holds_anything i x : contains (I.convert i) Xnan -> holds i x.
  Proof. unfold holds. destruct (I.convert i); cbn; tauto. Qed.

  Lemma operations : respects intervals reals holds.
  Proof.
    assert (add : forall a b x y, holds a x -> holds b y -> holds (I.add p a b) (x + y))
      by (intros a b x y; exact (I.add_correct p a b (Xreal x) (Xreal y))).
    assert (sub : forall a b x y, holds a x -> holds b y -> holds (I.sub p a b) (x - y))
      by (intros a b x y; exact (I.sub_correct p a b (Xreal x) (Xreal y))).
    assert (div : forall a b x y, holds a x -> holds b y -> holds (I.div p a b) (x / y)).
    { intros a b x y Ha Hb. pose proof (I.div_correct p a b (Xreal x) (Xreal y) Ha Hb) as H.
      cbn in H. unfold Xdiv' in H. destruct (is_zero y); [apply holds_anything, H|exact H]. }
    split; try assumption; cbn [intervals reals of_Z mul root expo larger].
    - exact (I.fromZ_correct p).
    - intros a b x y. exact (I.mul_correct p a b (Xreal x) (Xreal y)).
    - intros a x. exact (I.sqrt_correct p a (Xreal x)).
    - intros a x. exact (I.exp_correct p a (Xreal x)).
    - intros a b x y Ha Hb. unfold larger_interval. pose proof (sub a b x y Ha Hb) as Hd.
      pose proof (I.sign_strict_correct (I.sub p a b)) as sign.
      assert (half : holds (I.div p (I.add p (I.add p a b) (I.abs (I.sub p a b))) (I.fromZ p 2))
                       (Rmax x y)).
      { replace (Rmax x y) with ((x + y + Rabs (x - y)) / 2)%R
          by (unfold Rmax, Rabs; destruct (Rle_dec x y), (Rcase_abs (x - y)); lra).
        apply div; [|exact (I.fromZ_correct p 2)]. apply add; [apply add; assumption|].
        exact (I.abs_correct _ _ Hd). }
      destruct (I.sign_strict _); try exact half; destruct (sign _ Hd) as [_ s]; cbn in s.
      + rewrite Rmax_right by lra. exact Hb.
      + rewrite Rmax_left by lra. exact Ha.
  Qed.

  (** A weight as an interval. *)
  Definition bound (m : Z * Z) : I.type := I.div p (I.fromZ p (fst m)) (I.fromZ p (2 ^ snd m)).

  Lemma holds_real m : holds (bound m) (real m).
  Proof. apply (rel_div operations); apply I.fromZ_correct. Qed.

  (** An interval with its sign, which is then known for many products. *)
  Inductive signed := Signed (s : Xcomparison) (l u : F.type) | Unknown.

  Definition sign (i : I.type) : signed :=
    match i with Ibnd l u => Signed (I.sign_large_ l u) l u | Inan => Unknown end.

  (** a * b + c *)
  Definition add_product (a b : signed) (c : I.type) : I.type :=
    match a, b, c with
    | Signed s l u, Signed s' l' u', Ibnd x y =>
      match s, s' with
      | Xgt, Xgt => Ibnd (F.add_DN p (F.mul_DN p l l') x) (F.add_UP p (F.mul_UP p u u') y)
      | Xgt, Xlt => Ibnd (F.add_DN p (F.mul_DN p u l') x) (F.add_UP p (F.mul_UP p l u') y)
      | Xlt, Xgt => Ibnd (F.add_DN p (F.mul_DN p l u') x) (F.add_UP p (F.mul_UP p u l') y)
      | Xlt, Xlt => Ibnd (F.add_DN p (F.mul_DN p u u') x) (F.add_UP p (F.mul_UP p l l') y)
      | Xeq, _ | _, Xeq => c
      | _, _ => I.add p (I.mul p (Ibnd l u) (Ibnd l' u')) c
      end
    | _, _, _ => I.nai
    end.

  Fixpoint product (a b : list signed) : I.type :=
    match a, b with
    | x :: a, y :: b => add_product x y (product a b)
    | _, _ => I.fromZ p 0
    end.

  Lemma holds_add_product a b c x y z : holds a x -> holds b y -> holds c z ->
    holds (add_product (sign a) (sign b) c) (x * y + z).
  Proof.
    intros Ha Hb Hc. destruct a as [|l u], b as [|l' u'], c as [|xl xu];
      try exact Logic.I.
    assert (H : holds (I.add p (I.mul p (Ibnd l u) (Ibnd l' u')) (Ibnd xl xu)) (x * y + z)) by
      (apply (rel_add operations); [apply (rel_mul operations)|]; assumption).
    pose proof (I.sign_large_correct_ _ _ _ Ha) as sa.
    pose proof (I.sign_large_correct_ _ _ _ Hb) as sb.
    pose proof H as cases. cbn [I.mul] in cases. cbn [sign add_product].
    destruct (I.sign_large_ l u), (I.sign_large_ l' u'); first [exact cases | exact H |
      replace (x * y + z)%R with z; [exact Hc|];
      first [destruct sa as [-> _] | destruct sb as [-> _]]; lra].
  Qed.

  Lemma holds_product a b u v : Forall2 holds a u -> Forall2 holds b v ->
    holds (product (map sign a) (map sign b)) (dot reals u v).
  Proof.
    unfold dot, sum, map2. intros H. revert b v.
    induction H; intros ? ? []; try apply (rel_zero operations). apply holds_add_product; auto.
  Qed.

  (** * The check *)

  Definition positive (i : I.type) : bool :=
    match I.sign_strict i with Xgt => true | _ => false end.

  (** Whether [lead] leads the numbers of a list, the [i]-th and so on, but for the [y]-th. *)
  Fixpoint leads_from (margin lead : I.type) (y i : nat) (l : list I.type) : bool :=
    match l with
    | [] => true
    | x :: l => ((i =? y) || positive (I.sub p (I.sub p lead x) margin))
                && leads_from margin lead y (S i) l
    end.

  (** Whether the due token leads by the margin in a context. *)
  Definition leads (w : weights (Z * Z)) (margin : Z * Z) : context -> bool :=
    let w := map_weights bound w in
    let signed := map_weights sign w in
    let parts := all_parts intervals (length (tokens w)) w in
    let margin := bound margin in
    fun '(q, keys, y) =>
      let l := logits_by intervals sign product w signed parts q keys in
      (y <? length l) && leads_from margin (nth y l I.nai) y 0 l.

  Lemma positive_holds i x : holds i x -> positive i = true -> (0 < x)%R.
  Proof.
    intros H. unfold positive. pose proof (I.sign_strict_correct i) as sign.
    destruct (I.sign_strict i); try discriminate. intros _. apply (sign _ H).
  Qed.

  Lemma leads_from_spec margin m lead x y i l u : holds margin m -> holds lead x ->
    Forall2 holds l u -> leads_from margin lead y i l = true ->
    forall v, v < length u -> i + v <> y -> (m < x - nth v u 0)%R.
  Proof.
    intros Hm Hx H. revert i. induction H as [|a b l u Hab H IH]; intros i; [cbn; lia|].
    cbn [leads_from length]. rewrite andb_true_iff, orb_true_iff, Nat.eqb_eq.
    intros [Ha Hl] [|v] Hv Hy.
    - destruct Ha as [|Ha]; [lia|]. apply positive_holds with (x := (x - b - m)%R) in Ha.
      + cbn. lra.
      + do 2 (apply (rel_sub operations); try assumption).
    - apply (IH (S i) Hl); lia.
  Qed.

  Lemma leads_spec w margin q keys y : leads w margin (q, keys, y) = true ->
    leads_by (real margin) (logits_in reals (map_weights real w) q keys) y.
  Proof.
    unfold leads, logits_in.
    rewrite <- (attended_by_tables _ (length (tokens (map_weights bound w)))).
    pose proof (vec_logits_by operations _ _ holds_real _ _ holds_product w
      (length (tokens (map_weights bound w))) q keys) as H.
    cbv zeta in *. revert H. generalize (logits_by intervals sign product). intros logits_by H.
    pose proof (Forall2_length _ _ _ H) as same. rewrite andb_true_iff, Nat.ltb_lt, same.
    intros [Hy Hl]. split; [exact Hy|]. intros v Hv Hne.
    refine (leads_from_spec _ _ _ _ y 0 _ _ (holds_real margin) _ H Hl v Hv Hne).
    rewrite nth_indep with (d' := zero intervals) by (rewrite same; exact Hy).
    apply (Forall2_nth holds); [exact H|apply (rel_zero operations)].
  Qed.

  (** Whether it does in all contexts of a list. *)
  Definition check (w : weights (Z * Z)) (margin : Z * Z) (l : list context) : bool :=
    forallb (leads w margin) l.

  Theorem check_correct t w margin : check w margin (contexts t) = true ->
    right_by t (real margin) (map_weights real w).
  Proof.
    unfold check. rewrite forallb_forall. intros H q keys y Hin. apply leads_spec, H, Hin.
  Qed.

  (** ** Models with a margin each: they are exact, and so is every other computation whose leads are
      close to theirs *)

  Definition check_models (models : list (weights (Z * Z) * (Z * Z))) (l : list context) : bool :=
    forallb (fun wm => (0 <=? fst (snd wm))%Z && check (fst wm) (snd wm) l) models.

  Section Models.
    Variables (t : task) (models : list (weights (Z * Z) * (Z * Z))).
    Hypothesis checked : check_models models (contexts t) = true.

    Lemma models_right w m : In (w, m) models ->
      (0 <= real m)%R /\ right_by t (real m) (map_weights real w).
    Proof.
      unfold check_models in checked. rewrite forallb_forall in checked. intros H.
      apply checked, andb_true_iff in H. destruct H as [Hm H]. apply Z.leb_le in Hm.
      split; [|apply check_correct, H]. unfold real, Rdiv. apply Rmult_le_pos; [apply IZR_le, Hm|].
      destruct (Z.le_gt_cases 0 (snd m)) as [Hk|Hk].
      - apply Rlt_le, Rinv_0_lt_compat, IZR_lt, Z.pow_pos_nonneg; lia.
      - rewrite Z.pow_neg_r, Rinv_0 by exact Hk. lra.
    Qed.

    Theorem reals_exact w m : In (w, m) models ->
      exact t (greedy (model_logits t (map_weights real w))).
    Proof.
      intros H. destruct (models_right w m H) as [Hm right]. exact (right_so_exact t _ _ Hm right).
    Qed.

    Theorem reals_robust w m : In (w, m) models ->
      forall computed, close_leads (real m) t (map_weights real w) computed -> exact t (greedy computed).
    Proof. intros H. apply right_so_robust, models_right, H. Qed.
  End Models.

  (** Contexts can be checked in parts, each made from an element of a list when its turn comes. *)
  Lemma check_flat_map {A} w margin (f : A -> list context) l :
    check w margin (flat_map f l)
    = let leads := leads w margin in forallb (fun a => forallb leads (f a)) l.
  Proof.
    unfold check. cbv zeta. induction l; cbn; [|rewrite forallb_app]; congruence.
  Qed.
End Precision.
End Intervals.
