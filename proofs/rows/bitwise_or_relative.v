(** Row [bitwise_or_relative]: or of a single 1 and zeros: [^01|000=010$]. *)

From Coq Require Import List ZArith Reals.
From Carry Require Import Decoding Windows Transformer Float32 Processor tasks.bitwise_or.
From Carry.weights Require Import bitwise_or_relative_0 bitwise_or_relative_1 bitwise_or_relative_2.
Import ListNotations.

Definition learned : task := bitwise_or.

(** The models of all seeds, and by how much the due token leads in every context. *)
Definition models : list (weights (Z * Z) * (Z * Z)) :=
  [(bitwise_or_relative_0, (31, 2));
   (bitwise_or_relative_1, (7, 0));
   (bitwise_or_relative_2, (31, 2))]%Z.

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
