(** Rows as numbers: what their digits say, place by place. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits tasks.longhand_rows
  tasks.longhand_contexts.
Import ListNotations.

(** * A row follows from two others, place by place *)

Section Effect.
  Variables (e : effect) (first_carry : nat) (X Y : list nat).

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

  Lemma write_nth size k d : k < size -> nth k (write_row size) d = place_at k.
  Proof.
    intros H. unfold write_row.
    rewrite (nth_indep _ d (place_at 0)) by (rewrite map_length, seq_length; lia).
    rewrite map_nth, seq_nth by lia. reflexivity.
  Qed.

  Lemma write_nth_error size k q :
    nth_error (write_row size) k = Some q -> k < size /\ q = place_at k.
  Proof.
    intros H.
    assert (k < size) as Hk by (rewrite <- (write_length size); apply nth_error_Some; congruence).
    split; [exact Hk|]. rewrite <- (write_nth size k 0 Hk). symmetry. apply nth_error_nth, H.
  Qed.
End Effect.

(** * Numbers *)

Notation num := (number 10).
Definition all_digits (l : list nat) : Prop := Forall (fun d => d < 10) l.
Definition power (k : nat) : N := (10 ^ N.of_nat k)%N.

Lemma power_S k : power (S k) = (10 * power k)%N.
Proof. unfold power. rewrite Nat2N.inj_succ. apply N.pow_succ_r'. Qed.

Lemma power_less j k : (power j < power k)%N -> j < k.
Proof.
  intros H. apply Nat.nle_gt. intros Hle. unfold power in H.
  assert (10 ^ N.of_nat k <= 10 ^ N.of_nat j)%N by (apply N.pow_le_mono_r; lia). lia.
Qed.

Lemma num_snoc l d : num (l ++ [d]) = (num l + power (length l) * N.of_nat d)%N.
Proof.
  induction l as [|x l IH]; cbn [app number length]; [change (power 0) with 1%N; lia|].
  rewrite IH, power_S. lia.
Qed.

Lemma num_firstn l k : num (firstn (S k) l) = (num (firstn k l) + power k * N.of_nat (nth k l O))%N.
Proof.
  revert k; induction l as [|x l IH]; intros k;
    [destruct k; cbn [firstn number nth N.of_nat]; lia|].
  cbn [firstn number]. destruct k as [|k].
  - change (power 0) with 1%N. cbn [firstn number nth]. lia.
  - rewrite IH. cbn [firstn number nth]. rewrite power_S. lia.
Qed.

Lemma nth_digit l k : all_digits l -> nth k l 0 < 10.
Proof. intros H. revert k; induction H as [|d l Hd _ IH]; intros [|k]; cbn; try lia. apply IH. Qed.

Lemma num_firstn_below l k : all_digits l -> (num (firstn k l) < power k)%N.
Proof.
  intros H. induction k as [|k IH]; [reflexivity|]. rewrite num_firstn, power_S.
  pose proof (nth_digit l k H). nia.
Qed.

Lemma num_below l : all_digits l -> (num l < power (length l))%N.
Proof. intros H. rewrite <- (firstn_all l) at 1. apply num_firstn_below, H. Qed.

Lemma num_zero l k : num l = 0%N -> nth k l 0 = 0.
Proof.
  revert k; induction l as [|d l IH]; intros [|k] H; cbn [number] in H; cbn [nth]; try lia.
  apply IH. lia.
Qed.

(** The top digit. *)
Lemma num_top l k :
  length l = S k -> num l = (num (firstn k l) + power k * N.of_nat (nth k l O))%N.
Proof. intros H. rewrite <- num_firstn, firstn_all2 by lia. reflexivity. Qed.

Lemma digit_le (p u v : N) (a b : nat) :
  (v < p)%N -> (u + p * N.of_nat a <= v + p * N.of_nat b)%N -> a <= b.
Proof.
  intros Hv H. destruct (Nat.le_gt_cases a b) as [|Hgt]; [assumption|exfalso].
  assert (p * (N.of_nat b + 1) <= p * N.of_nat a)%N by (apply N.mul_le_mono_l; lia). lia.
Qed.

Lemma top_le X Y k : length X = S k -> length Y = S k -> all_digits X -> (num Y <= num X)%N ->
  nth k Y 0 <= nth k X 0.
Proof.
  intros HX HY dX H. rewrite (num_top X k HX), (num_top Y k HY) in H.
  apply (digit_le _ _ _ _ _ (num_firstn_below X k dX) H).
Qed.

(** ** Numbers without leading zeros *)

Record plain (l : list nat) : Prop := Plain {
  plain_digits : all_digits l;
  plain_size : 1 <= length l;
  plain_top : length l = 1 \/ nth (length l - 1) l 0 <> 0 }.

Lemma last_nth (l : list nat) : last l 0 = nth (length l - 1) l 0.
Proof.
  destruct l as [|d l] using rev_ind; [reflexivity|]. rewrite last_last, app_length, app_nth2;
    cbn [length]; [|lia]. replace (length l + 1 - 1 - length l) with 0 by lia. reflexivity.
Qed.

Lemma plain_number n : plain (digits 10 n).
Proof.
  split.
  - apply Forall_forall. intros d H. apply digits_below in H; lia.
  - rewrite digits_step by lia. cbn. lia.
  - destruct (N.eq_dec n 0) as [->|Hn]; [left; reflexivity|right]. rewrite <- last_nth. intros H.
    apply Hn, (no_leading_zero 10); [lia|exact H].
Qed.

(** A number without leading zeros is not smaller than a shorter one. *)
Lemma num_large l : length l = 1 \/ nth (length l - 1) l 0 <> 0 -> 1 <= length l ->
  num l <> 0%N -> (power (length l - 1) <= num l)%N.
Proof.
  intros Ht Hs H0. destruct Ht as [Ht|Ht]; [rewrite Ht; change (power (1 - 1)) with 1%N; lia|].
  rewrite (num_top l (length l - 1)) by lia. nia.
Qed.

Lemma plain_shorter X Y : plain X -> plain Y -> (num X < num Y)%N -> length X <= length Y.
Proof.
  intros [dX sX tX] [dY sY tY] H. destruct (N.eq_dec (num X) 0) as [E|Hne].
  - destruct tX as [tX|tX]; [lia|]. exfalso. apply tX, num_zero, E.
  - pose proof (num_large X tX sX Hne). pose proof (num_below Y dY).
    assert (length X - 1 < length Y); [|lia]. apply power_less. lia.
Qed.

(** * Sums, differences and shifts *)

Lemma write_digits e c X Y size :
  (forall k, place_at e c X Y k < 10) -> all_digits (write_row e c X Y size).
Proof.
  intros H. apply Forall_forall. intros d Hd. apply in_map_iff in Hd. destruct Hd as (k & <- & _).
  apply H.
Qed.

Lemma plus_step x y c : x < 10 -> y < 10 -> c <= 1 -> snd (plus_ x y c) <= 1.
Proof.
  intros Hx Hy Hc. cbn [plus_ snd].
  assert ((x + y + c) / 10 < 2) by (apply Nat.div_lt_upper_bound; lia). lia.
Qed.

Lemma carry_plus c X Y k : c <= 1 -> all_digits X -> all_digits Y -> carry_at plus_ c X Y k <= 1.
Proof.
  intros Hc HX HY. induction k as [|k IH]; [exact Hc|]. cbn [carry_at].
  apply plus_step; [apply nth_digit, HX|apply nth_digit, HY|exact IH].
Qed.

Lemma plus_digits c X Y size : all_digits (write_row plus_ c X Y size).
Proof. apply write_digits. intros k. apply Nat.mod_upper_bound. lia. Qed.

Lemma minus_digits c X Y size : all_digits (write_row minus_ c X Y size).
Proof. apply write_digits. intros k. apply Nat.mod_upper_bound. lia. Qed.

Lemma move_digits d X Y size : d < 10 -> all_digits X -> all_digits (write_row move_ d X Y size).
Proof. intros Hd HX. apply write_digits. intros [|k]; [exact Hd|apply nth_digit, HX]. Qed.

Lemma plus_number c X Y size :
  (num (write_row plus_ c X Y size) + power size * N.of_nat (carry_at plus_ c X Y size)
   = num (firstn size X) + num (firstn size Y) + N.of_nat c)%N.
Proof.
  induction size as [|k IH];
    [change (power 0) with 1%N; cbn [write_row seq map number firstn carry_at]; lia|].
  rewrite write_snoc, num_snoc, write_length, !num_firstn, power_S. unfold place_at. cbn [carry_at].
  set (t := carry_at plus_ c X Y k) in *. unfold plus_ in *. cbn [fst snd].
  pose proof (Nat.div_mod_eq (nth k X 0 + nth k Y 0 + t) 10) as E. revert E.
  generalize ((nth k X 0 + nth k Y 0 + t) mod 10) ((nth k X 0 + nth k Y 0 + t) / 10).
  intros u v E. nia.
Qed.

Lemma minus_step x y c : x < 10 -> y < 10 -> c <= 1 ->
  fst (minus_ x y c) + y + c = x + 10 * snd (minus_ x y c) /\ snd (minus_ x y c) <= 1.
Proof.
  intros Hx Hy Hc. unfold minus_. cbn [fst snd].
  pose proof (Nat.div_mod_eq (x + 20 - (y + c)) 10) as E.
  pose proof (Nat.mod_upper_bound (x + 20 - (y + c)) 10 ltac:(lia)) as L. revert E L.
  generalize ((x + 20 - (y + c)) mod 10) ((x + 20 - (y + c)) / 10). intros u v E L.
  destruct (Nat.ltb_spec x (y + c)); lia.
Qed.

Lemma minus_number X Y size : all_digits X -> all_digits Y ->
  (num (write_row minus_ 0 X Y size) + num (firstn size Y)
   = num (firstn size X) + power size * N.of_nat (carry_at minus_ 0 X Y size))%N
  /\ carry_at minus_ 0 X Y size <= 1.
Proof.
  intros HX HY. induction size as [|k [IH Hc]]; [cbn; split; lia|].
  rewrite write_snoc, num_snoc, write_length, !num_firstn, power_S. unfold place_at. cbn [carry_at].
  destruct (minus_step (nth k X 0) (nth k Y 0) _ (nth_digit X k HX) (nth_digit Y k HY) Hc) as [E H].
  split; [|exact H]. nia.
Qed.

(** What is taken from 0. *)
Lemma carry_negate X Y p : carry_at negate_ 0 X Y p = carry_at minus_ 0 [] X p.
Proof. induction p as [|p IH]; [reflexivity|]. cbn [carry_at]. rewrite IH. destruct p; reflexivity.
Qed.

Lemma negate_is X Y size : write_row negate_ 0 X Y size = write_row minus_ 0 [] X size.
Proof. apply map_ext. intros k. unfold place_at. rewrite carry_negate. destruct k; reflexivity. Qed.

Lemma move_number d X Y size :
  num (write_row move_ d X Y (S size)) = (N.of_nat d + 10 * num (firstn size X))%N.
Proof.
  induction size as [|k IH];
    [cbn [write_row map seq number firstn place_at carry_at move_ fst]; lia|].
  rewrite write_snoc, num_snoc, IH, num_firstn, write_length, power_S.
  unfold place_at, move_ at 1. cbn [fst carry_at move_ snd]. lia.
Qed.
