(** Intervals of the processor's floats. *)

From Coq Require Import ZArith.
From Interval Require Import Float.Primitive_ops.
From Carry Require Import Intervals Intervals32.

Module Processor := Intervals PrimitiveFloat.
Module Processor32 := Intervals32 PrimitiveFloat.
Definition precision := PrimitiveFloat.PtoP 53%positive.
