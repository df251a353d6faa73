(** Intervals bound the model over the reals, and a lead that they show is there. *)

From Coq Require Import List Arith ZArith Reals Bool Lia Lra.
From Flocq Require Import Core.Zaux.
From Interval Require Import Real.Xreal Float.Basic Float.Sig Interval.Interval.
From Interval Require Import Interval.Float_full.
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

  Definition positive (i : I.type) : bool := match I.sign_strict i with Xgt => true | _ => false end.

  Lemma positive_holds i x : holds i x -> positive i = true -> (0 < x)%R.
  Proof.
    intros H. unfold positive. pose proof (I.sign_strict_correct i) as sign.
    destruct (I.sign_strict i); try discriminate. intros _. apply (sign _ H).
  Qed.

  (** Whether a number leads all of a list, the [i]-th and so on, but the [y]-th, by the margin. *)
  Fixpoint leads_all (margin lead : I.type) (y i : nat) (l : list I.type) : bool :=
    match l with
    | [] => true
    | x :: l => ((i =? y) || positive (I.sub p (I.sub p lead x) margin))
                && leads_all margin lead y (S i) l
    end.

  Definition leads (margin : I.type) (l : list I.type) (y : nat) : bool :=
    (y <? length l) && leads_all margin (nth y l I.nai) y 0 l.

  (** Whether the due token leads by the margin in each context. *)
  Definition check (w : weights (Z * Z)) (margin : Z * Z) (l : list context) : bool :=
    let v := map_weights bound w in
    let tables := all_parts intervals (length (tokens w)) v in
    let margin := bound margin in
    forallb (fun c : context => let '(q, keys, y) := c in
      leads margin (logits_by intervals v tables q keys) y) l.

  Lemma leads_all_spec margin m lead x y i l u : holds margin m -> holds lead x ->
    Forall2 holds l u -> leads_all margin lead y i l = true ->
    forall v, v < length u -> i + v <> y -> (m < x - nth v u 0)%R.
  Proof.
    intros Hm Hx H. revert i. induction H as [|a b l u Hab H IH]; intros i; [cbn; lia|].
    cbn [leads_all length]. rewrite andb_true_iff, orb_true_iff, Nat.eqb_eq. intros [Ha Hl] [|v] Hv Hy.
    - cbn [nth]. destruct Ha as [|Ha]; [lia|].
      apply positive_holds with (x := (x - b - m)%R) in Ha; [lra|].
      do 2 (apply (rel_sub operations); try assumption).
    - apply (IH (S i) Hl); lia.
  Qed.

  Lemma leads_spec margin m l u y : holds margin m -> Forall2 holds l u -> leads margin l y = true ->
    leads_by m u y.
  Proof.
    intros Hm H. unfold leads. rewrite andb_true_iff, Nat.ltb_lt, (Forall2_length _ _ _ H).
    intros [Hy Hl]. split; [exact Hy|]. intros v Hv Hne.
    refine (leads_all_spec _ _ _ _ y 0 _ _ Hm _ H Hl v Hv Hne).
    rewrite nth_indep with (d' := zero intervals) by (rewrite (Forall2_length _ _ _ H); exact Hy).
    apply (Forall2_nth holds); [exact H|]. apply (rel_zero operations).
  Qed.

  Theorem check_correct t w margin : check w margin (contexts t) = true ->
    right_by t (real margin) (map_weights real w).
  Proof.
    unfold check. cbv zeta. rewrite forallb_forall. intros H q keys y Hin. specialize (H _ Hin).
    cbn beta iota in H. revert H. apply leads_spec; [apply holds_real|].
    rewrite <- (logits_by_tables _ (length (tokens w))).
    apply (vec_logits_by operations). exact holds_real.
  Qed.
End Precision.
End Intervals.
