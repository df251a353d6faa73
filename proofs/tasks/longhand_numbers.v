(** Rows as numbers: what their digits say, place by place. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits tasks.longhand_rows
  tasks.longhand_contexts.
Import ListNotations.

Section Effect.
  Variables (e : effect) (first_carry : nat) (X Y : list nat).

  (** A row follows from two others, place by place. *)
  Fixpoint carry_at (k : nat) : nat :=
    match k with
    | O => first_carry
    | S k => snd (e (nth k X 0) (nth k Y 0) (carry_at k))
    end.
  Definition place_at (k : nat) : nat := fst (e (nth k X 0) (nth k Y 0) (carry_at k)).
  Definition write_row (size : nat) : list nat := map place_at (seq 0 size).

  Lemma write_snoc size : write_row (S size) = write_row size ++ [place_at size].
  Proof. unfold write_row. rewrite seq_S, map_app. reflexivity. Qed.

  Lemma write_length size : length (write_row size) = size.
  Proof. unfold write_row. rewrite map_length, seq_length. reflexivity. Qed.

  Lemma write_nth size k : k < size -> nth k (write_row size) 0 = place_at k.
  Proof.
    intros H. unfold write_row.
    rewrite (nth_indep _ 0 (place_at 0)) by (rewrite map_length, seq_length; lia).
    rewrite map_nth, seq_nth by lia. reflexivity.
  Qed.

  Lemma write_nth_error size k q : nth_error (write_row size) k = Some q -> k < size /\ q
    = place_at k.
  Proof.
    intros H. assert (k < size) as Hk by (rewrite <- (write_length size); apply nth_error_Some;
      congruence).
    split; [exact Hk|]. rewrite <- (write_nth size k Hk). symmetry. apply nth_error_nth, H.
  Qed.
End Effect.

(** * Numbers *)

Notation num := (number 10).
Definition all_digits (l : list nat) : Prop := Forall (fun d => d < 10) l.
Definition power (k : nat) : N := (10 ^ N.of_nat k)%N.

Lemma power_S k : power (S k) = (10 * power k)%N.
Proof. unfold power. rewrite Nat2N.inj_succ. apply N.pow_succ_r'. Qed.

Lemma power_1 k : (1 <= power k)%N.
Proof. unfold power. assert (10 ^ N.of_nat k <> 0)%N by (apply N.pow_nonzero; discriminate). lia.
Qed.

Lemma num_snoc l d : num (l ++ [d]) = (num l + power (length l) * N.of_nat d)%N.
Proof.
  induction l as [|x l IH]; cbn [app number length]; [change (power 0) with 1%N; lia|].
  rewrite IH, power_S. lia.
Qed.

Lemma num_firstn l k : num (firstn (S k) l) = (num (firstn k l) + power k * N.of_nat (nth k l O))%N.
Proof.
  revert k; induction l as [|x l IH]; intros k; [destruct k; cbn [firstn number nth N.of_nat];
    lia|].
  cbn [firstn number]. destruct k as [|k].
  - change (power 0) with 1%N. cbn [firstn number nth]. lia.
  - rewrite IH. cbn [firstn number nth]. rewrite power_S. lia.
Qed.

Lemma nth_digit l k : all_digits l -> nth k l 0 < 10.
Proof.
  intros H. revert k; induction H as [|d l Hd _ IH]; intros [|k]; cbn; try lia. apply IH.
Qed.

Lemma num_below l : all_digits l -> (num l < power (length l))%N.
Proof.
  induction 1 as [|d l Hd _ IH]; cbn [number length]; [reflexivity|]. rewrite power_S. lia.
Qed.

Lemma num_firstn_below l k : all_digits l -> (num (firstn k l) < power k)%N.
Proof.
  intros H. induction k as [|k IH]; [reflexivity|]. rewrite num_firstn, power_S.
  pose proof (nth_digit l k H). nia.
Qed.

(** The top digit. *)
Lemma num_top l k : length l = S k -> num l = (num (firstn k l) + power k * N.of_nat (nth k l O))%N.
Proof. intros H. rewrite <- num_firstn, firstn_all2 by lia. reflexivity. Qed.

Lemma num_zero l k : num l = 0%N -> nth k l 0 = 0.
Proof.
  revert k; induction l as [|d l IH]; intros [|k] H; cbn [number] in H; cbn [nth]; try lia.
  apply IH. lia.
Qed.

Lemma plus_number c X Y size :
  (num (write_row plus_ c X Y size) + power size * N.of_nat (carry_at plus_ c X Y size)
   = num (firstn size X) + num (firstn size Y) + N.of_nat c)%N.
Proof.
  induction size as [|k IH]; [change (power 0) with 1%N;
    cbn [write_row seq map number firstn carry_at]; lia|].
  rewrite write_snoc, num_snoc, write_length, !num_firstn, power_S. unfold place_at. cbn [carry_at].
  set (t := carry_at plus_ c X Y k) in *. unfold plus_ in *. cbn [fst snd].
  pose proof (Nat.div_mod_eq (nth k X 0 + nth k Y 0 + t) 10) as E. revert E.
  generalize ((nth k X 0 + nth k Y 0 + t) mod 10) ((nth k X 0 + nth k Y 0 + t) / 10). intros u v E.
  nia.
Qed.

Lemma minus_step x y c : x < 10 -> y < 10 -> c <= 1 ->
  fst (minus_ x y c) + y + c = x + 10 * snd (minus_ x y c) /\ fst (minus_ x y c) < 10
    /\ snd (minus_ x y c) <= 1.
Proof.
  intros Hx Hy Hc. unfold minus_. cbn [fst snd].
  pose proof (Nat.div_mod_eq (x + 20 - (y + c)) 10) as E.
  pose proof (Nat.mod_upper_bound (x + 20 - (y + c)) 10 ltac:(lia)) as L. revert E L.
  generalize ((x + 20 - (y + c)) mod 10) ((x + 20 - (y + c)) / 10). intros u v E L.
  destruct (Nat.ltb_spec x (y + c)); lia.
Qed.

Lemma plus_step x y c : x < 10 -> y < 10 -> c <= 1 ->
  fst (plus_ x y c) < 10 /\ snd (plus_ x y c) <= 1.
Proof.
  intros Hx Hy Hc. unfold plus_. cbn [fst snd]. split; [apply Nat.mod_upper_bound; lia|].
  assert ((x + y + c) / 10 < 2) by (apply Nat.div_lt_upper_bound; lia). lia.
Qed.

Lemma minus_number X Y size : all_digits X -> all_digits Y ->
  (num (write_row minus_ 0 X Y size) + num (firstn size Y)
   = num (firstn size X) + power size * N.of_nat (carry_at minus_ 0 X Y size))%N
  /\ carry_at minus_ 0 X Y size <= 1.
Proof.
  intros HX HY. induction size as [|k [IH Hc]]; [cbn; split; lia|].
  rewrite write_snoc, num_snoc, write_length, !num_firstn, power_S. unfold place_at. cbn [carry_at].
  destruct (minus_step (nth k X 0) (nth k Y 0) _ (nth_digit X k HX) (nth_digit Y k HY) Hc)
    as (E & _ & H).
  split; [|exact H]. nia.
Qed.
