(** Differences, as long as the larger number: [^306-94=455$] is 603 - 49, [^006=995$] is 600 - 1. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits tasks.sums tasks.pairs.
Import ListNotations.
Local Open Scope N_scope.

(** The first number less the others and a borrow. No borrow leaves the highest digit. A context shows
    that a digit is the highest if no number has a next one. *)
Definition lends (c : N) (col next : column) : bool :=
  match col, next with
  | x :: ys, x' :: ys' =>
    is_some x && (is_some x'
      || negb (existsb is_some ys') && (sum_of (map value ys) + c <=? value x))
  | _, _ => false
  end.

Definition difference_rules (form_ : layout) (higher : list window) (count : nat) (borrow : N) : rules := {|
  form := form_;
  more_windows := higher;
  write d := d;
  state := N;
  initial := borrow;
  after c col := if value (hd None col) <? sum_of (map value (tl col)) + c then 1 else 0;
  out c col := match hd None col with
    | Some d => Some (N.to_nat ((N.of_nat d + 20 - (sum_of (map value (tl col)) + c)) mod 10))
    | None => None end;
  starts := lowest_columns 10 count;
  lowest := filter (fun cc => lends borrow (fst cc) (snd cc)) (near_columns 10 true count);
  later := flat_map (fun c => map (fun cc => (c, fst cc, snd cc))
    (filter (fun cc => lends c (fst cc) (snd cc)) (near_columns 10 false count))) [0; 1] |}.

(** The digits of a number at so many places. *)
Definition padded (n : N) (size : nat) : list token := map (fun k => N.to_nat (digit n k)) (seq 0 size).

Lemma borrow_arithmetic x y c : x < 10 -> y <= 9 -> c <= 1 ->
  (x + y + c) / 10 = if (x + y + c) mod 10 <? y + c then 1 else 0.
Proof.
  intros Hx Hy Hc. pose proof (N.div_mod (x + y + c) 10 ltac:(discriminate)) as E.
  pose proof (N.mod_lt (x + y + c) 10 ltac:(discriminate)) as L. revert E L.
  generalize ((x + y + c) / 10) ((x + y + c) mod 10). intros u v E L.
  destruct (N.ltb_spec v (y + c)); lia.
Qed.

Lemma digit_arithmetic x y c : x < 10 -> y <= 9 -> c <= 1 ->
  ((x + y + c) mod 10 + 20 - (y + c)) mod 10 = x.
Proof.
  intros Hx Hy Hc. pose proof (N.div_mod (x + y + c) 10 ltac:(discriminate)) as E.
  pose proof (N.mod_lt (x + y + c) 10 ltac:(discriminate)) as L. revert E L.
  generalize ((x + y + c) / 10) ((x + y + c) mod 10). intros u v E L.
  replace (v + 20 - (y + c)) with (x + (2 - u) * 10) by lia.
  rewrite N.mod_add by discriminate. apply N.mod_small, Hx.
Qed.

Section Problem.
  Variables (form_ : layout) (higher : list window) (a : N) (bs : list N) (borrow d : N).
  Hypothesis few : (length bs <= 1)%nat.
  Hypothesis borrow_1 : borrow <= 1.
  Hypothesis difference : a = d + (sum_of bs + borrow).
  Hypothesis as_many : length (others form_) = length bs.
  Hypothesis signs : Forall (fun s => (10 <= sign s)%nat) (others form_ ++ [answer_segment form_]).
  Let r := difference_rules form_ higher (S (length bs)) borrow.
  Let numbers := map (digits 10) (a :: bs).
  Let at_ (k : nat) (n : N) := n / 10 ^ N.of_nat k.

  Lemma numbers_at k : column_of numbers k = map (fun n => digit_at 10 (k =? 0)%nat (at_ k n)) (a :: bs).
  Proof.
    unfold numbers, column_of. rewrite map_map. apply map_ext. intros n. apply nth_digits. discriminate.
  Qed.

  Lemma values_of_others k : map value (tl (column_of numbers k)) = map (fun n => at_ k n mod 10) bs.
  Proof.
    rewrite numbers_at. cbn [map tl]. rewrite map_map. apply map_ext. intros n. apply value_low. discriminate.
  Qed.

  Lemma others_below k : sum_of (map (fun n => at_ k n mod 10) bs) <= 9.
  Proof.
    destruct bs as [|b [|? ?]]; cbn [map sum_of fold_right length] in *; try lia.
    pose proof (N.mod_lt (at_ k b) 10 ltac:(discriminate)) as H. revert H.
    generalize (at_ k b mod 10). lia.
  Qed.

  Lemma digit_of_first k : at_ k a = at_ k d + (sum_of (map (at_ k) bs) + state_at r numbers k)
      /\ state_at r numbers k <= 1 ->
    at_ k a mod 10
    = (at_ k d mod 10 + sum_of (map (fun n => at_ k n mod 10) bs) + state_at r numbers k) mod 10.
  Proof.
    intros [-> _]. rewrite N.add_assoc.
    pose proof (sum_of_mod 10 ltac:(discriminate) (at_ k d :: map (at_ k) bs) (state_at r numbers k)) as H.
    cbn [map sum_of fold_right] in H. rewrite map_map in H. symmetry. exact H.
  Qed.

  (** The borrow from a place is the carry of the sum of the difference and the others. *)
  Lemma borrow_at k : at_ k a = at_ k d + (sum_of (map (at_ k) bs) + state_at r numbers k)
    /\ state_at r numbers k <= 1.
  Proof.
    induction k as [|k [IH Hc]].
    - unfold at_. change (10 ^ N.of_nat 0) with 1. rewrite !N.div_1_r. cbn [state_at r difference_rules initial].
      split; [|exact borrow_1]. rewrite difference. do 2 f_equal. rewrite <- (map_id bs) at 1.
      f_equal. apply map_ext. intros n. symmetry. apply N.div_1_r.
    - cbn [state_at]. set (c := state_at r numbers k) in *. cbn [r difference_rules after].
      rewrite values_of_others, numbers_at. cbn [map hd]. rewrite value_low by discriminate.
      pose proof (others_below k) as Ho. split; [|destruct (_ <? _); lia].
      assert (next : forall n, at_ (S k) n = at_ k n / 10) by (intros n; apply next_quotient; discriminate).
      rewrite !next, (map_ext _ _ next), IH.
      replace (at_ k d + (sum_of (map (at_ k) bs) + c)) with (sum_of (at_ k d :: map (at_ k) bs) + c)
        by (cbn [sum_of fold_right]; fold (sum_of (map (at_ k) bs)); lia).
      rewrite sum_of_div by discriminate. cbn [map sum_of fold_right]. rewrite !map_map.
      fold (sum_of (map (fun n => at_ k n / 10) bs)) (sum_of (map (fun n => at_ k n mod 10) bs)).
      set (o := sum_of (map (fun n => at_ k n mod 10) bs)) in *.
      fold (sum_of (map (at_ k) bs)). enough ((at_ k d mod 10 + o + c) / 10
        = if (at_ k d + sum_of (map (at_ k) bs) + c) mod 10 <? o + c then 1 else 0) as -> by (rewrite N.add_assoc; reflexivity).
      rewrite <- (N.add_assoc (at_ k d)), <- IH, (digit_of_first k (conj IH Hc)).
      apply borrow_arithmetic; [apply N.mod_lt; discriminate|exact Ho|exact Hc].
  Qed.

  Let size := length (digits 10 a).

  Lemma first_digit k : (k < size)%nat -> nth_error (digits 10 a) k = Some (N.to_nat (at_ k a mod 10)).
  Proof.
    intros H. apply nth_error_Some in H. rewrite nth_digits in * by discriminate.
    revert H. unfold digit_at. destruct ((k =? 0)%nat || (1 <=? a / 10 ^ N.of_nat k)); [reflexivity|congruence].
  Qed.

  Lemma writes_difference k : (k <= size)%nat ->
    nth_error (padded d size) k = out r (state_at r numbers k) (column_of numbers k).
  Proof.
    intros Hk. unfold padded. rewrite nth_error_map. cbn [r difference_rules out].
    replace (hd None (column_of numbers k)) with (nth_error (digits 10 a) k) by reflexivity.
    destruct (Nat.eq_dec k size) as [->|Hne].
    - rewrite (proj2 (nth_error_None (digits 10 a) size)) by reflexivity.
      rewrite (proj2 (nth_error_None _ _)) by (rewrite seq_length; lia). reflexivity.
    - rewrite first_digit, (nth_error_nth' _ 0%nat), seq_nth by (rewrite ?seq_length; lia).
      cbn [option_map plus]. rewrite N2Nat.id. do 2 f_equal. unfold digit. fold (at_ k d).
      rewrite (digit_of_first k (borrow_at k)), values_of_others.
      symmetry. apply digit_arithmetic; [apply N.mod_lt; discriminate|apply others_below|apply borrow_at].
  Qed.

  Lemma lends_so k : (k < size)%nat ->
    lends (state_at r numbers k) (column_of numbers k) (column_of numbers (S k)) = true.
  Proof.
    intros Hk. unfold lends, numbers, column_of. cbn [map]. fold (column_of (map (digits 10) bs) k).
    rewrite first_digit by exact Hk. cbn [is_some andb]. fold numbers.
    destruct (nth_error (digits 10 a) (S k)) as [e|] eqn:E; [reflexivity|]. cbn [is_some orb].
    rewrite nth_digits in E by discriminate. unfold digit_at in E. cbn [Nat.eqb orb] in E.
    destruct (borrow_at (S k)) as [H _].
    fold (at_ (S k) a) in E. destruct (N.leb_spec 1 (at_ (S k) a)) as [|Ha]; [discriminate|].
    apply N.lt_1_r in Ha.
    rewrite Ha in H. cbn [state_at] in H. revert H. set (c := state_at r numbers k).
    cbn [r difference_rules after].
    replace (hd None (column_of numbers k)) with (nth_error (digits 10 a) k) by reflexivity.
    rewrite first_digit by exact Hk.
    replace (tl (column_of numbers k)) with (column_of (map (digits 10) bs) k) by reflexivity. intros H.
    apply andb_true_iff. split.
    - apply negb_true_iff, not_true_is_false. intros He. apply existsb_exists in He.
      destruct He as (x & Hx & Hs). rewrite map_map in Hx. apply in_map_iff in Hx.
      destruct Hx as (b & <- & Hb). rewrite nth_digits in Hs by discriminate. unfold digit_at in Hs.
      cbn [Nat.eqb orb] in Hs. fold (at_ (S k) b) in Hs. destruct (N.leb_spec 1 (at_ (S k) b)) as [H1|]; [|discriminate].
      destruct bs as [|b' [|? ?]]; cbn in Hb, few; [tauto| |lia]. destruct Hb as [->|[]].
      cbn [map sum_of fold_right] in H. lia.
    - subst c. unfold numbers in H. cbn [map] in H. apply N.leb_le.
      match type of H with context [?v <? ?t] => destruct (N.ltb_spec v t) as [|Hle] end; [lia|exact Hle].
  Qed.

  Lemma difference_follows : follows r numbers (padded d size).
  Proof.
    assert (Hl : length (padded d size) = size) by (unfold padded; rewrite map_length, seq_length; reflexivity).
    split.
    - cbn [r difference_rules form]. rewrite as_many. unfold numbers. rewrite map_length. reflexivity.
    - intros n e s Hn He Hs. apply in_map_iff in Hn. destruct Hn as (m & <- & _).
      apply digits_below in He; [|discriminate]. rewrite Forall_forall in signs. apply signs in Hs.
      cbn [r difference_rules write]. lia.
    - intros k Hk. rewrite Hl in Hk. apply writes_difference, Hk.
    - apply (in_lowest_columns 10 ltac:(discriminate) (a :: bs)).
    - intros k Hk. rewrite Hl in Hk. pose proof (in_near_columns 10 ltac:(discriminate) (a :: bs) k) as H.
      pose proof (lends_so k Hk) as L. destruct k as [|k]; cbn [Nat.eqb] in *.
      + apply filter_In. split; [exact H|exact L].
      + apply in_flat_map. exists (state_at r numbers (S k)). split.
        * destruct (borrow_at (S k)) as [_ Hc]. revert Hc. generalize (state_at r numbers (S k)).
          cbn [r difference_rules state In]. lia.
        * apply in_map_iff. eexists. split; [|apply filter_In; split; [exact H|exact L]]. reflexivity.
  Qed.
End Problem.

Lemma padded_no_end d size : ~ In END (padded d size).
Proof.
  intros H. apply in_map_iff in H. destruct H as (k & E & _). unfold digit, END in E.
  pose proof (N.mod_lt (d / 10 ^ N.of_nat k) 10 ltac:(discriminate)) as L. revert E L.
  generalize ((d / 10 ^ N.of_nat k) mod 10). lia.
Qed.

(** Two numbers, the first not smaller. *)
Record ordered_pair := Ordered { minuend : N; subtrahend : N; ordered : subtrahend <= minuend }.
Record positive_number := Positive { number_of : N; is_positive : 1 <= number_of }.

Definition subtraction : task.
Proof.
  refine (columns_task (difference_rules two_levels [(2, 0)%Z] 2 0) ordered_pair
    (fun p => map (digits 10) [minuend p; subtrahend p])
    (fun p => padded (minuend p - subtrahend p) (length (digits 10 (minuend p)))) _ eq_refl
    (fun _ => padded_no_end _ _) _); [repeat constructor; cbn; lia|].
  intros [h l o]. apply (difference_follows two_levels _ h [l] 0); cbn; try lia; try reflexivity.
  repeat constructor; cbn; unfold LESS, EQUALS; lia.
Defined.

Definition decrement : task.
Proof.
  refine (columns_task (difference_rules (form (sum_rules 10 false 1 1)) [] 1 1) positive_number
    (fun n => [digits 10 (number_of n)]) (fun n => padded (number_of n - 1) (length (digits 10 (number_of n)))) _ eq_refl
    (fun _ => padded_no_end _ _) _); [repeat constructor|].
  intros [n p]. apply (difference_follows (form (sum_rules 10 false 1 1)) _ n [] 1); cbn; try lia; try reflexivity.
  repeat constructor; cbn; unfold EQUALS; lia.
Defined.
