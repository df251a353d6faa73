(** The rules of [Float32.v] can be obeyed: by exact arithmetic, and in each step by rounding to nearest
    in binary32, as Flocq defines it. *)

From Coq Require Import List Reals.
From Carry Require Import Decoding Windows Transformer Float32 NotVacuous Ieee.

Theorem exact_arithmetic_obeys : forall w q keys, float_pass w q keys (logits_in reals w q keys).
Proof. exact exact_pass. Qed.

Theorem binary32_obeys : forall x : R, near unit32 x (rounded32 x).
Proof. exact ieee_near. Qed.

Check exact_arithmetic_obeys.
Print Assumptions exact_arithmetic_obeys.
Check binary32_obeys.
Print Assumptions binary32_obeys.
