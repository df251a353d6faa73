(* expected: Unable to unify "true" with "false" *)
(** Another token than the one that is due is refused in float32, too. *)

From Coq Require Import List ZArith.
From Carry Require Import Windows Processor tasks.strings weights.copying_relative_0.

Definition wrong (c : context) : context := let '(q, keys, y) := c in (q, keys, (y + 1) mod 10).

Lemma checked : Processor32.check32 precision copying_relative_0 (map wrong (contexts copying)) = true.
Proof. vm_compute. reflexivity. Qed.
