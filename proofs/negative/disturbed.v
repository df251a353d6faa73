(* expected: Unable to unify "true" with "false" *)
(** Other weights are refused: 1/4 is added to each. *)

From Coq Require Import ZArith.
From Carry Require Import Windows Transformer Processor tasks.strings weights.copying_relative_0.

Definition disturbed := map_weights (fun m => (4 * fst m + 2 ^ snd m, snd m + 2))%Z copying_relative_0.

Lemma checked : Processor.check precision disturbed (0, 0)%Z (contexts copying) = true.
Proof. vm_compute. reflexivity. Qed.
