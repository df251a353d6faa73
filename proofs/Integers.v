(** Intervals of floats that are calculated with Coq's integers alone, to 30 bits. *)

From Coq Require Import ZArith.
From Interval Require Import Float.Specific_ops Float.Specific_stdz.
From Carry Require Import Intervals.

Module Format := SpecificFloat StdZRadix2.
Module Integers := Intervals Format.
Definition precision := Format.PtoP 30%positive.
