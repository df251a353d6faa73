(** Any function from texts to tokens that sees what the windows show, and is right in 11,124
    contexts, adds every two numbers. Nothing here is about neural networks. *)

From Coq Require Import List NArith Permutation.
From Carry Require Import Decoding Windows tasks.sums.
Import ListNotations.

Theorem every_sum :
  forall (next : list token -> token) (step : token -> list key -> token),
  (forall text, next text = step (last text END) (seen_in (decimal true) text)) ->
  (forall q c c', Permutation c c' -> step q c = step q c') ->
  (forall q c y, In (q, c, y) (contexts (decimal true)) -> step q c = y) ->
  forall (a b : N) (steps : nat), length (tokens_of (a + b)) < steps ->
  decode next steps (BEGIN :: tokens_of a ++ PLUS :: tokens_of b ++ [EQUALS])
  = tokens_of (a + b) ++ [END].
Proof.
  intros next step local unordered right. apply (exact_adds true).
  exact (every_length (decimal true) next step local unordered right).
Qed.

Theorem contexts_of_sums : N.of_nat (length (contexts (decimal true))) = 11124%N.
Proof. vm_compute. reflexivity. Qed.

Check every_sum.
Print Assumptions every_sum.
Check contexts_of_sums.
Print Assumptions contexts_of_sums.
