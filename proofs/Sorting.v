(** Contexts in a normal form: keys in order, and each context once. *)

From Coq Require Import List Arith Bool Permutation Mergesort Orders.
From Carry Require Import Decoding Windows.
Import ListNotations.

Fixpoint list_leb (l m : list nat) : bool :=
  match l, m with
  | [], _ => true
  | _ :: _, [] => false
  | x :: l, y :: m => (x <? y) || (x =? y) && list_leb l m
  end.

Lemma list_leb_total l m : list_leb l m = true \/ list_leb m l = true.
Proof.
  revert m; induction l as [|x l IH]; intros [|y m]; cbn [list_leb]; auto.
  destruct (Nat.lt_trichotomy x y) as [H|[->|H]].
  - left. apply Nat.ltb_lt in H. rewrite H. reflexivity.
  - rewrite Nat.eqb_refl, Nat.ltb_irrefl. apply IH.
  - right. apply Nat.ltb_lt in H. rewrite H. reflexivity.
Qed.

Module KeyOrder <: TotalLeBool.
  Definition t := key.
  Definition leb (k l : key) : bool := list_leb (fst k :: snd k) (fst l :: snd l).
  Lemma leb_total k l : leb k l = true \/ leb l k = true.
  Proof. apply list_leb_total. Qed.
End KeyOrder.
Module Keys := Sort KeyOrder.

Definition numbers_of (c : context) : list nat :=
  let '(q, keys, y) := c in q :: y :: flat_map (fun k : key => fst k :: snd k) keys.
Module ContextOrder <: TotalLeBool.
  Definition t := context.
  Definition leb (c d : context) : bool := list_leb (numbers_of c) (numbers_of d).
  Lemma leb_total c d : leb c d = true \/ leb d c = true.
  Proof. apply list_leb_total. Qed.
End ContextOrder.
Module Contexts := Sort ContextOrder.

Definition context_eq_dec (c d : context) : {c = d} + {c <> d}.
Proof. repeat decide equality. Defined.

(** Leave out what equals its neighbour. *)
Fixpoint once (l : list context) : list context :=
  match l with
  | c :: rest =>
    match rest with
    | d :: _ => if context_eq_dec c d then once rest else c :: once rest
    | [] => l
    end
  | [] => []
  end.

Definition normal (l : list context) : list context :=
  once (Contexts.sort (map (fun c : context => let '(q, keys, y) := c in (q, Keys.sort keys, y)) l)).

Lemma in_once c l : In c l -> In c (once l).
Proof.
  induction l as [|d [|e l] IH]; cbn [once]; [auto|auto|]. intros [->|H].
  - destruct (context_eq_dec c e) as [->|]; [apply IH; left; reflexivity|left; reflexivity].
  - destruct (context_eq_dec d e); [|right]; apply IH, H.
Qed.

Lemma in_normal q keys y l : In (q, keys, y) l ->
  exists keys', In (q, keys', y) (normal l) /\ Permutation keys' keys.
Proof.
  intros H. exists (Keys.sort keys). split; [|apply Permutation_sym, Keys.Permuted_sort].
  apply in_once. eapply Permutation_in; [apply Contexts.Permuted_sort|].
  apply in_map_iff. exists (q, keys, y). auto.
Qed.
