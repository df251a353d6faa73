(** The pass, arranged for speed: what depends on tokens alone is in tables, and exp of a score is a
    product: of a part for the two tokens, and of one for each bias. Over the reals it is the
    model's. *)

From Coq Require Import List Arith ZArith Reals Lra.
From Carry Require Import Decoding Windows Transformer Related.
Import ListNotations.

(** A function whose first values are calculated once, as soon as it is given [size] and [f]. *)
Definition tabulate {A} (size : nat) (f : nat -> A) : nat -> A :=
  let l := map (fun i => Some (f i)) (seq 0 size) in
  fun i => match nth i l None with Some a => a | None => f i end.

Lemma tabulate_eq {A} size (f : nat -> A) i : tabulate size f i = f i.
Proof.
  unfold tabulate. destruct (Nat.lt_ge_cases i size) as [H|H].
  - rewrite nth_indep with (d' := Some (f 0)) by (rewrite map_length, seq_length; exact H).
    rewrite (map_nth (fun i => Some (f i))), seq_nth by exact H. reflexivity.
  - rewrite nth_overflow by (rewrite map_length, seq_length; exact H). reflexivity.
Qed.

(** Of a head: its width; the part of a query and a key in the key's weight, from their tokens; the
    part of each level, from the row of the bias; and the value of a token. *)
Record parts (T : Type) := Parts {
  width : nat; of_tokens : token -> token -> T; of_rows : list (nat -> T);
  of_value : token -> vector T }.
Arguments width {T}. Arguments of_tokens {T}. Arguments of_rows {T}. Arguments of_value {T}.

Section Pass.
  Context {T : Type} (n : arithmetic T).

  (** The parts of a head, with tables for [size] tokens. *)
  Definition parts_of (size : nat) (source : token -> vector T) (h : head T) : parts T :=
    let width := length (snd (value h)) in
    let queries := tabulate size (fun t => apply n (query h) (source t)) in
    let keys := tabulate size (fun t => apply n (key_map h) (source t)) in
    let scale := root n (count n (snd (query h))) in
    Parts T width
      (tabulate size (fun q => let x := queries q in
         tabulate size (fun t => expo n (div n (dot n x (keys t)) scale))))
      (map (fun level => tabulate (length level)
         (fun r => expo n (mul n (of_Z n 8) (nth r level (zero n))))) (biases h))
      (tabulate size (fun t => let v := apply n (value h) (source t) in
         map (fun i => nth i v (zero n)) (seq 0 width))).

  Definition all_parts (size : nat) (w : weights T) : list (parts T) :=
    let source := tabulate size (source n w) in map (parts_of size source) (heads w).

  (** The weight of a key, before weights are divided by their sum. *)
  Fixpoint times_rows (levels : list (nat -> T)) (rows : list nat) (a : T) : T :=
    match levels, rows with
    | level :: levels, r :: rows => times_rows levels rows (mul n a (level r))
    | _, _ => a
    end.

  Definition weight_of (p : parts T) (q : token) (k : key) : T :=
    times_rows (of_rows p) (snd k) (of_tokens p q (fst k)).

  (** The sum of vectors, each times its number. *)
  Fixpoint weighted (size : nat) (l : list (T * vector T)) : vector T :=
    match l with
    | [] => repeat (zero n) size
    | (a, v) :: l => map2 (fun x y => add n (mul n a x) y) v (weighted size l)
    end.

  (** What a head attends to: the mean of the values, by the weights. *)
  Definition attended_head (q : token) (keys : list key) (p : parts T) : vector T :=
    let data := map (fun k => (weight_of p q k, of_value p (fst k))) keys in
    let total := sum n (map fst data) in
    map (fun x => div n x total) (weighted (width p) data).

  (** The rest of the pass. A vector is prepared once for its products with many rows. *)
  Context {P : Type} (prepare : T -> P) (product : list P -> list P -> T).

  Definition rows_by (rows : matrix P) (x : vector T) : vector T :=
    let x := map prepare x in map (fun row => product row x) rows.

  (** The logits from the weights, the same prepared, and the parts of the heads. *)
  Definition logits_by (w : weights T) (v : weights P) (ps : list (parts T))
      (q : token) (keys : list key) : vector T :=
    let apply a b x := map2 (add n) (rows_by (fst a) x) (snd b) in
    let z := flat_map (attended_head q keys) ps in
    let x := map2 (add n) (embedding w q) (apply (output v) (output w) z) in
    let hidden := apply (up v) (up w) (norm n (before_hidden w) x) in
    let y := map2 (add n) x
      (apply (down v) (down w) (map (fun a => larger n a (zero n)) hidden)) in
    rows_by (logits v) (norm n (before_logits w) y).
End Pass.

(** * Parts of related weights are related, and so are the logits *)

Section Related.
  Context {S T U : Type} {n : arithmetic T} {m : arithmetic U} {rel : T -> U -> Prop}.
  Hypothesis operations : respects n m rel.
  Notation vec := (Forall2 rel).

  (** Parts are related if all their numbers are. *)
  Record related_parts (p : parts T) (p' : parts U) : Prop := RelatedParts {
    same_width : width p = width p';
    related_tokens : forall q k, rel (of_tokens p q k) (of_tokens p' q k);
    related_rows : Forall2 (fun f g => forall r, rel (f r) (g r)) (of_rows p) (of_rows p');
    related_value : forall t, vec (of_value p t) (of_value p' t) }.

  Lemma rel_weight p p' q k : related_parts p p' -> rel (weight_of n p q k) (weight_of m p' q k).
  Proof.
    intros H. unfold weight_of. generalize (related_tokens _ _ H q (fst k)), (snd k).
    generalize (of_tokens p q (fst k)), (of_tokens p' q (fst k)).
    induction (related_rows _ _ H) as [|level level' ? ? Hl ? IH]; intros a b Hab [|r rows];
      cbn; auto using (rel_mul operations).
  Qed.

  Lemma vec_weighted size (l : list (T * vector T)) l' :
    Forall2 (fun d d' => rel (fst d) (fst d') /\ vec (snd d) (snd d')) l l' ->
    vec (weighted n size l) (weighted m size l').
  Proof.
    induction 1 as [|[a u] [b v] ? ? [Hab Huv] ? IH]; cbn in *.
    - induction size; cbn; auto using (rel_zero operations).
    - relate.
  Qed.

  Lemma vec_attended_head p p' q keys : related_parts p p' ->
    vec (attended_head n q keys p) (attended_head m q keys p').
  Proof.
    intros H. unfold attended_head. rewrite !map_map, (same_width _ _ H). cbn [fst].
    eapply Forall2_map.
    - apply vec_weighted, Forall2_map_same. split; [apply rel_weight, H|apply related_value, H].
    - relate. apply rel_weight, H.
  Qed.

  Variables (f : S -> T) (g : S -> U).
  Hypothesis entries : forall s, rel (f s) (g s).

  Lemma related_parts_of size source source' h : (forall t, vec (source t) (source' t)) ->
    related_parts (parts_of n size source (map_head f h)) (parts_of m size source' (map_head g h)).
  Proof.
    intros Hs. split;
      cbn [width of_tokens of_rows of_value parts_of map_head biases query key_map value map_affine
        fst snd]; intros; rewrite ?tabulate_eq; cbv zeta; rewrite ?tabulate_eq, ?map_length; relate.
    all: cbn [map_affine fst snd]; eauto using vec_map, mat_map.
    rewrite !tabulate_eq. relate.
  Qed.

  (** A product of prepared vectors has to be related to that of related ones. *)
  Context {P : Type} (prepare : T -> P) (product : list P -> list P -> T).
  Hypothesis related_product : forall a b x y, vec a x -> vec b y ->
    rel (product (map prepare a) (map prepare b)) (dot m x y).

  Lemma vec_rows_by rows rows' x y : Forall2 vec rows rows' -> vec x y ->
    vec (rows_by prepare product (map (map prepare) rows) x) (map (fun row => dot m row y) rows').
  Proof.
    intros H Hx. unfold rows_by. rewrite map_map. eapply Forall2_map; [exact H|]. auto.
  Qed.

  Lemma vec_logits_by w size q keys :
    let fw := map_weights f w in let gw := map_weights g w in
    vec (logits_by n prepare product fw (map_weights prepare fw) (all_parts n size fw) q keys)
      (logits_of m gw (after_hidden m gw (after_attention m gw q
        (flat_map (attended_head m q keys) (all_parts m size gw))))).
  Proof.
    cbv zeta.
    assert (Hz : vec (flat_map (attended_head n q keys) (all_parts n size (map_weights f w)))
                     (flat_map (attended_head m q keys) (all_parts m size (map_weights g w)))).
    { unfold all_parts. cbn [heads map_weights]. rewrite !map_map, !flat_map_concat_map, !map_map.
      rewrite <- !flat_map_concat_map. apply Forall2_flat_map_same. intros h.
      apply vec_attended_head, related_parts_of. intros t. rewrite !tabulate_eq.
      apply (vec_source operations); auto. }
    assert (Hv : forall l, vec (map f l) (map g l)) by (intros; apply vec_map, entries).
    assert (Hm : forall l, Forall2 vec (map (map f) l) (map (map g) l))
      by (intros; apply mat_map, entries).
    unfold logits_by, logits_of, after_hidden, after_attention, apply. cbv zeta.
    repeat first [apply vec_rows_by | apply (vec_embedding f g entries) | relate_step]; cbn; auto.
  Qed.
End Related.

(** * Over the reals these are the logits of the model *)

Lemma weight_of_tables w size h q k :
  weight_of reals (parts_of reals size (tabulate size (source reals w)) h) q k
  = exp (score reals w h q k).
Proof.
  unfold weight_of, parts_of. cbn [of_tokens of_rows]. rewrite !tabulate_eq. cbv zeta.
  rewrite ?tabulate_eq. unfold score, bias. cbn [reals expo add]. rewrite exp_plus.
  generalize (exp (div reals (dot reals (apply reals (query h) (source reals w q))
    (apply reals (key_map h) (source reals w (fst k))))
    (root reals (count reals (snd (query h)))))).
  generalize (snd k). induction (biases h) as [|level levels IH]; intros [|r rows] a; cbn [combine
    map times_rows]; try (unfold sum; cbn; rewrite exp_0; lra).
  rewrite IH, tabulate_eq. unfold sum. cbn [fold_right reals add expo mul fst snd].
  rewrite exp_plus. lra.
Qed.

Lemma weighted_is_sum size (keys : list key) (a : key -> R) (v : key -> nat -> R) :
  weighted reals size (map (fun k => (a k, map (v k) (seq 0 size))) keys)
  = map (fun i => over reals keys (fun k => a k * v k i)%R) (seq 0 size).
Proof.
  unfold over, sum. induction keys as [|k keys IH]; cbn [map weighted fold_right].
  - generalize 0. induction size; intros; cbn; f_equal; auto.
  - rewrite IH. clear IH. unfold map2. induction (seq 0 size); cbn in *; f_equal; auto.
Qed.

Theorem attended_by_tables w size q keys :
  flat_map (attended_head reals q keys) (all_parts reals size w)
  = attended reals w (over reals keys) q.
Proof.
  unfold all_parts, attended. cbv zeta.
  rewrite flat_map_concat_map, map_map, <- flat_map_concat_map. apply flat_map_ext. intros h.
  unfold attended_head. rewrite !map_map. cbn [fst].
  rewrite (map_ext _ _ (weight_of_tables w size h q)).
  rewrite map_ext with (g := fun k => (exp (score reals w h q k), map (fun i =>
    nth i (apply reals (value h) (source reals w (fst k))) (zero reals))
      (seq 0 (length (snd (value h)))))).
  - cbn [width parts_of]. rewrite weighted_is_sum, map_map. reflexivity.
  - intros k. rewrite weight_of_tables. cbn [of_value parts_of]. rewrite !tabulate_eq. reflexivity.
Qed.
