(** Texts and greedy decoding. Nothing here is about neural networks: [next] is any function. *)

From Coq Require Import List Arith Lia.
Import ListNotations.

(** A decimal digit is its own token. The others have the numbers of the project's vocabulary. *)
Definition token := nat.
Definition PLUS : token := 10.
Definition EQUALS : token := 11.
Definition BEGIN : token := 12.
Definition END : token := 13.

(** Append the next token until it is [END]. *)
Fixpoint decode (next : list token -> token) (steps : nat) (text : list token) : list token :=
  match steps with
  | O => []
  | S steps =>
    let t := next text in if t =? END then [t] else t :: decode next steps (text ++ [t])
  end.

(** A function that gives the right token after each part of an answer decodes the answer. *)
Theorem decode_written next question written :
  (forall k, k <= length written -> next (question ++ firstn k written) = nth k written END) ->
  ~ In END written ->
  forall steps, length written < steps -> decode next steps question = written ++ [END].
Proof.
  revert question; induction written as [|w written IH]; intros question right absent steps enough;
    (destruct steps as [|steps]; [cbn in enough; lia|]); pose proof (right 0 ltac:(lia)) as first;
    cbn [firstn nth] in first; rewrite app_nil_r in first; cbn [decode]; rewrite first.
  - reflexivity.
  - cbn [In] in absent. destruct (Nat.eqb_spec w END) as [|_]; [intuition|].
    cbn [app length] in *. f_equal. apply IH; [|intuition|lia].
    intros k Hk. rewrite <- app_assoc. exact (right (S k) ltac:(lia)).
Qed.
