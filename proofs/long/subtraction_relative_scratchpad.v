(** Row [subtraction_relative_scratchpad]: differences: [^306-94=455$] is 603 - 49 = 554. *)

From Coq Require Import List ZArith Reals.
From Carry Require Import Decoding Windows Transformer Float32 Processor tasks.differences.
From Carry.weights Require Import
  subtraction_relative_scratchpad_0
  subtraction_relative_scratchpad_1
  subtraction_relative_scratchpad_2.
Import ListNotations.

Definition learned : task := subtraction.

(** The models of all seeds, and by how much the due token leads in every context. *)
Definition models : list (weights (Z * Z) * (Z * Z)) :=
  [(subtraction_relative_scratchpad_0, (51, 2));
   (subtraction_relative_scratchpad_1, (25, 1));
   (subtraction_relative_scratchpad_2, (4, 0))]%Z.

Lemma checked : Processor.check_models precision models (contexts learned) = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

Theorem exact_over_the_reals : forall w margin, In (w, margin) models ->
  exact learned (greedy (model_logits learned (map_weights real w))).
Proof. exact (Processor.reals_exact precision learned models checked). Qed.

Theorem robust : forall w margin, In (w, margin) models -> forall computed,
  close_leads (real margin) learned (map_weights real w) computed -> exact learned (greedy computed).
Proof. exact (Processor.reals_robust precision learned models checked). Qed.

Check exact_over_the_reals.
Print Assumptions exact_over_the_reals.
Check robust.
Print Assumptions robust.
