(** Intervals of the processor's floats. *)

From Coq Require Import ZArith.
From Interval Require Import Float.Primitive_ops.
From Carry Require Import Intervals.

Module Processor := Intervals PrimitiveFloat.
Definition precision := PrimitiveFloat.PtoP 53%positive.
