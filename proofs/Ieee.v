(** Rounding to nearest in binary32, as Flocq defines it, obeys the rule of float32 for one step. *)

From Coq Require Import ZArith Reals Lra.
From Flocq Require Import Core Relative.
From Carry Require Import Float32.
Local Open Scope R_scope.

Definition rounded32 : R -> R := round radix2 (FLT_exp (-149) 24) ZnearestE.

Theorem ieee_near x : near unit32 x (rounded32 x).
Proof.
  destruct (error_N_FLT radix2 (-149) 24 eq_refl (fun z => negb (Z.even z)) x)
    as (e & t & He & Ht & _ & E).
  unfold near, rounded32. rewrite E. replace (x * (1 + e) + t - x) with (e * x + t) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. apply Rplus_le_compat.
  - apply Rmult_le_compat_r; [apply Rabs_pos|]. unfold unit32. cbn in *. lra.
  - eapply Rle_trans; [exact Ht|]. change tiny with (bpow radix2 (-126)).
    pose proof (bpow_le radix2 (-149) (-126) ltac:(discriminate)).
    pose proof (bpow_gt_0 radix2 (-149)). lra.
Qed.
