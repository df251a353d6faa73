(** Row [addition_relative_small], seed 0, over the reals, without machine numbers: intervals are
    calculated by integers of Coq's library. So no axiom but those of the real numbers is used. *)

From Coq Require Import List ZArith Reals.
From Carry Require Import Decoding Windows Transformer Integers tasks.sums.
From Carry.weights Require Import addition_relative_small_0.
Import ListNotations.

Definition learned : task := decimal true.

Definition models : list (weights (Z * Z) * (Z * Z)) := [(addition_relative_small_0, (13, 1))]%Z.

Lemma checked : Integers.check_models precision models (contexts learned) = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

Theorem adds_over_the_reals :
  adds (greedy (model_logits learned (map_weights real addition_relative_small_0))).
Proof.
  apply (exact_adds true). apply (Integers.reals_exact precision learned models checked _ (13, 1)%Z).
  left. reflexivity.
Qed.

Check adds_over_the_reals.
Print Assumptions adds_over_the_reals.
