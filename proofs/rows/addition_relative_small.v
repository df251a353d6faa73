(** Row [addition_relative_small]: 608 parameters add every two numbers: [^356+94=207$] is 653 + 49 = 702. *)

From Coq Require Import List ZArith NArith Reals Bool.
From Carry Require Import Decoding Windows Transformer Float32 Processor tasks.sums.
From Carry.weights Require Import
  addition_relative_small_0
  addition_relative_small_1
  addition_relative_small_2.
Import ListNotations.

Definition learned : task := decimal true.

(** The models of all seeds, and by how much the due token leads in every context. *)
Definition models : list (weights (Z * Z) * (Z * Z)) :=
  [(addition_relative_small_0, (13, 1));
   (addition_relative_small_1, (8, 0));
   (addition_relative_small_2, (27, 2))]%Z.

Lemma checked : (let l := contexts learned in
  Processor.check_models precision models l && Processor32.check32_models precision models l) = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

Theorem exact_over_the_reals : forall w margin, In (w, margin) models ->
  exact learned (greedy (model_logits learned (map_weights real w))).
Proof. exact (Processor.reals_exact precision learned models (proj1 (andb_prop _ _ checked))). Qed.

Theorem robust : forall w margin, In (w, margin) models -> forall computed,
  close_leads (real margin) learned (map_weights real w) computed -> exact learned (greedy computed).
Proof. exact (Processor.reals_robust precision learned models (proj1 (andb_prop _ _ checked))). Qed.

Theorem exact_in_float32 : forall w margin, In (w, margin) models -> forall computed,
  computes32 learned (map_weights real w) computed -> exact learned (greedy computed).
Proof. exact (Processor32.float32_exact precision learned models (proj2 (andb_prop _ _ checked))). Qed.

(** The same in full. *)
Theorem adds_over_the_reals : forall w margin, In (w, margin) models ->
  forall (a b : N) (steps : nat), length (tokens_of (a + b)) < steps ->
  decode (greedy (model_logits learned (map_weights real w))) steps
    (BEGIN :: tokens_of a ++ PLUS :: tokens_of b ++ [EQUALS]) = tokens_of (a + b) ++ [END].
Proof. intros w margin H. exact (exact_adds true _ (exact_over_the_reals w margin H)). Qed.

Theorem adds_in_float32 : forall w margin, In (w, margin) models ->
  forall computed, computes32 learned (map_weights real w) computed ->
  forall (a b : N) (steps : nat), length (tokens_of (a + b)) < steps ->
  decode (greedy computed) steps
    (BEGIN :: tokens_of a ++ PLUS :: tokens_of b ++ [EQUALS]) = tokens_of (a + b) ++ [END].
Proof.
  intros w margin H computed C. exact (exact_adds true _ (exact_in_float32 w margin H computed C)).
Qed.

Check exact_over_the_reals.
Print Assumptions exact_over_the_reals.
Check robust.
Print Assumptions robust.
Check exact_in_float32.
Print Assumptions exact_in_float32.
Check adds_over_the_reals.
Print Assumptions adds_over_the_reals.
Check adds_in_float32.
Print Assumptions adds_in_float32.
