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

(** ** Products *)

Lemma add_number X Y : all_digits X -> all_digits Y -> num (add_row X Y) = (num X + num Y)%N.
Proof.
  intros HX HY. unfold add_row. pose proof (plus_number 0 X Y (sum_size X Y)) as E.
  rewrite !(firstn_all2 (n := sum_size X Y)) in E by (unfold sum_size; lia).
  assert (carry_at plus_ 0 X Y (sum_size X Y) = 0) as Hc; [|rewrite Hc in E; lia].
  unfold sum_size. set (m := Nat.max (length X) (length Y)).
  pose proof (carry_plus 0 X Y m ltac:(lia) HX HY).
  destruct (carry_at plus_ 0 X Y m) as [|[|c]] eqn:Ec; [rewrite Nat.add_0_r; exact Ec| |lia].
  rewrite Nat.add_1_r. cbn [carry_at]. rewrite Ec, !beyond by (unfold m; lia). reflexivity.
Qed.

Lemma add_digits X Y : all_digits X -> all_digits Y -> all_digits (add_row X Y).
Proof. intros HX HY. apply plus_digits; auto. Qed.

Lemma add_length X Y : length (add_row X Y) = sum_size X Y.
Proof. apply write_length. Qed.

(** A row after a step. *)
Lemma product_row_add X Y : all_digits X -> plain Y -> product_row X Y -> product_row (add_row X Y) Y.
Proof.
  intros HX HY HP. pose proof (product_length X Y HX HY HP) as Hl. destruct (HY) as [dY sY tY].
  pose proof (add_number X Y HX dY) as E.
  assert (Hm : Nat.max (length X) (length Y) = length X) by lia.
  pose proof (add_length X Y) as L. unfold sum_size in L. rewrite Hm in L.
  pose proof (carry_plus 0 X Y (length X) ltac:(lia) HX dY) as Hc.
  destruct (N.eq_dec (num (add_row X Y)) 0) as [E0|Hne].
  - destruct HP as (Hs & [[H0 HP]|[Ht HP]]).
    + split; [lia|]. left. split; [exact E0|]. right.
      destruct tY as [tY|tY]; [|exfalso; apply tY, num_zero; lia].
      split; [exact tY|apply num_zero; lia].
    + exfalso. apply Ht, num_zero. lia.
  - split; [lia|]. right. split; [|lia]. intros Ht.
    assert (Hsmall : (num (add_row X Y) < power (length (add_row X Y) - 1))%N).
    { rewrite (num_top _ (length (add_row X Y) - 1)) by lia. rewrite Ht.
      pose proof (num_firstn_below _ (length (add_row X Y) - 1) (add_digits X Y HX dY)). lia. }
    rewrite L in Hsmall. destruct HP as (Hs & HP).
    pose proof (plus_number 0 X Y (length X)) as EX. rewrite !firstn_all2 in EX by lia.
    destruct (carry_at plus_ 0 X Y (length X)) as [|[|c]] eqn:Ec; [| |lia].
    + rewrite Nat.add_0_r in Hsmall. destruct HP as [[H0 [HP|[HP HY0]]]|[Ht' HP]].
      * rewrite HP in Hsmall. assert (num Y <> 0%N) as Hy by lia. pose proof (num_large Y tY sY Hy). lia.
      * rewrite (num_top Y 0 HP), HY0 in E. cbn in E. lia.
      * assert (num X <> 0%N) as Hx by (intros H0; apply Ht', num_zero, H0).
        pose proof (num_large X (or_intror Ht') Hs Hx). lia.
    + replace (length X + 1 - 1) with (length X) in Hsmall by lia. lia.
Qed.

(** A row after a shift. *)
Lemma move_number d X Y size : num (write_row move_ d X Y (S size)) = (N.of_nat d + 10 * num (firstn size X))%N.
Proof.
  induction size as [|k IH]; [cbn [write_row map seq number firstn place_at carry_at move_ fst]; lia|].
  rewrite write_snoc, num_snoc, IH, num_firstn, write_length, power_S.
  unfold place_at, move_ at 1. cbn [fst carry_at move_ snd]. lia.
Qed.

Lemma move_nth X Y size k : k < size -> nth (S k) (write_row move_ 0 X Y (S size)) 0 = nth k X 0.
Proof. intros H. rewrite write_nth by lia. reflexivity. Qed.

Lemma shift_number X Y : num (write_row move_ 0 X Y (shift_size X Y)) = (10 * num X)%N.
Proof.
  destruct X as [|x X].
  - cbn [shift_size]. destruct (length Y); [reflexivity|]. rewrite move_number, firstn_nil. reflexivity.
  - change (shift_size (x :: X) Y) with (S (length (x :: X))). rewrite move_number, firstn_all. lia.
Qed.

Lemma product_row_shift X Y : all_digits X -> 1 <= length X -> product_row X Y -> (num X <> 0 \/ num Y = 0)%N -> plain Y ->
  product_row (write_row move_ 0 X Y (S (length X))) Y.
Proof.
  intros HX Hs HP Hne [dY sY tY]. pose proof (move_number 0 X Y (length X)) as E. rewrite firstn_all in E.
  unfold product_row. rewrite write_length. split; [lia|]. destruct HP as (_ & [[H0 HP]|[Ht HP]]).
  - left. split; [lia|]. right. destruct Hne as [Hne|Hne]; [lia|].
    destruct tY as [tY|tY]; [|exfalso; apply tY, num_zero, Hne]. split; [exact tY|apply num_zero, Hne].
  - right. split; [|lia]. replace (S (length X) - 1) with (S (length X - 1)) by lia.
    rewrite move_nth by lia. exact Ht.
Qed.

Lemma product_row_first Y : plain Y -> product_row (write_row move_ 0 [] Y (length Y)) Y.
Proof.
  intros [dY sY tY]. split; [rewrite write_length; exact sY|]. left. split.
  - exact (shift_number [] Y).
  - left. apply write_length.
Qed.

Definition next_or_end (counted : list nat) : token := match counted with [] => END | _ => 0 end.

Lemma shift_or_end_is counted : shift_or_end (hd_error counted) = next_or_end counted.
Proof. destruct counted; reflexivity. Qed.

Lemma in_nine n : In n nine <-> 1 <= n < 10.
Proof. unfold nine. rewrite in_seq. lia. Qed.

Lemma in_digits counted : all_digits counted -> In (hd_error counted) (maybe ten).
Proof.
  intros H. apply in_maybe. intros a E. destruct H as [|d l Hd _]; [discriminate|]. injection E as <-.
  apply in_ten, Hd.
Qed.

Lemma lowest_sum X Y n : 1 <= length X -> nth 0 X 0 = n * nth 0 Y 0 mod 10 ->
  nth 0 (add_row X Y) 0 = S n * nth 0 Y 0 mod 10.
Proof.
  intros Hs H. unfold add_row. rewrite write_nth by (unfold sum_size; lia).
  unfold place_at. cbn [carry_at plus_ fst]. rewrite H, Nat.add_0_r, Nat.add_mod_idemp_l by lia.
  f_equal. lia.
Qed.

(** The signs of products and quotients. *)
Lemma in_digit_signs {A} (f : nat -> option nat -> list A) z counted x : z < 10 -> all_digits counted ->
  In x (f z (hd_error counted)) -> In x (flat_map (fun z => flat_map (f z) (maybe ten)) ten).
Proof.
  intros Hz Hc H. apply in_flat_map. exists z. split; [apply in_ten, Hz|]. apply in_flat_map.
  eexists. split; [apply in_digits, Hc|exact H].
Qed.

Lemma add_chain Y counted d start more : plain Y -> all_digits counted -> d < 10 ->
  (forall X, all_digits X -> product_row X Y -> nth 0 X 0 = d * nth 0 Y 0 mod 10 ->
     num X = (start + N.of_nat d * num Y)%N ->
     chain TIMES Y (contexts_of Product) (Row (Some d) X PLUS) (d =? 0) (Some d) counted (more X)
     /\ hd END (response (more X)) = next_or_end counted) ->
  forall times n X, n + times = d -> all_digits X -> product_row X Y -> nth 0 X 0 = n * nth 0 Y 0 mod 10 ->
  num X = (start + N.of_nat n * num Y)%N ->
  chain TIMES Y (contexts_of Product) (Row (Some n) X PLUS) (n =? 0) (Some d) counted (add_times Y n times X more)
  /\ hd END (response (add_times Y n times X more)) = if n <? d then S n else next_or_end counted.
Proof.
  intros HY Hcounted Hd Hmore. destruct (HY) as [dY sY tY].
  induction times as [|times IH]; intros n X Hn HX HP Hlow Hnum.
  - rewrite Nat.add_0_r in Hn. subst n. cbn [add_times]. rewrite Nat.ltb_irrefl. apply Hmore; assumption.
  - cbn [add_times]. destruct (Nat.ltb_spec n d) as [Hlt|]; [|lia]. split; [|reflexivity].
    assert (Hs : 1 <= length X) by apply HP.
    destruct (IH (S n) (add_row X Y)) as [C E].
    + lia.
    + apply add_digits; assumption.
    + apply product_row_add; assumption.
    + apply lowest_sum; assumption.
    + rewrite add_number by assumption. lia.
    + eapply chain_row; [reflexivity| |exact C].
      change (present _ (Some d) counted) with (Some d). change (following _ counted) with counted.
      change (kind_of _ _) with STEP. rewrite E.
      apply (rule_row Product (sum_rule STEP plus_ product_near true) 0 X Y); try reflexivity; try assumption.
      * right. right. left. reflexivity.
      * apply sum_size_1, sY.
      * intros p Hp. apply product_step_fits; assumption.
      * apply plus_digits; auto.
      * lia.
      * left. reflexivity.
      * apply in_or_app. left. apply in_flat_map. exists (S n). split; [apply in_nine; lia|].
        cbn [count]. replace (S n - 1) with n by lia.
        change (S n =? 1) with (n =? 0). apply in_step_counts; auto. apply Nat.eqb_eq. exact Hlow.
      * apply in_or_app. right. apply in_digit_signs with (z := d) (counted := counted); [assumption..|].
        apply in_or_app. right. apply in_flat_map. exists (S n). split; [apply in_nine; lia|].
        destruct (Nat.leb_spec (S n) d); [|lia]. left. cbn [count sign_of kind sum_rule].
        unfold sign_context. replace (S n - 1) with n by lia. change (S n =? 1) with (n =? 0).
        rewrite shift_or_end_is, Nat.add_1_r. reflexivity.
Qed.

Lemma in_shift_counts o x y before shifted fits_ z counted : z < 10 -> all_digits counted ->
  fits_ z (hd_error counted) = true ->
  In (0, count_view (sign_token o) SHIFT x y before shifted (Some z) (hd_error counted) 0,
    match o with Quotient => z | _ => 0 end) (shift_counts o x y before shifted fits_).
Proof.
  intros Hz Hc Hf. apply in_flat_map. exists z. split; [apply in_ten, Hz|].
  apply in_flat_map. eexists. split; [apply in_digits, Hc|]. rewrite Hf. left. reflexivity.
Qed.

(** The sign of a shift is not seen by the sign of the next one. *)
Lemma sign_view_shift t before shifted s s' c z z' q :
  sign_view t SHIFT before shifted s c z z' q = sign_view t SHIFT before shifted s' c z z' q.
Proof. destruct c, z, z', before, shifted; reflexivity. Qed.

Lemma product_shift_sign d counted n : d < 10 -> all_digits counted -> n < 10 ->
  In (PLUS, sign_view TIMES SHIFT (Some n) (n =? 0) PLUS (Some 0) (Some d) (hd_error counted) PLUS,
    if 0 <? d then 1 else next_or_end counted) (sign_contexts Product).
Proof.
  intros Hd Hc Hn. apply in_or_app. right. apply in_digit_signs with (z := d) (counted := counted); [assumption..|].
  apply in_or_app. left. apply in_flat_map. exists (Some n). split; [apply in_maybe; intros a E; injection E as <-; apply in_ten, Hn|].
  cbn [is_some orb]. left. unfold sign_context. rewrite shift_or_end_is. destruct n; reflexivity.
Qed.

Lemma product_chain Y : plain Y -> forall counted X n z, all_digits counted -> all_digits X -> product_row X Y ->
  (counted <> [] -> (num X <> 0 \/ num Y = 0)%N) -> n < 10 -> nth 0 X 0 = n * nth 0 Y 0 mod 10 ->
  chain TIMES Y (contexts_of Product) (Row (Some n) X PLUS) (n =? 0) z counted (product_rows Y counted X)
  /\ hd END (response (product_rows Y counted X)) = next_or_end counted.
Proof.
  intros HY. destruct (HY) as [dY sY tY].
  induction counted as [|d counted IH]; intros X n z Hcounted HX HP Hne Hn Hlow; [split; [constructor|reflexivity]|].
  split; [|reflexivity]. inversion Hcounted as [|? ? Hd Hcounted']. subst.
  assert (Hs : 1 <= length X) by apply HP. specialize (Hne ltac:(discriminate)).
  cbn [product_rows]. replace (shift_size X Y) with (S (length X)) by (destruct X; [cbn in Hs; lia|reflexivity]).
  pose proof (move_number 0 X Y (length X)) as E'. rewrite firstn_all in E'.
  destruct (add_chain Y counted d (10 * num X) (product_rows Y counted) HY Hcounted' Hd)
    with (times := d) (n := 0) (X := write_row move_ 0 X Y (S (length X))) as [C E].
  - intros X'' dX pX lX nX. apply IH; try assumption. intros _. lia.
  - lia.
  - apply move_digits; [lia|exact HX].
  - apply product_row_shift; assumption.
  - reflexivity.
  - lia.
  - eapply chain_row; [reflexivity| |exact C].
    change (present _ z (d :: counted)) with (Some d). change (following _ (d :: counted)) with counted.
    change (kind_of _ _) with SHIFT. rewrite E.
    apply (rule_row Product product_shift 0 X Y); try reflexivity; try assumption.
    + right. left. reflexivity.
    + lia.
    + intros p Hp. apply product_shift_fits; assumption.
    + apply move_digits; [lia|exact HX].
    + lia.
    + left. reflexivity.
    + apply in_or_app. right. apply in_flat_map. exists (nth 0 Y 0). split; [apply in_ten, nth_digit, dY|].
      apply in_or_app. right. apply in_flat_map. exists n. split; [apply in_ten, Hn|].
      rewrite !nth_error_0, Hlow by assumption. apply (in_shift_counts Product); auto.
    + apply product_shift_sign; assumption.
Qed.

(** The top digit of a number, which counts first, is not 0 if there is another one. *)
Lemma leads_rev A d counted : plain A -> rev A = d :: counted -> d < 10 /\ all_digits counted /\ leads_number d (hd_error counted) = true.
Proof.
  intros [dA sA tA] E. assert (HA : A = rev counted ++ [d]) by (rewrite <- (rev_involutive A), E; reflexivity).
  assert (dr : all_digits (d :: counted)) by (rewrite <- E; apply Forall_rev, dA).
  inversion dr as [|? ? Hd Hc]. subst. split; [exact Hd|]. split; [exact Hc|].
  unfold leads_number. destruct counted as [|e counted]; [apply orb_true_r|]. apply orb_true_iff. left.
  apply Nat.ltb_lt. rewrite app_length, rev_length in tA. cbn [length] in tA.
  destruct tA as [tA|tA]; [lia|]. rewrite app_nth2 in tA; rewrite rev_length in *; cbn [length] in *; [|lia].
  replace (S (length counted) + 1 - 1 - S (length counted)) with 0 in tA by lia. cbn in tA. lia.
Qed.

Lemma product_all A B : plain A -> plain B ->
  chain TIMES A (contexts_of Product) (row_0 TIMES A) false None (rev B) (product_rows A (rev B) [])
  /\ In (EQUALS, glimpse windows_ (TIMES, []) (counted_at 1 (nth_error (rev B) 0)) (EQUALS, sign_ids_ 0 0),
       hd END (response (product_rows A (rev B) []))) (contexts_of Product).
Proof.
  intros HA HB. destruct (rev B) as [|d counted] eqn:EB.
  { destruct HB as [_ sB _]. rewrite <- rev_length, EB in sB. cbn in sB. lia. }
  destruct (leads_rev B d counted HB EB) as (Hd & Hc & Hlead). destruct (HA) as [dA sA tA]. split.
  2:{ apply in_or_app. left. apply in_or_app. left. apply in_map_iff. exists d. split; [reflexivity|apply in_ten, Hd]. }
  cbn [product_rows shift_size].
  destruct (add_chain A counted d 0 (product_rows A counted) HA Hc Hd)
    with (times := d) (n := 0) (X := write_row move_ 0 [] A (length A)) as [C E].
  - intros X dX pX lX nX. apply product_chain; try assumption. intros Hne.
    destruct counted as [|e counted]; [congruence|]. unfold leads_number in Hlead.
    rewrite orb_false_r in Hlead. apply Nat.ltb_lt in Hlead. destruct (N.eq_dec (num A) 0); [auto|left]. nia.
  - lia.
  - apply move_digits; [lia|constructor].
  - apply product_row_first, HA.
  - rewrite write_nth by lia. reflexivity.
  - exact (shift_number [] A).
  - eapply chain_row; [reflexivity| |exact C].
    change (present _ None (d :: counted)) with (Some d). change (following _ (d :: counted)) with counted.
    change (kind_of _ _) with SHIFT. rewrite E.
    apply (rule_row Product (first_rule false) 0 [] A); try reflexivity; try assumption.
    + left. reflexivity.
    + constructor.
    + intros p Hp. apply (first_fits A HA false); [lia|auto|exact Hp].
    + apply move_digits; [lia|constructor].
    + lia.
    + left. reflexivity.
    + apply in_or_app. right. apply in_flat_map. exists (nth 0 A 0). split; [apply in_ten, nth_digit, dA|].
      apply in_or_app. left. rewrite (nth_error_0 A) by exact sA. apply (in_shift_counts Product); auto.
    + apply in_or_app. right. apply in_digit_signs with (z := d) (counted := counted); [assumption..|].
      apply in_or_app. left. apply in_flat_map. exists None. split; [left; reflexivity|].
      rewrite Hlead. left. unfold sign_context. rewrite shift_or_end_is. cbn [count kind first_rule sign_of row_0].
      rewrite (sign_view_shift _ _ _ PLUS EQUALS). reflexivity.
Qed.

(** ** Quotients *)

Section Quotient.
  Variable Y : list nat.
  Hypothesis plain_Y : plain Y.
  Hypothesis nonzero : num Y <> 0%N.
  Let size := S (length Y).

  (** A step, and a repair. *)
  Lemma quotient_subtract X : all_digits X -> length X = size -> (num X < 10 * num Y)%N ->
    let X' := subtract_row X Y in
    all_digits X' /\ length X' = size /\
    if minus_sign X Y =? MINUS then
      (num X < num Y)%N /\ (power size <= num X' + num Y)%N
      /\ all_digits (write_row plus_ 0 X' Y size) /\ num (write_row plus_ 0 X' Y size) = num X
    else (num X' + num Y = num X)%N.
  Proof.
    intros dX lX Hlt. cbv zeta. destruct (plain_Y) as [dY sY tY].
    assert (dX' : all_digits (subtract_row X Y)) by (apply minus_digits; assumption).
    assert (Hl : longer X Y = size) by (unfold longer, size in *; lia).
    assert (lX' : length (subtract_row X Y) = size) by (unfold subtract_row; rewrite write_length; exact Hl).
    pose proof (subtract_number X Y dX dY) as E. rewrite Hl in E.
    split; [exact dX'|]. split; [exact lX'|]. destruct (minus_sign X Y =? MINUS); [|exact E].
    pose proof (num_below _ dX') as Hw. rewrite lX' in Hw.
    assert (dr : all_digits (write_row plus_ 0 (subtract_row X Y) Y size)) by (apply plus_digits; auto).
    split; [lia|]. split; [lia|]. split; [exact dr|].
    pose proof (plus_number 0 (subtract_row X Y) Y size) as E'.
    rewrite !(firstn_all2 (n := size)) in E' by (unfold size in *; lia).
    pose proof (num_below _ dr) as Hr. rewrite write_length in Hr.
    assert (Hsmall : (num X < power size)%N).
    { pose proof (num_below Y dY). unfold size. rewrite power_S. lia. }
    pose proof (carry_plus 0 (subtract_row X Y) Y size ltac:(lia) dX' dY).
    destruct (carry_at plus_ 0 (subtract_row X Y) Y size) as [|[|c]]; lia.
  Qed.

  Lemma quotient_move d X : X = [] \/ length X = size -> (num X < num Y)%N ->
    num (write_row move_ d X Y size) = (N.of_nat d + 10 * num X)%N.
  Proof.
    intros [-> | lX] Hlt; [unfold size; rewrite move_number, firstn_nil; reflexivity|]. unfold size. rewrite move_number, (num_top X (length Y) lX).
    rewrite (num_top X (length Y) lX) in Hlt. pose proof (num_below Y (plain_digits Y plain_Y)).
    assert (N.of_nat (nth (length Y) X 0%nat) = 0)%N as -> by nia. lia.
  Qed.

  Lemma subtract_chain z counted more : z < 10 -> all_digits counted ->
    (forall n X, n < 10 -> all_digits X -> length X = size -> (num X < num Y)%N ->
       chain OVER Y (contexts_of Quotient) (Row (Some n) X PLUS) false (Some z) counted (more X)
       /\ hd END (response (more X)) = next_or_end counted) ->
    forall times n X, n + times = 9 -> all_digits X -> length X = size ->
    (num X < N.of_nat (S times) * num Y)%N ->
    chain OVER Y (contexts_of Quotient) (Row (Some n) X PLUS) (n =? 0) (Some z) counted (subtract_times Y n times X more)
    /\ hd END (response (subtract_times Y n times X more)) = if n <? 9 then S n else next_or_end counted.
  Proof.
    intros Hz Hcounted Hmore. destruct (plain_Y) as [dY sY tY].
    induction times as [|times IH]; intros n X Hn dX lX Hlt.
    - rewrite Nat.add_0_r in Hn. subst n. apply Hmore; auto. lia.
    - assert (Hl : longer X Y = size) by (unfold longer, size in *; lia).
      assert (H10 : (num X < 10 * num Y)%N) by nia.
      destruct (quotient_subtract X dX lX H10) as (dX' & lX' & HX'). cbn [subtract_times].
      destruct (Nat.ltb_spec n 9) as [H9|]; [|lia]. split; [|reflexivity].
      assert (good : forall next, In (minus_sign X Y, sign_view OVER STEP (Some n) (n =? 0) PLUS (Some (S n)) (Some z)
          (hd_error counted) (minus_sign X Y), next) (sign_contexts Quotient) ->
        good_row OVER Y (contexts_of Quotient) STEP (Row (Some n) X PLUS) (n =? 0) (S n) (subtract_row X Y)
          (minus_sign X Y) (Some z) (hd_error counted) next).
      { intros next Hnext. unfold subtract_row. rewrite Hl.
        apply (rule_row Quotient quotient_step 0 X Y); try reflexivity; try assumption.
        - right. right. left. reflexivity.
        - unfold size. lia.
        - intros p Hp. apply quotient_step_fits; assumption.
        - apply minus_digits; assumption.
        - lia.
        - rewrite minus_sign_is. destruct (_ =? _); auto.
        - apply in_or_app. left. apply in_flat_map. exists (S n). split; [apply in_nine; lia|].
          apply in_or_app. left. replace (S n - 1) with n by lia. change (S n =? 1) with (n =? 0).
          apply in_step_counts; auto. unfold size in lX. lia. }
      assert (signs : forall x, In x
        [sign_context Quotient STEP (Some (S n - 1)) (S n =? 1) PLUS (S n) (Some z) (hd_error counted) PLUS
           (if S n <? 9 then S n + 1 else shift_or_end (hd_error counted));
         sign_context Quotient STEP (Some (S n - 1)) (S n =? 1) PLUS (S n) (Some z) (hd_error counted) MINUS (S n - 1);
         sign_context Quotient REPAIR (Some (S n)) false MINUS (S n - 1) (Some z) (hd_error counted) PLUS
           (shift_or_end (hd_error counted))] -> In x (sign_contexts Quotient)).
      { intros x Hx. apply in_or_app. right. apply in_digit_signs with (z := z) (counted := counted); [assumption..|].
        apply in_or_app. right. apply in_flat_map. exists (S n). split; [apply in_nine; lia|exact Hx]. }
      replace (S n - 1) with n in signs by lia. change (S n =? 1) with (n =? 0) in signs.
      rewrite shift_or_end_is, Nat.add_1_r in signs.
      pose proof (minus_sign_is X Y) as Hs. destruct (minus_sign X Y =? MINUS); rewrite Hs in *.
      + destruct HX' as (Hless & Hmany & dX'' & E).
        rewrite Hl. eapply chain_row; [reflexivity|apply good; cbn; apply signs; right; left; reflexivity|].
        change (present _ (Some z) counted) with (Some z). change (following _ counted) with counted.
        destruct (Hmore n (write_row plus_ 0 (subtract_row X Y) Y size)) as [C Hhd];
          [lia|exact dX''|apply write_length|rewrite E; exact Hless|].
        eapply chain_row; [reflexivity| |exact C].
        change (present _ (Some z) counted) with (Some z). change (following _ counted) with counted.
        rewrite Hhd. apply (rule_row Quotient quotient_repair 0 (subtract_row X Y) Y); try reflexivity; try assumption.
        * right. right. right. left. reflexivity.
        * unfold size. lia.
        * intros p Hp. apply quotient_repair_fits; assumption.
        * lia.
        * left. reflexivity.
        * apply in_or_app. left. apply in_flat_map. exists (S n). split; [apply in_nine; lia|].
          apply in_or_app. right. replace (S n - 1) with n by lia.
          apply in_step_counts; auto. unfold size in lX'. lia.
        * apply signs. right. right. left. reflexivity.
      + destruct (IH (S n) (subtract_row X Y)) as [C Hhd]; [lia|exact dX'|exact lX'|lia|].
        eapply chain_row; [reflexivity| |exact C]. apply good. rewrite Hhd. apply signs. left. reflexivity.
  Qed.

  Lemma quotient_shift_sign z counted before : z < 10 -> all_digits counted -> In before (maybe ten) ->
    is_some before = true \/ leads_number z (hd_error counted) = true ->
    In (PLUS, sign_view OVER SHIFT before false PLUS (Some 0) (Some z) (hd_error counted) PLUS, 1) (sign_contexts Quotient).
  Proof.
    intros Hz Hc Hb H. apply in_or_app. right. apply in_digit_signs with (z := z) (counted := counted); [assumption..|].
    apply in_or_app. left. apply in_flat_map. exists before. split; [exact Hb|].
    rewrite (proj2 (orb_true_iff _ _) H). left. reflexivity.
  Qed.

  Lemma quotient_chain : forall counted X n z, all_digits counted -> all_digits X -> length X = size ->
    (num X < num Y)%N -> n < 10 ->
    chain OVER Y (contexts_of Quotient) (Row (Some n) X PLUS) false z counted (quotient_rows Y counted X)
    /\ hd END (response (quotient_rows Y counted X)) = next_or_end counted.
  Proof.
    destruct (plain_Y) as [dY sY tY].
    induction counted as [|d counted IH]; intros X n z Hcounted dX lX Hlt Hn; [split; [constructor|reflexivity]|].
    inversion Hcounted as [|? ? Hd Hcounted']. subst.
    cbn [quotient_rows]. fold size.
    destruct (subtract_chain d counted (quotient_rows Y counted)) with (times := 9) (n := 0) (X := write_row move_ d X Y size)
      as [C E].
    - exact Hd.
    - exact Hcounted'.
    - intros n' X' Hn' dX' lX' Hlt'. apply IH; assumption.
    - reflexivity.
    - apply move_digits; assumption.
    - apply write_length.
    - rewrite quotient_move by auto. lia.
    - split; [|reflexivity]. eapply chain_row; [reflexivity| |exact C].
      change (present _ z (d :: counted)) with (Some d). change (following _ (d :: counted)) with counted.
      change (kind_of _ _) with SHIFT. rewrite E.
      apply (rule_row Quotient quotient_shift d X Y); try reflexivity; try assumption.
      + right. left. reflexivity.
      + unfold size. lia.
      + intros p Hp. apply quotient_shift_fits; assumption.
      + apply move_digits; assumption.
      + lia.
      + left. reflexivity.
      + apply in_or_app. right. apply in_flat_map. exists (nth 0 Y 0). split; [apply in_ten, nth_digit, dY|].
        apply in_or_app. right. apply in_flat_map. exists n. split; [apply in_ten, Hn|].
        apply in_flat_map. exists (nth 0 X 0). split; [apply in_ten, nth_digit, dX|].
        rewrite !nth_error_0 by (unfold size in lX; lia). apply (in_shift_counts Quotient); auto.
      + apply quotient_shift_sign; auto. apply in_maybe. intros a Ea. injection Ea as <-. apply in_ten, Hn.
  Qed.

  Lemma quotient_all A : plain A ->
    chain OVER Y (contexts_of Quotient) (row_0 OVER A) false None (rev A) (quotient_rows Y (rev A) [])
    /\ In (EQUALS, glimpse windows_ (OVER, []) (counted_at 1 (nth_error (rev A) 0)) (EQUALS, sign_ids_ 0 0),
         hd END (response (quotient_rows Y (rev A) []))) (contexts_of Quotient).
  Proof.
    intros HA. destruct (plain_Y) as [dY sY tY]. destruct (rev A) as [|d counted] eqn:EA.
    { destruct HA as [_ sA _]. rewrite <- rev_length, EA in sA. cbn in sA. lia. }
    destruct (leads_rev A d counted HA EA) as (Hd & Hc & Hlead). split.
    2:{ apply in_or_app. left. apply in_or_app. left. apply in_map_iff. exists d. split; [reflexivity|apply in_ten, Hd]. }
    cbn [quotient_rows]. fold size.
    destruct (subtract_chain d counted (quotient_rows Y counted)) with (times := 9) (n := 0) (X := write_row move_ d [] Y size)
      as [C E].
    - exact Hd.
    - exact Hc.
    - intros n X dX lX Hlt Hn. apply quotient_chain; assumption.
    - reflexivity.
    - apply move_digits; [exact Hd|constructor].
    - apply write_length.
    - unfold size. rewrite move_number, firstn_nil. cbn [number]. lia.
    - eapply chain_row; [reflexivity| |exact C].
      change (present _ None (d :: counted)) with (Some d). change (following _ (d :: counted)) with counted.
      change (kind_of _ _) with SHIFT. rewrite E.
      apply (rule_row Quotient (first_rule true) d [] Y); try reflexivity; try assumption.
      + left. reflexivity.
      + constructor.
      + unfold size. lia.
      + intros p Hp. apply (first_fits Y plain_Y true); [exact Hd|discriminate|exact Hp].
      + apply move_digits; [exact Hd|constructor].
      + lia.
      + left. reflexivity.
      + apply in_or_app. right. apply in_flat_map. exists (nth 0 Y 0). split; [apply in_ten, nth_digit, dY|].
        apply in_or_app. left. rewrite (nth_error_0 Y) by exact sY. apply (in_shift_counts Quotient); auto.
      + cbn [count kind first_rule sign_of row_0 sign_token].
        rewrite (sign_view_shift _ _ _ EQUALS PLUS). apply quotient_shift_sign; auto. left. reflexivity.
  Qed.
End Quotient.

(** * The task *)

Definition contexts_with (operations : list operation) : list context := flat_map contexts_of operations.

Lemma rows_chain c :
  let o := operation_of c in
  let A := digits 10 (first_number c) in
  let B := digits 10 (second_number c) in
  let first := sign_token o in
  chain first (fixed_of first A B) (contexts_of o) (row_0 first A) false None (counted_of first A B) (rows_of c)
  /\ In (EQUALS, glimpse windows_ (first, []) (counted_at 1 (nth_error (counted_of first A B) 0))
       (EQUALS, sign_ids_ 0 0), hd END (response (rows_of c))) (contexts_of o).
Proof.
  destruct c as [o a b Hb]. cbn [operation_of first_number second_number]. cbv zeta.
  pose proof (plain_number a) as HA. pose proof (plain_number b) as HB. unfold rows_of.
  cbn [operation_of first_number second_number]. destruct o.
  - split; [apply sum_chain; assumption|left; reflexivity].
  - split; [apply difference_chain; assumption|left; reflexivity].
  - apply product_all; assumption.
  - apply quotient_all; [exact HB| |exact HA]. rewrite number_digits by lia. apply Hb. reflexivity.
Qed.

Lemma no_sign l s : all_digits l -> 10 <= s -> ~ In s l.
Proof. intros H Hs Hin. unfold all_digits in H. rewrite Forall_forall in H. apply H in Hin. lia. Qed.

Definition calculator : task.
Proof.
  refine (Task calculation
    (fun c => calculation_text (sign_token (operation_of c)) (digits 10 (first_number c)) (digits 10 (second_number c)))
    (fun c => response (rows_of c)) longhand_ids windows_ (contexts_with [Sum; Difference; Product; Quotient]) _ _).
  - intros c. destruct (rows_chain c) as [C _]. eapply chain_no_end, C.
  - intros c k Hk. destruct (rows_chain c) as [C E].
    destruct (rows_covered (sign_token (operation_of c)) _ _ _ (rows_of c) k
      (no_sign _ COMMA (plain_digits _ (plain_number (first_number c))) ltac:(unfold COMMA; lia))
      (no_sign _ EQUALS (plain_digits _ (plain_number (second_number c))) ltac:(unfold EQUALS; lia)) E C Hk)
      as (keys & Hin & Hperm).
    exists keys. split; [|exact Hperm]. apply in_flat_map. exists (operation_of c). split; [|exact Hin].
    destruct (operation_of c); cbn; auto.
Defined.
