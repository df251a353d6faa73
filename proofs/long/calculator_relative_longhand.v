(** Row [calculator_relative_longhand]: sums, differences, products and quotients in longhand:
    [-73,25=158-051+$] is 37 - 52. *)

From Coq Require Import List ZArith Reals.
From Carry Require Import Decoding Windows Transformer Float32 Processor.
From Carry Require Import tasks.longhand tasks.longhand_meaning.
From Carry.weights Require Import calculator_relative_longhand_0.
Import ListNotations.

Definition learned : task := calculator.

(** The models, and by how much the due token leads in every context. *)
Definition models : list (weights (Z * Z) * (Z * Z)) :=
  [(calculator_relative_longhand_0, (3, 2))]%Z.

Lemma checked : Processor.check_models precision models (contexts learned) = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

Theorem exact_over_the_reals : forall w margin, In (w, margin) models ->
  exact learned (greedy (model_logits learned (map_weights real w))).
Proof. exact (Processor.reals_exact precision learned models checked). Qed.

(** [rows_say_result] says that the rows have the result. *)
Theorem calculates_over_the_reals : forall w margin, In (w, margin) models ->
  calculates (greedy (model_logits learned (map_weights real w))).
Proof. intros w margin H. exact (exact_calculates _ (exact_over_the_reals w margin H)). Qed.

Theorem robust : forall w margin, In (w, margin) models -> forall computed,
  close_leads (real margin) learned (map_weights real w) computed -> exact learned (greedy computed).
Proof. exact (Processor.reals_robust precision learned models checked). Qed.

Check exact_over_the_reals.
Print Assumptions exact_over_the_reals.
Check calculates_over_the_reals.
Print Assumptions calculates_over_the_reals.
Check rows_say_result.
Print Assumptions rows_say_result.
Check robust.
Print Assumptions robust.
