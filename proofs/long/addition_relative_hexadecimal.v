(** Row [addition_relative_hexadecimal]: sums of hexadecimal numbers: [^ef+1=ff$]. *)

From Coq Require Import List ZArith NArith Reals Bool.
From Carry Require Import Decoding Windows Transformer Float32 Processor tasks.sums.
From Carry.weights Require Import addition_relative_hexadecimal_0.
Import ListNotations.

Definition learned : task := addition 16 ltac:(discriminate) false.

(** The models, and by how much the due token leads in every context. *)
Definition models : list (weights (Z * Z) * (Z * Z)) :=
  [(addition_relative_hexadecimal_0, (3, 2))]%Z.

Lemma checked : (let l := contexts learned in
  Processor.check_models precision models l && Processor32.check32_models precision models l) = true.
Proof. vm_cast_no_check (eq_refl true). Qed.

Theorem exact_over_the_reals : forall w margin, In (w, margin) models ->
  exact learned (greedy (model_logits learned (map_weights real w))).
Proof. exact (Processor.reals_exact precision learned models (proj1 (andb_prop _ _ checked))). Qed.

Theorem robust : forall w margin, In (w, margin) models -> forall computed,
  close_leads (real margin) learned (map_weights real w) computed -> exact learned (greedy computed).
Proof. exact (Processor.reals_robust precision learned models (proj1 (andb_prop _ _ checked))). Qed.

Theorem exact_in_float32 : forall w margin, In (w, margin) models -> forall computed,
  computes32 learned (map_weights real w) computed -> exact learned (greedy computed).
Proof. exact (Processor32.float32_exact precision learned models (proj2 (andb_prop _ _ checked))). Qed.

Check exact_over_the_reals.
Print Assumptions exact_over_the_reals.
Check robust.
Print Assumptions robust.
Check exact_in_float32.
Print Assumptions exact_in_float32.
