(* expected: Unable to unify "true" with "false" *)
(** Another token than the one that is due is refused. *)

From Coq Require Import List ZArith.
From Carry Require Import Windows Processor tasks.strings weights.copying_relative_0.

Definition wrong (c : context) : context := let '(q, keys, y) := c in (q, keys, (y + 1) mod 10).

Lemma checked :
  Processor.check precision copying_relative_0 (0, 0)%Z (map wrong (contexts copying)) = true.
Proof. vm_compute. reflexivity. Qed.
