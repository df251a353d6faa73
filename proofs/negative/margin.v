(* expected: Unable to unify "true" with "false" *)
(** No model is shown to lead by more than it does: the least lead is 6.56, not 7. *)

From Coq Require Import ZArith.
From Carry Require Import Windows Processor tasks.sums weights.addition_relative_small_0.

Lemma checked :
  Processor.check precision addition_relative_small_0 (7, 0)%Z (contexts (decimal true)) = true.
Proof. vm_compute. reflexivity. Qed.
