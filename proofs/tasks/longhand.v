(** The calculator: sums, differences, products and quotients of natural numbers, in longhand. *)

From Coq Require Import List Arith NArith ZArith Bool Permutation Lia.
From Carry Require Import Decoding Windows Columns Digits.
From Carry Require Import tasks.longhand_rows tasks.longhand_contexts tasks.longhand_steps.
From Carry Require Import tasks.longhand_numbers tasks.longhand_digits.
Import ListNotations.

(** * The rows that are written; numbers begin with their lowest digit *)

(** A step adds a number; the row is one place longer if there is a carry. *)
Definition add_row (X Y : list nat) : list nat := write_row plus_ 0 X Y (sum_size X Y).
Definition sum_rows (A B : list nat) : list row := [Row (Some 1) (add_row A B) PLUS].

(** A step subtracts a number. A row below 0 lacks its last borrow; a repair takes it from 0. *)
Definition longer (X Y : list nat) : nat := Nat.max (length X) (length Y).
Definition subtract_row (X Y : list nat) : list nat := write_row minus_ 0 X Y (longer X Y).
Definition difference_rows (A B : list nat) : list row :=
  let row := subtract_row A B in
  Row (Some 1) row (minus_sign A B)
  :: if minus_sign A B =? MINUS then [Row (Some 0) (write_row negate_ 0 row B (longer A B)) PLUS] else [].

(** For each digit of the second number, from the top one on, a shift puts a 0 below the row; then
    steps add the first number as often as the digit says. The first shift writes zeros. *)
Fixpoint add_times (Y : list nat) (count times : nat) (X : list nat) (more : list nat -> list row)
    : list row :=
  match times with
  | O => more X
  | S times => let X := add_row X Y in
    Row (Some (S count)) X PLUS :: add_times Y (S count) times X more
  end.
Definition shift_size (X Y : list nat) : nat :=
  match X with [] => length Y | _ => S (length X) end.
Fixpoint product_rows (Y counted X : list nat) : list row :=
  match counted with
  | [] => []
  | d :: counted => let X := write_row move_ 0 X Y (shift_size X Y) in
    Row (Some 0) X PLUS :: add_times Y 0 d X (product_rows Y counted)
  end.

(** For each digit of the first number, from the top one on, a shift puts it below the row; then
    steps subtract the second number until a row is below 0, or nine times. A repair adds it again. *)
Fixpoint subtract_times (Y : list nat) (count times : nat) (X : list nat) (more : list nat -> list row)
    : list row :=
  match times with
  | O => more X
  | S times => let X' := subtract_row X Y in
    Row (Some (S count)) X' (minus_sign X Y)
    :: if minus_sign X Y =? MINUS
       then let X := write_row plus_ 0 X' Y (longer X Y) in Row (Some count) X PLUS :: more X
       else subtract_times Y (S count) times X' more
  end.
Fixpoint quotient_rows (Y counted X : list nat) : list row :=
  match counted with
  | [] => []
  | d :: counted => let X := write_row move_ d X Y (S (length Y)) in
    Row (Some 0) X PLUS :: subtract_times Y 0 9 X (quotient_rows Y counted)
  end.

Record calculation := Calculation {
  operation_of : operation;
  first_number : N;
  second_number : N;
  divisor : operation_of = Quotient -> second_number <> 0%N }.

Definition rows_of (c : calculation) : list row :=
  let A := digits 10 (first_number c) in
  let B := digits 10 (second_number c) in
  match operation_of c with
  | Sum => sum_rows A B
  | Difference => difference_rows A B
  | Product => product_rows A (rev B) []
  | Quotient => quotient_rows B (rev A) []
  end.

(** * Rows in their contexts *)

Lemma nth_error_0 (l : list nat) : 1 <= length l -> nth_error l 0 = Some (nth 0 l 0).
Proof. destruct l; cbn; [lia|reflexivity]. Qed.

Lemma plus_digits c X Y size : c <= 1 -> all_digits X -> all_digits Y -> all_digits (write_row plus_ c X Y size).
Proof.
  intros Hc HX HY. apply Forall_forall. intros d Hd. apply in_map_iff in Hd. destruct Hd as (k & <- & _).
  apply plus_step; [apply nth_digit, HX|apply nth_digit, HY|apply carry_plus; assumption].
Qed.

Lemma minus_digits X Y size : all_digits X -> all_digits Y -> all_digits (write_row minus_ 0 X Y size).
Proof.
  intros HX HY. apply Forall_forall. intros d Hd. apply in_map_iff in Hd. destruct Hd as (k & <- & _).
  apply minus_step; [apply nth_digit, HX|apply nth_digit, HY|apply minus_number; assumption].
Qed.

Lemma move_digits d X Y size : d < 10 -> all_digits X -> all_digits (write_row move_ d X Y size).
Proof.
  intros Hd HX. apply Forall_forall. intros e He. apply in_map_iff in He. destruct He as ([|k] & <- & _);
    [exact Hd|apply nth_digit, HX].
Qed.

(** A row that follows a rule, whose count and sign are in contexts. *)
Lemma rule_row o r first X Y size sign b shifted c z z' next :
  In r (rules_of o) -> digits_of b = X -> all_digits X -> all_digits Y -> 0 < size ->
  (forall p, p < size -> fits r first X Y size sign p) ->
  all_digits (write_row (step r) first X Y size) -> c < 10 -> sign = PLUS \/ sign = MINUS ->
  In (c, count_view (sign_token o) (kind r) (nth_error X 0) (nth_error Y 0) (count b) shifted z z' c,
    fst (step r (nth 0 X 0) (nth 0 Y 0) first)) (count_contexts o) ->
  In (sign, sign_view (sign_token o) (kind r) (count b) shifted (sign_of b) (Some c) z z' sign, next)
    (sign_contexts o) ->
  good_row (sign_token o) Y (contexts_of o) (kind r) b shifted c (write_row (step r) first X Y size) sign z z' next.
Proof.
  intros Hr <- HX HY Hsize Hfit Hdigits Hc Hsign Hcount Hs. split.
  - constructor; assumption.
  - exact Hsign.
  - unfold contexts_of. apply in_or_app. right. apply in_or_app. left.
    destruct size as [|size]; [lia|]. exact Hcount.
  - apply rule_digits; assumption.
  - unfold contexts_of. apply in_or_app. left. exact Hs.
Qed.

Lemma count_view_step t k x y before shifted z z' q : (k =? SHIFT)%Z = false ->
  count_view t k x y before shifted z z' q = count_view t k x y before shifted None None q.
Proof.
  intros H. unfold count_view. rewrite H. apply glimpse_sees. cbn [snd]. unfold count_ids.
  assert (none : forall i t, filter (sees_ [Some (-1)%Z; Some 0%Z; None]) (counted_at i t) = []).
  { intros i [u|]; [|reflexivity]. cbn [counted_at option_list map filter]. unfold sees_. cbn [snd].
    rewrite hidden_counted by discriminate. reflexivity. }
  rewrite !filter_app, !none. reflexivity.
Qed.

Lemma in_step_counts o e k before shifted q fits_ X Y z z' :
  all_digits X -> all_digits Y -> 1 <= length X -> 1 <= length Y -> (k =? SHIFT)%Z = false ->
  fits_ (nth 0 X 0) (nth 0 Y 0) = true ->
  In (q, count_view (sign_token o) k (nth_error X 0) (nth_error Y 0) before shifted z z' q,
    fst (e (nth 0 X 0) (nth 0 Y 0) 0)) (step_counts o e k before shifted q fits_).
Proof.
  intros HX HY H1 H2 Hk Hf. rewrite count_view_step, !nth_error_0 by assumption.
  apply in_flat_map. exists (nth 0 X 0). split; [apply in_ten, nth_digit, HX|].
  apply in_flat_map. exists (nth 0 Y 0). split; [apply in_ten, nth_digit, HY|].
  rewrite Hf. left. reflexivity.
Qed.

(** ** Sums *)

Lemma sum_size_1 X Y : 1 <= length Y -> 0 < sum_size X Y.
Proof. unfold sum_size. lia. Qed.

Lemma sum_chain A B : plain A -> plain B ->
  chain PLUS B (contexts_of Sum) (row_0 PLUS A) false None [] (sum_rows A B).
Proof.
  intros HA HB. destruct (HA) as [dA sA _], (HB) as [dB sB _].
  eapply chain_row; [reflexivity| |constructor].
  apply (rule_row Sum (natural_rule plus_ true) 0 A B); try reflexivity; try assumption.
  - left. reflexivity.
  - apply sum_size_1, sB.
  - apply sum_fits; [assumption..|]. intros p _. apply natural_at, HA.
  - apply plus_digits; auto.
  - lia.
  - left. reflexivity.
  - apply in_step_counts; auto.
  - right. left. reflexivity.
Qed.

(** ** Differences *)

Lemma longer_firstn X Y : firstn (longer X Y) X = X /\ firstn (longer X Y) Y = Y.
Proof. unfold longer. split; apply firstn_all2; lia. Qed.

(** What a row says that is subtracted. *)
Lemma subtract_number X Y : all_digits X -> all_digits Y ->
  if minus_sign X Y =? MINUS then (num (subtract_row X Y) + num Y = num X + power (longer X Y))%N
  else (num (subtract_row X Y) + num Y = num X)%N.
Proof.
  intros HX HY. destruct (minus_number X Y (longer X Y) HX HY) as [E Hc].
  rewrite (proj1 (longer_firstn X Y)), (proj2 (longer_firstn X Y)) in E. fold (subtract_row X Y) in E.
  unfold minus_sign. change (Nat.max (length X) (length Y)) with (longer X Y).
  destruct (carry_at minus_ 0 X Y (longer X Y)) as [|[|c]]; cbn [Nat.eqb]; [| |lia].
  - change (PLUS =? MINUS) with false. cbv iota. lia.
  - change (MINUS =? MINUS) with true. cbv iota. lia.
Qed.

Lemma minus_sign_is X Y : minus_sign X Y = if minus_sign X Y =? MINUS then MINUS else PLUS.
Proof. unfold minus_sign. destruct (_ =? 0); reflexivity. Qed.

Lemma plain_shorter A B : plain A -> plain B -> (num A < num B)%N -> length A <= length B.
Proof.
  intros [dA sA tA] [dB sB tB] H. destruct (N.eq_dec (num A) 0) as [E|Hne].
  - destruct tA as [tA|tA]; [lia|]. exfalso. apply tA, num_zero, E.
  - pose proof (num_large A tA sA Hne) as HA. pose proof (num_below B dB).
    assert (length A - 1 < length B); [|lia]. apply power_le. lia.
Qed.

(** The number of the repaired row. *)
Lemma repaired A B : plain A -> plain B -> minus_sign A B = MINUS ->
  longer A B = length B /\ (num (write_row negate_ 0 (subtract_row A B) B (length B)) + num A = num B)%N
  /\ (num A < num B)%N.
Proof.
  intros HA HB Hs. destruct (HA) as [dA _ _], (HB) as [dB _ _].
  pose proof (subtract_number A B dA dB) as E. rewrite Hs in E. cbn [Nat.eqb MINUS] in E.
  pose proof (num_below _ (minus_digits A B (longer A B) dA dB)) as Hw. rewrite write_length in Hw.
  fold (subtract_row A B) in Hw.
  assert (H : (num A < num B)%N) by lia. pose proof (plain_shorter A B HA HB H).
  assert (Hl : longer A B = length B) by (unfold longer; lia). rewrite Hl in *.
  assert (dr : all_digits (subtract_row A B)) by (apply minus_digits; assumption).
  assert (lr : length (subtract_row A B) = length B) by (unfold subtract_row; rewrite write_length; exact Hl).
  destruct (negate_number (subtract_row A B) B dr (length B) lr) as [En Hc].
  pose proof (num_below B dB). split; [reflexivity|]. split; [|exact H].
  destruct (carry_at negate_ 0 (subtract_row A B) B (length B)) as [|[|c]]; lia.
Qed.

Lemma difference_chain A B : plain A -> plain B ->
  chain MINUS B (contexts_of Difference) (row_0 MINUS A) false None [] (difference_rows A B).
Proof.
  intros HA HB. destruct (HA) as [dA sA _], (HB) as [dB sB _].
  unfold difference_rows. eapply chain_row; [reflexivity| |].
  - apply (rule_row Difference (natural_rule minus_ false) 0 A B); try reflexivity; try assumption.
    + left. reflexivity.
    + unfold longer. lia.
    + apply minus_fits; [assumption..|]. intros p _. apply natural_at, HA.
    + apply minus_digits; assumption.
    + lia.
    + rewrite minus_sign_is. destruct (_ =? _); auto.
    + apply in_or_app. left. apply in_step_counts; auto.
    + rewrite minus_sign_is. destruct (minus_sign A B =? MINUS); cbn [Nat.eqb MINUS]; cbn; auto.
  - destruct (Nat.eqb_spec (minus_sign A B) MINUS) as [Hs|_]; [|constructor].
    destruct (repaired A B HA HB Hs) as (Hl & HD & Hlt). rewrite Hs, Hl.
    eapply chain_row; [reflexivity| |constructor].
    assert (dr : all_digits (subtract_row A B)) by (apply minus_digits; assumption).
    assert (lr : length (subtract_row A B) = length B) by (unfold subtract_row; rewrite write_length; exact Hl).
    apply (rule_row Difference negate_rule 0 (subtract_row A B) B); try reflexivity; try assumption.
    + right. left. reflexivity.
    + intros p Hp. apply negate_fits; [assumption..| |exact Hp]. lia.
    + apply negate_digits, dr.
    + lia.
    + left. reflexivity.
    + apply in_or_app. right. apply in_step_counts; auto. lia.
    + right. right. right. left. reflexivity.
Qed.
