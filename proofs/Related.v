(** Calculations with two kinds of numbers: if each operation keeps a relation between them, so does
    every formula, and the pass of the model. For example, intervals hold real numbers. *)

From Coq Require Import List Arith ZArith.
From Carry Require Import Decoding Windows Transformer.
Import ListNotations.

(** Each operation of [n] and of [m] gives related results from related numbers. *)
Record respects {T U} (n : arithmetic T) (m : arithmetic U) (rel : T -> U -> Prop) : Prop := Respects {
  rel_of_Z : forall z, rel (of_Z n z) (of_Z m z);
  rel_add : forall a b x y, rel a x -> rel b y -> rel (add n a b) (add m x y);
  rel_sub : forall a b x y, rel a x -> rel b y -> rel (sub n a b) (sub m x y);
  rel_mul : forall a b x y, rel a x -> rel b y -> rel (mul n a b) (mul m x y);
  rel_div : forall a b x y, rel a x -> rel b y -> rel (div n a b) (div m x y);
  rel_root : forall a x, rel a x -> rel (root n a) (root m x);
  rel_expo : forall a x, rel a x -> rel (expo n a) (expo m x);
  rel_larger : forall a b x y, rel a x -> rel b y -> rel (larger n a b) (larger m x y) }.
Arguments rel_of_Z {T U n m rel}. Arguments rel_add {T U n m rel}. Arguments rel_sub {T U n m rel}.
Arguments rel_mul {T U n m rel}. Arguments rel_div {T U n m rel}. Arguments rel_root {T U n m rel}.
Arguments rel_expo {T U n m rel}. Arguments rel_larger {T U n m rel}.

(** * Lists of related things *)

Section Lists.
  Context {A B C D E F : Type} (P : A -> B -> Prop) (Q : C -> D -> Prop) (S : E -> F -> Prop).

  Lemma Forall2_map f g u v : Forall2 P u v -> (forall a x, P a x -> Q (f a) (g x)) ->
    Forall2 Q (map f u) (map g v).
  Proof. intros Huv H. induction Huv; cbn; auto. Qed.

  Lemma Forall2_map_same {I} (f : I -> A) g l : (forall i, P (f i) (g i)) ->
    Forall2 P (map f l) (map g l).
  Proof. intros H. induction l; cbn; auto. Qed.

  Lemma Forall2_flat_map_same {I} (f : I -> list A) g l : (forall i, Forall2 P (f i) (g i)) ->
    Forall2 P (flat_map f l) (flat_map g l).
  Proof. intros H. induction l; cbn; auto using Forall2_app. Qed.

  Lemma Forall2_combine u v u' v' : Forall2 P u v -> Forall2 Q u' v' ->
    Forall2 (fun a x => P (fst a) (fst x) /\ Q (snd a) (snd x)) (combine u u') (combine v v').
  Proof.
    intros H. revert u' v'. induction H; intros u' v' []; cbn; auto.
  Qed.

  Lemma Forall2_equal l : Forall2 (@eq A) l l.
  Proof. induction l; auto. Qed.

  Lemma Forall2_nth i u v a x : Forall2 P u v -> P a x -> P (nth i u a) (nth i v x).
  Proof. intros H Ha. revert i. induction H; intros [|i]; cbn; auto. Qed.

  Lemma Forall2_length u v : Forall2 P u v -> length u = length v.
  Proof. induction 1; cbn; congruence. Qed.
End Lists.

(** [map2] is of numbers alone. *)
Lemma Forall2_map2 {A B : Type} (P : A -> B -> Prop) f g u v u' v' :
  Forall2 P u v -> Forall2 P u' v' -> (forall a b x y, P a x -> P b y -> P (f a b) (g x y)) ->
  Forall2 P (map2 f u u') (map2 g v v').
Proof.
  intros Hu Hv H. unfold map2. eapply Forall2_map; [exact (Forall2_combine _ _ _ _ _ _ Hu Hv)|].
  cbn. intros a x []. auto.
Qed.

(** * Sums, maps and norms *)

Section Formulas.
  Context {T U : Type} {n : arithmetic T} {m : arithmetic U} {rel : T -> U -> Prop}.
  Hypothesis operations : respects n m rel.
  Notation vec := (Forall2 rel).
  Notation mat := (Forall2 (Forall2 rel)).

  Lemma rel_zero : rel (zero n) (zero m).
  Proof. apply (rel_of_Z operations). Qed.

  Lemma rel_sum u v : vec u v -> rel (sum n u) (sum m v).
  Proof. unfold sum. induction 1; cbn; auto using rel_zero, (rel_add operations). Qed.

  Lemma rel_dot u v u' v' : vec u v -> vec u' v' -> rel (dot n u u') (dot m v v').
  Proof. intros. apply rel_sum, Forall2_map2; auto using (rel_mul operations). Qed.

  Lemma rel_count {A B} (P : A -> B -> Prop) u v : Forall2 P u v -> rel (count n u) (count m v).
  Proof.
    intros H. unfold count. rewrite (Forall2_length _ _ _ H). apply (rel_of_Z operations).
  Qed.

  Lemma vec_rows W V x y : mat W V -> vec x y ->
    vec (map (fun row => dot n row x) W) (map (fun row => dot m row y) V).
  Proof. intros H Hx. eapply Forall2_map; [exact H|]. auto using rel_dot. Qed.

  Lemma vec_apply a b x y : mat (fst a) (fst b) -> vec (snd a) (snd b) -> vec x y ->
    vec (apply n a x) (apply m b y).
  Proof. intros. apply Forall2_map2; auto using vec_rows, (rel_add operations). Qed.

  Lemma rel_mean x y : vec x y -> rel (mean n x) (mean m y).
  Proof. intros. apply (rel_div operations); eauto using rel_sum, rel_count. Qed.

  Lemma vec_centred x y : vec x y -> vec (centred n x) (centred m y).
  Proof.
    intros. eapply Forall2_map; [eassumption|]. auto using (rel_sub operations), rel_mean.
  Qed.

  Lemma rel_deviation x y : vec x y -> rel (deviation n x) (deviation m y).
  Proof.
    intros. apply (rel_root operations), (rel_add operations); apply (rel_div operations);
      eauto using rel_dot, vec_centred, rel_count, (rel_of_Z operations).
  Qed.

  Lemma vec_norm s t x y : vec (fst s) (fst t) -> vec (snd s) (snd t) -> vec x y ->
    vec (norm n s x) (norm m t y).
  Proof.
    intros. apply Forall2_map2; auto using (rel_add operations).
    apply Forall2_map2; auto using (rel_mul operations).
    eapply Forall2_map; eauto using vec_centred, (rel_div operations), rel_deviation.
  Qed.
End Formulas.

(** Proves that a formula of related numbers gives related numbers: goes through it, and leaves what
    it does not know. Wants [respects n m rel] among the hypotheses. *)
Ltac relate_step :=
  match goal with
  | |- forall _, _ => let H := fresh in intro H; cbv beta in H
  | H : _ /\ _ |- _ => destruct H
  | H : ?goal |- ?goal => exact H
  | H : Forall2 _ ?u ?v |- Forall2 _ ?u ?v => exact H
  | H : snd ?a = snd ?x |- ?P (nth (snd ?a) _ _) (nth (snd ?x) _ _) => rewrite H
  | |- ?P (let _ := _ in _) _ => cbv zeta
  | H : respects _ _ ?rel |- Forall2 ?rel (map (fun row => dot _ row _) _) _ =>
    simple apply (vec_rows H)
  | |- Forall2 ?P (map _ ?u) (map _ ?v) => assert_fails (is_evar P);
    tryif constr_eq u v then simple apply Forall2_map_same else simple eapply Forall2_map
  | |- Forall2 _ (flat_map _ ?l) (flat_map _ ?l) => simple apply Forall2_flat_map_same
  | |- Forall2 _ (map2 _ _ _) (map2 _ _ _) => simple apply Forall2_map2
  | |- Forall2 _ (combine _ _) (combine _ _) => simple eapply Forall2_combine
  | |- Forall2 _ (_ ++ _) (_ ++ _) => simple apply Forall2_app
  | |- Forall2 ?P ?l ?l => is_evar P; exact (Forall2_equal l)
  | |- Forall2 _ [] [] => constructor
  | |- Forall2 _ (_ :: _) (_ :: _) => constructor
  | |- ?P (nth _ _ _) (nth _ _ _) => simple apply (Forall2_nth P)
  | H : respects ?n ?m ?rel |- _ =>
    match goal with
    | |- rel (of_Z _ _) _ => simple apply (rel_of_Z H)
    | |- rel (add _ _ _) _ => simple apply (rel_add H)
    | |- rel (sub _ _ _) _ => simple apply (rel_sub H)
    | |- rel (mul _ _ _) _ => simple apply (rel_mul H)
    | |- rel (div _ _ _) _ => simple apply (rel_div H)
    | |- rel (root _ _) _ => simple apply (rel_root H)
    | |- rel (expo _ _) _ => simple apply (rel_expo H)
    | |- rel (larger _ _ _) _ => simple apply (rel_larger H)
    | |- rel (zero _) _ => simple apply (rel_zero H)
    | |- rel (sum _ _) _ => simple apply (rel_sum H)
    | |- rel (dot _ _ _) _ => simple apply (rel_dot H)
    | |- rel (count _ _) _ => simple eapply (rel_count H)
    | |- rel (mean _ _) _ => simple apply (rel_mean H)
    | |- rel (deviation _ _) _ => simple apply (rel_deviation H)
    | |- Forall2 _ (centred _ _) _ => simple apply (vec_centred H)
    | |- Forall2 _ (apply _ _ _) _ => simple apply (vec_apply H)
    | |- Forall2 _ (norm _ _ _) _ => simple apply (vec_norm H)
    end
  end.
Ltac relate := repeat relate_step.

(** * The pass, of weights that are given by two functions of the same entries *)

Section Pass.
  Context {S T U : Type} {n : arithmetic T} {m : arithmetic U} {rel : T -> U -> Prop}.
  Hypothesis operations : respects n m rel.
  Variables (f : S -> T) (g : S -> U).
  Hypothesis entries : forall s, rel (f s) (g s).
  Notation vec := (Forall2 rel).

  Lemma vec_map l : vec (map f l) (map g l).
  Proof. relate. apply entries. Qed.
  Lemma mat_map l : Forall2 vec (map (map f) l) (map (map g) l).
  Proof. relate. apply entries. Qed.
  Lemma vec_apply_map a x y : vec x y ->
    vec (apply n (map_affine f a) x) (apply m (map_affine g a) y).
  Proof. intros. apply (vec_apply operations); cbn; auto using vec_map, mat_map. Qed.
  Lemma vec_norm_map s x y : vec x y ->
    vec (norm n (map_scaling f s) x) (norm m (map_scaling g s) y).
  Proof. intros. apply (vec_norm operations); cbn; auto using vec_map, mat_map. Qed.

  Local Ltac by_entries :=
    cbn [fst snd map_affine map_scaling query key_map value map_head]; auto using vec_map, mat_map.

  Variable w : weights S.
  Notation fw := (map_weights f w).
  Notation gw := (map_weights g w).

  Lemma vec_embedding t : vec (embedding fw t) (embedding gw t).
  Proof. unfold embedding. cbn [tokens map_weights]. relate. apply entries. Qed.

  Lemma vec_source t : vec (source n fw t) (source m gw t).
  Proof. apply vec_norm_map, vec_embedding. Qed.

  Lemma rel_bias h rows : rel (bias n (map_head f h) rows) (bias m (map_head g h) rows).
  Proof.
    unfold bias. relate; [apply mat_map|assumption].
  Qed.

  Lemma rel_score h q k : rel (score n fw (map_head f h) q k) (score m gw (map_head g h) q k).
  Proof.
    unfold score. relate; auto using vec_source, rel_bias, vec_apply_map.
    all: by_entries; apply vec_source.
  Qed.

  (** Two ways to add up over keys, of related functions of a key, give related sums. *)
  Definition related_totals (total : (key -> T) -> T) (total' : (key -> U) -> U) : Prop :=
    forall F G, (forall k, rel (F k) (G k)) -> rel (total F) (total' G).

  Lemma related_over keys : related_totals (over n keys) (over m keys).
  Proof. intros F G H. unfold over. relate. apply H. Qed.

  Lemma vec_attended total total' q : related_totals total total' ->
    vec (attended n fw total q) (attended m gw total' q).
  Proof.
    intros Ht. unfold attended. cbn [heads map_weights]. rewrite !flat_map_concat_map, !map_map.
    rewrite <- !flat_map_concat_map. apply Forall2_flat_map_same. intros h. cbv zeta.
    cbn [map_head value map_affine snd]. rewrite !map_length.
    relate; apply Ht; relate; auto using rel_score. all: by_entries; apply vec_source.
  Qed.

  Lemma vec_after_attention q z z' : vec z z' ->
    vec (after_attention n fw q z) (after_attention m gw q z').
  Proof.
    intros. unfold after_attention. cbn [output map_weights]. relate; auto using vec_embedding.
    all: by_entries.
  Qed.

  Lemma vec_after_hidden x y : vec x y -> vec (after_hidden n fw x) (after_hidden m gw y).
  Proof.
    intros. unfold after_hidden. cbn [up down before_hidden map_weights]. relate.
    all: by_entries.
  Qed.

  Lemma vec_logits_of x y : vec x y -> vec (logits_of n fw x) (logits_of m gw y).
  Proof.
    intros. unfold logits_of. cbn [before_logits logits map_weights]. relate.
    all: by_entries.
  Qed.

  Theorem vec_logits_in q keys : vec (logits_in n fw q keys) (logits_in m gw q keys).
  Proof.
    apply vec_logits_of, vec_after_hidden, vec_after_attention, vec_attended, related_over.
  Qed.
End Pass.
