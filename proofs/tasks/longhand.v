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
Definition subtract_row (X Y : list nat) : list nat := write_row minus_ 0 X Y (longer X Y).
Definition difference_rows (A B : list nat) : list row :=
  let row := subtract_row A B in
  Row (Some 1) row (minus_sign A B)
  :: if minus_sign A B =? MINUS
     then [Row (Some 0) (write_row negate_ 0 row B (longer A B)) PLUS] else [].

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
    steps subtract the second number until a row is below 0, or nine times. A repair adds it. *)
Fixpoint subtract_times (Y : list nat) (count times : nat) (X : list nat)
    (more : list nat -> list row) : list row :=
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

Lemma rule_digit o r x y c : In r (rules_of o) -> x < 10 -> y < 10 -> In c (carries_in r) ->
  fst (step r x y c) < 10.
Proof.
  intros Hr Hx Hy Hc.
  assert (H10 : forall n, n mod 10 < 10) by (intros n; apply Nat.mod_upper_bound; lia).
  destruct o; repeat destruct Hr as [<-|Hr]; try destruct Hr; cbn [step fst] in *; try apply H10;
    cbn in Hc; cbn; lia.
Qed.

(** A row that follows a rule, whose count and sign are in contexts. *)
Lemma chain_rule o r first X Y size sign b shifted c z rest rows :
  let z' := present (kind r) z rest in
  let rest' := following (kind r) rest in
  In r (rules_of o) -> kind r = kind_of (sign_of b) c -> digits_of b = X ->
  all_digits X -> all_digits Y -> 0 < size ->
  (forall p, p < size -> fits r first X Y size sign p) -> c < 10 -> sign = PLUS \/ sign = MINUS ->
  In (c, count_view (sign_token o) (kind r) (nth_error X 0) (nth_error Y 0) (count b) shifted
      z' (hd_error rest') c, fst (step r (nth 0 X 0) (nth 0 Y 0) first)) (count_contexts o) ->
  In (sign, sign_view (sign_token o) (kind r) (count b) shifted (sign_of b) (Some c)
      z' (hd_error rest') sign, hd END (response rows)) (sign_contexts o) ->
  let row := Row (Some c) (write_row (step r) first X Y size) sign in
  chain (sign_token o) Y (contexts_of o) row (kind r =? SHIFT)%Z z' rest' rows ->
  chain (sign_token o) Y (contexts_of o) b shifted z rest (row :: rows).
Proof.
  cbv zeta. intros Hr Hkind <- HX HY Hsize Hfit Hc Hsign Hcount Hs C.
  apply chain_row with (kind := kind r); [exact Hkind| |exact C]. split.
  - constructor; [exact Hc|]. apply Forall_forall. intros q Hq.
    apply In_nth_error in Hq. destruct Hq as (p & Hq).
    apply write_nth_error in Hq. destruct Hq as [Hp ->].
    apply (rule_digit o); [exact Hr|apply nth_digit..|apply Hfit]; assumption.
  - exact Hsign.
  - unfold contexts_of. rewrite !in_app_iff. right. left.
    destruct size as [|size]; [lia|]. exact Hcount.
  - apply rule_digits; assumption.
  - unfold contexts_of. rewrite !in_app_iff. left. exact Hs.
Qed.

Lemma minus_sign_is X Y : minus_sign X Y = if minus_sign X Y =? MINUS then MINUS else PLUS.
Proof. unfold minus_sign. destruct (_ =? 0); reflexivity. Qed.

(** What is plain of these premises. *)
Ltac rule o r first X Y :=
  apply (chain_rule o r first X Y);
  lazymatch goal with
  | |- In _ (rules_of _) => repeat first [left; reflexivity|right]
  | |- kind _ = _ => reflexivity
  | |- digits_of _ = _ => try reflexivity
  | |- all_digits _ => first [assumption|apply Forall_nil]
  | |- _ < _ => first [lia|unfold sum_size, longer; lia]
  | |- _ \/ _ => first [left; reflexivity|rewrite minus_sign_is; destruct (_ =? _); auto]
  | |- chain _ _ _ _ _ _ _ _ => first [assumption|apply chain_end|idtac]
  | |- _ => idtac
  end.

(** ** Counts and signs *)

Lemma nth_error_0 (l : list nat) : 1 <= length l -> nth_error l 0 = Some (nth 0 l 0).
Proof. destruct l; cbn; [lia|reflexivity]. Qed.

(** Only the count of a shift sees counted digits. *)
Lemma count_view_step t k x y before shifted z z' q : (k =? SHIFT)%Z = false ->
  count_view t k x y before shifted z z' q = count_view t k x y before shifted None None q.
Proof.
  intros H. unfold count_view. rewrite H. apply glimpse_sees. cbn [snd]. unfold count_ids.
  rewrite !filter_app, !not_counted. reflexivity.
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

Lemma in_digits counted : all_digits counted -> In (hd_error counted) (maybe ten).
Proof.
  intros H. apply in_maybe. intros a E. destruct H as [|d l Hd _]; [discriminate|].
  injection E as <-. apply in_ten, Hd.
Qed.

Lemma in_shift_counts o x y before shifted fits_ z counted : z < 10 -> all_digits counted ->
  fits_ z (hd_error counted) = true ->
  In (0, count_view (sign_token o) SHIFT x y before shifted (Some z) (hd_error counted) 0,
    match o with Quotient => z | _ => 0 end) (shift_counts o x y before shifted fits_).
Proof.
  intros Hz Hc Hf. apply in_flat_map. exists z. split; [apply in_ten, Hz|].
  apply in_flat_map. eexists. split; [apply in_digits, Hc|]. rewrite Hf. left. reflexivity.
Qed.

Lemma in_digit_signs {A} (f : nat -> option nat -> list A) z counted x :
  z < 10 -> all_digits counted -> In x (f z (hd_error counted)) ->
  In x (flat_map (fun z => flat_map (f z) (maybe ten)) ten).
Proof.
  intros Hz Hc H. apply in_flat_map. exists z. split; [apply in_ten, Hz|]. apply in_flat_map.
  eexists. split; [apply in_digits, Hc|exact H].
Qed.

(** The sign of a shift does not see that of the row before. *)
Lemma sign_view_shift t before shifted s s' c z z' q :
  sign_view t SHIFT before shifted s c z z' q = sign_view t SHIFT before shifted s' c z z' q.
Proof. destruct c, z, z', before, shifted; reflexivity. Qed.

Lemma in_nine n : In n nine <-> 1 <= n < 10.
Proof. unfold nine. rewrite in_seq. lia. Qed.

Ltac nine n := apply in_flat_map; exists n; split; [apply in_nine; lia|].
Ltac ten n := apply in_flat_map; exists n; split; [apply in_ten; auto using nth_digit|].

(** What follows the last row of a digit. *)
Definition next_or_end (counted : list nat) : token := match counted with [] => END | _ => 0 end.

Lemma shift_or_end_is counted : shift_or_end (hd_error counted) = next_or_end counted.
Proof. destruct counted; reflexivity. Qed.

(** ** Sums *)

Lemma sum_chain A B : plain A -> plain B ->
  chain PLUS B (contexts_of Sum) (row_0 PLUS A) false None [] (sum_rows A B).
Proof.
  intros HA HB. destruct (HA) as [dA sA _], (HB) as [dB sB _].
  rule Sum (natural_rule plus_ true) 0 A B.
  - intros p Hp. apply sum_fits; [assumption..|]. apply natural_at, HA.
  - apply in_step_counts; auto.
  - right. left. reflexivity.
Qed.

(** ** Differences *)

Lemma longer_firstn X Y : firstn (longer X Y) X = X /\ firstn (longer X Y) Y = Y.
Proof. unfold longer. split; apply firstn_all2; lia. Qed.

(** What a row says that is subtracted. *)
Lemma subtract_number X Y : all_digits X -> all_digits Y ->
  (num (subtract_row X Y) + num Y
   = num X + if (minus_sign X Y =? MINUS)%nat then power (longer X Y) else 0)%N.
Proof.
  intros HX HY. destruct (minus_number X Y (longer X Y) HX HY) as [E Hc].
  rewrite (proj1 (longer_firstn X Y)), (proj2 (longer_firstn X Y)) in E.
  unfold subtract_row, minus_sign.
  destruct (carry_at minus_ 0 X Y (longer X Y)) as [|[|c]]; cbn [Nat.eqb MINUS PLUS]; lia.
Qed.

(** The number of the repaired row. *)
Lemma repaired A B : plain A -> plain B -> minus_sign A B = MINUS ->
  longer A B = length B
  /\ (num (write_row negate_ 0 (subtract_row A B) B (length B)) + num A = num B)%N
  /\ (num A < num B)%N.
Proof.
  intros HA HB Hs. destruct (HA) as [dA _ _], (HB) as [dB _ _].
  pose proof (subtract_number A B dA dB) as E. rewrite Hs in E. cbn [Nat.eqb MINUS] in E.
  assert (dr : all_digits (subtract_row A B)) by apply minus_digits.
  pose proof (num_below _ dr) as Hw. unfold subtract_row at 2 in Hw. rewrite write_length in Hw.
  assert (H : (num A < num B)%N) by lia. pose proof (plain_shorter A B HA HB H).
  assert (Hl : longer A B = length B) by (unfold longer; lia). rewrite Hl in *.
  split; [reflexivity|]. split; [|exact H]. rewrite negate_is.
  destruct (minus_number [] (subtract_row A B) (length B) (Forall_nil _) dr) as [En Hc].
  rewrite firstn_nil, firstn_all2 in En by (unfold subtract_row; rewrite write_length; lia).
  pose proof (num_below B dB). cbn [number] in En.
  destruct (carry_at minus_ 0 [] (subtract_row A B) (length B)) as [|[|c]]; lia.
Qed.

Lemma difference_chain A B : plain A -> plain B ->
  chain MINUS B (contexts_of Difference) (row_0 MINUS A) false None [] (difference_rows A B).
Proof.
  intros HA HB. destruct (HA) as [dA sA _], (HB) as [dB sB _].
  rule Difference (natural_rule minus_ false) 0 A B.
  - intros p Hp. apply minus_fits; [assumption..|]. apply natural_at, HA.
  - apply in_or_app. left. apply in_step_counts; auto.
  - rewrite minus_sign_is. destruct (minus_sign A B =? MINUS); cbn; auto.
  - destruct (Nat.eqb_spec (minus_sign A B) MINUS) as [Hs|_]; [|constructor].
    destruct (repaired A B HA HB Hs) as (Hl & HD & Hlt). rewrite Hs, Hl.
    assert (dr : all_digits (subtract_row A B)) by apply minus_digits.
    assert (lr : length (subtract_row A B) = length B)
      by (unfold subtract_row; rewrite write_length; exact Hl).
    rule Difference negate_rule 0 (subtract_row A B) B.
    + unfold subtract_row. rewrite Hl. reflexivity.
    + intros p Hp. apply negate_fits; [assumption..| |exact Hp]. lia.
    + apply in_or_app. right. apply in_step_counts; auto. lia.
    + right. right. right. left. reflexivity.
Qed.

(** ** Products *)

Lemma add_number X Y : all_digits X -> all_digits Y -> num (add_row X Y) = (num X + num Y)%N.
Proof.
  intros HX HY. unfold add_row. pose proof (plus_number 0 X Y (sum_size X Y)) as E.
  rewrite !(firstn_all2 (n := sum_size X Y)) in E by (unfold sum_size, longer; lia).
  assert (carry_at plus_ 0 X Y (sum_size X Y) = 0) as Hc; [|rewrite Hc in E; lia].
  unfold sum_size. pose proof (carry_plus 0 X Y (longer X Y) ltac:(lia) HX HY).
  destruct (carry_at plus_ 0 X Y (longer X Y)) as [|[|c]] eqn:Ec; [| |lia].
  - rewrite Nat.add_0_r. exact Ec.
  - rewrite Nat.add_1_r. cbn [carry_at].
    destruct (beyond_both X Y (longer X Y) (le_n _)) as (_ & -> & ->). rewrite Ec. reflexivity.
Qed.

Lemma add_digits X Y : all_digits (add_row X Y).
Proof. apply plus_digits. Qed.

(** A row after a step. *)
Lemma product_row_add X Y : all_digits X -> plain Y -> product_row X Y ->
  product_row (add_row X Y) Y.
Proof.
  intros HX HY HP. pose proof (product_length X Y HX HY HP) as Hl. destruct (HY) as [dY sY tY].
  pose proof (add_number X Y HX dY) as E. destruct HP as (Hs & HP).
  assert (Hm : longer X Y = length X) by (unfold longer; lia).
  pose proof (carry_plus 0 X Y (length X) ltac:(lia) HX dY) as Hc.
  assert (L : length (add_row X Y) = length X + carry_at plus_ 0 X Y (length X))
    by (unfold add_row, sum_size; rewrite write_length, Hm; reflexivity).
  split; [lia|]. destruct (N.eq_dec (num (add_row X Y)) 0) as [E0|Hne].
  - left. split; [exact E0|]. right. destruct HP as [[H0 HP]|[Ht HP]].
    + destruct tY as [tY|tY]; [|exfalso; apply tY, num_zero; lia].
      split; [exact tY|apply num_zero; lia].
    + exfalso. apply Ht, num_zero. lia.
  - right. split; [|lia]. intros Ht.
    assert (Hsmall : (num (add_row X Y) < power (length (add_row X Y) - 1))%N).
    { rewrite (num_top _ (length (add_row X Y) - 1)) by lia. rewrite Ht.
      pose proof (num_firstn_below _ (length (add_row X Y) - 1) (add_digits X Y)). lia. }
    rewrite L in Hsmall. pose proof (plus_number 0 X Y (length X)) as EX.
    rewrite !firstn_all2 in EX by lia.
    destruct (carry_at plus_ 0 X Y (length X)) as [|[|c]]; [| |lia].
    + rewrite Nat.add_0_r in Hsmall. destruct HP as [[H0 [HP|[HP HY0]]]|[Ht' HP]].
      * rewrite HP in Hsmall. pose proof (num_large Y tY sY ltac:(lia)). lia.
      * rewrite (num_top Y 0 HP), HY0 in E. cbn in E. lia.
      * assert (num X <> 0%N) as Hx by (intros H0; apply Ht', num_zero, H0).
        pose proof (num_large X (or_intror Ht') Hs Hx). lia.
    + replace (length X + 1 - 1) with (length X) in Hsmall by lia. lia.
Qed.

(** A row after a shift. *)
Lemma shift_number X Y : num (write_row move_ 0 X Y (shift_size X Y)) = (10 * num X)%N.
Proof.
  destruct X as [|x X].
  - cbn [shift_size]. destruct (length Y); [reflexivity|]. rewrite move_number, firstn_nil.
    reflexivity.
  - change (shift_size (x :: X) Y) with (S (length (x :: X))). rewrite move_number, firstn_all. lia.
Qed.

Lemma product_row_shift X Y : all_digits X -> product_row X Y -> (num X <> 0 \/ num Y = 0)%N ->
  plain Y -> product_row (write_row move_ 0 X Y (S (length X))) Y.
Proof.
  intros HX (Hs & HP) Hne [dY sY tY]. pose proof (move_number 0 X Y (length X)) as E.
  rewrite firstn_all in E. unfold product_row. rewrite write_length. split; [lia|].
  destruct HP as [[H0 HP]|[Ht HP]].
  - left. split; [lia|]. right. destruct Hne as [Hne|Hne]; [lia|].
    destruct tY as [tY|tY]; [|exfalso; apply tY, num_zero, Hne].
    split; [exact tY|apply num_zero, Hne].
  - right. split; [|lia]. replace (S (length X) - 1) with (S (length X - 1)) by lia.
    rewrite write_nth by lia. exact Ht.
Qed.

Lemma product_row_first Y : plain Y -> product_row (write_row move_ 0 [] Y (length Y)) Y.
Proof.
  intros [dY sY tY]. split; [rewrite write_length; exact sY|]. left. split.
  - exact (shift_number [] Y).
  - left. apply write_length.
Qed.

Lemma lowest_sum X Y n : 1 <= length X -> nth 0 X 0 = n * nth 0 Y 0 mod 10 ->
  nth 0 (add_row X Y) 0 = S n * nth 0 Y 0 mod 10.
Proof.
  intros Hs H. unfold add_row. rewrite write_nth by (unfold sum_size, longer; lia).
  unfold place_at. cbn [carry_at plus_ fst]. rewrite H, Nat.add_0_r, Nat.add_mod_idemp_l by lia.
  f_equal. lia.
Qed.

(** The steps of a digit, and then more rows. *)
Lemma add_chain Y counted d start more : plain Y -> all_digits counted -> d < 10 ->
  (forall X, all_digits X -> product_row X Y -> nth 0 X 0 = d * nth 0 Y 0 mod 10 ->
     num X = (start + N.of_nat d * num Y)%N ->
     chain TIMES Y (contexts_of Product) (Row (Some d) X PLUS) (d =? 0) (Some d) counted (more X)
     /\ hd END (response (more X)) = next_or_end counted) ->
  forall times n X, n + times = d -> all_digits X -> product_row X Y ->
  nth 0 X 0 = n * nth 0 Y 0 mod 10 -> num X = (start + N.of_nat n * num Y)%N ->
  chain TIMES Y (contexts_of Product) (Row (Some n) X PLUS) (n =? 0) (Some d) counted
    (add_times Y n times X more)
  /\ hd END (response (add_times Y n times X more)) = if n <? d then S n else next_or_end counted.
Proof.
  intros HY Hcounted Hd Hmore. destruct (HY) as [dY sY tY].
  induction times as [|times IH]; intros n X Hn HX HP Hlow Hnum.
  - rewrite Nat.add_0_r in Hn. subst n. cbn [add_times]. rewrite Nat.ltb_irrefl.
    apply Hmore; assumption.
  - cbn [add_times]. destruct (Nat.ltb_spec n d) as [Hlt|]; [|lia]. split; [|reflexivity].
    assert (Hs : 1 <= length X) by apply HP.
    destruct (IH (S n) (add_row X Y)) as [C E]; auto using add_digits, product_row_add, lowest_sum;
      [lia|rewrite add_number by assumption; lia|].
    rule Product (sum_rule STEP plus_ true product_near) 0 X Y.
    + intros p Hp. apply product_step_fits; assumption.
    + apply in_or_app. left. nine (S n). rewrite Nat.sub_succ, Nat.sub_0_r.
      apply in_step_counts; auto. apply Nat.eqb_eq. exact Hlow.
    + rewrite E. apply in_or_app. right.
      apply in_digit_signs with (z := d) (counted := counted); auto.
      apply in_or_app. right. nine (S n). destruct (Nat.leb_spec (S n) d); [|lia].
      left. unfold sign_context. rewrite Nat.sub_succ, Nat.sub_0_r, shift_or_end_is, Nat.add_1_r.
      reflexivity.
Qed.

Lemma product_shift_sign d counted n : d < 10 -> all_digits counted -> n < 10 ->
  In (PLUS, sign_view TIMES SHIFT (Some n) (n =? 0) PLUS (Some 0) (Some d) (hd_error counted) PLUS,
    if 0 <? d then 1 else next_or_end counted) (sign_contexts Product).
Proof.
  intros Hd Hc Hn. apply in_or_app. right.
  apply in_digit_signs with (z := d) (counted := counted); auto.
  apply in_or_app. left. apply in_map_iff. exists n. rewrite shift_or_end_is.
  split; [reflexivity|apply in_ten, Hn].
Qed.

Lemma product_chain Y : plain Y -> forall counted X n z,
  all_digits counted -> all_digits X -> product_row X Y ->
  (counted <> [] -> (num X <> 0 \/ num Y = 0)%N) -> n < 10 -> nth 0 X 0 = n * nth 0 Y 0 mod 10 ->
  chain TIMES Y (contexts_of Product) (Row (Some n) X PLUS) (n =? 0) z counted
    (product_rows Y counted X)
  /\ hd END (response (product_rows Y counted X)) = next_or_end counted.
Proof.
  intros HY. destruct (HY) as [dY sY tY].
  induction counted as [|d counted IH]; intros X n z Hcounted HX HP Hne Hn Hlow;
    [split; [constructor|reflexivity]|].
  split; [|reflexivity]. inversion Hcounted as [|? ? Hd Hcounted']. subst.
  assert (Hs : 1 <= length X) by apply HP. specialize (Hne ltac:(discriminate)). cbn [product_rows].
  replace (shift_size X Y) with (S (length X)) by (destruct X; [cbn in Hs; lia|reflexivity]).
  pose proof (move_number 0 X Y (length X)) as E'. rewrite firstn_all in E'.
  destruct (add_chain Y counted d (10 * num X) (product_rows Y counted) HY Hcounted' Hd)
    with (times := d) (n := 0) (X := write_row move_ 0 X Y (S (length X))) as [C E];
    auto using move_digits, product_row_shift; try lia.
  - intros X'' dX pX lX nX. apply IH; try assumption. intros _. lia.
  - apply move_digits; [lia|exact HX].
  - rule Product product_shift 0 X Y.
    + intros p Hp. apply product_shift_fits; assumption.
    + apply in_or_app. right. ten (nth 0 Y 0). apply in_or_app. right. ten n.
      rewrite !nth_error_0, Hlow by assumption. apply (in_shift_counts Product); auto.
    + rewrite E. apply product_shift_sign; assumption.
Qed.

(** The top digit, which counts first, is not 0 if there is another one. *)
Lemma leads_rev A : plain A -> exists d counted,
  rev A = d :: counted /\ d < 10 /\ all_digits counted /\ leads_number d (hd_error counted) = true.
Proof.
  intros [dA sA tA]. destruct (exists_last (l := A)) as (l & d & ->); [intros ->; cbn in sA; lia|].
  exists d, (rev l). rewrite rev_unit. apply Forall_app in dA. destruct dA as [dl dd].
  inversion dd. subst. repeat split; [assumption|apply Forall_rev, dl|].
  unfold leads_number. apply orb_true_iff.
  destruct tA as [tA|tA]; rewrite app_length in tA; cbn [length] in tA.
  - right. destruct l; [reflexivity|cbn in tA; lia].
  - left. rewrite app_nth2 in tA by lia. replace (length l + 1 - 1 - length l) with 0 in tA by lia.
    cbn in tA. apply Nat.ltb_lt. lia.
Qed.

Lemma product_all A B : plain A -> plain B ->
  chain TIMES A (contexts_of Product) (row_0 TIMES A) false None (rev B) (product_rows A (rev B) [])
  /\ In (equals_context Product (nth_error (rev B) 0)
      (hd END (response (product_rows A (rev B) [])))) (contexts_of Product).
Proof.
  intros HA HB. destruct (leads_rev B HB) as (d & counted & -> & Hd & Hc & Hlead).
  destruct (HA) as [dA sA tA]. split.
  2:{ unfold contexts_of. cbn [sign_contexts]. rewrite !in_app_iff. left. left. apply in_map_iff.
      exists d. split; [reflexivity|apply in_ten, Hd]. }
  cbn [product_rows shift_size].
  destruct (add_chain A counted d 0 (product_rows A counted) HA Hc Hd)
    with (times := d) (n := 0) (X := write_row move_ 0 [] A (length A)) as [C E];
    auto using product_row_first.
  - intros X dX pX lX nX. apply product_chain; try assumption. intros Hne.
    destruct counted as [|e counted]; [congruence|]. unfold leads_number in Hlead.
    rewrite orb_false_r in Hlead. apply Nat.ltb_lt in Hlead.
    destruct (N.eq_dec (num A) 0); [auto|left]. nia.
  - apply move_digits; [lia|constructor].
  - rewrite write_nth by lia. reflexivity.
  - exact (shift_number [] A).
  - rule Product (first_rule false) 0 (@nil nat) A.
    + intros p Hp. apply (first_fits A false 0); auto; lia.
    + apply in_or_app. right. ten (nth 0 A 0). apply in_or_app. left.
      rewrite (nth_error_0 A) by exact sA. apply (in_shift_counts Product); auto.
    + rewrite E. refine (eq_ind _ (fun keys => In (PLUS, keys, _) _)
        (product_shift_sign d counted 0 Hd Hc ltac:(lia)) _ _). destruct counted; reflexivity.
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
    longer X Y = size /\ all_digits X' /\ length X' = size /\
    if minus_sign X Y =? MINUS then
      (num X < num Y)%N /\ (power size <= num X' + num Y)%N
      /\ all_digits (write_row plus_ 0 X' Y size) /\ num (write_row plus_ 0 X' Y size) = num X
    else (num X' + num Y = num X)%N.
  Proof.
    intros dX lX Hlt. cbv zeta. destruct (plain_Y) as [dY sY tY].
    assert (dX' : all_digits (subtract_row X Y)) by apply minus_digits.
    assert (Hl : longer X Y = size) by (unfold longer, size in *; lia).
    assert (lX' : length (subtract_row X Y) = size)
      by (unfold subtract_row; rewrite write_length; exact Hl).
    pose proof (subtract_number X Y dX dY) as E. rewrite Hl in E.
    split; [exact Hl|]. split; [exact dX'|]. split; [exact lX'|].
    destruct (minus_sign X Y =? MINUS); [|lia]. pose proof (num_below _ dX') as Hw.
    rewrite lX' in Hw.
    assert (dr : all_digits (write_row plus_ 0 (subtract_row X Y) Y size)) by apply plus_digits.
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
    unfold size. rewrite move_number.
    intros [-> | lX] Hlt; [rewrite firstn_nil; reflexivity|].
    rewrite (num_top X (length Y) lX) in *.
    pose proof (num_below Y (plain_digits Y plain_Y)).
    assert (N.of_nat (nth (length Y) X 0%nat) = 0)%N as -> by nia. lia.
  Qed.

  (** The steps of a digit, and then more rows. *)
  Lemma subtract_chain z counted more : z < 10 -> all_digits counted ->
    (forall n X, n < 10 -> all_digits X -> length X = size -> (num X < num Y)%N ->
       chain OVER Y (contexts_of Quotient) (Row (Some n) X PLUS) false (Some z) counted (more X)
       /\ hd END (response (more X)) = next_or_end counted) ->
    forall times n X, n + times = 9 -> all_digits X -> length X = size ->
    (num X < N.of_nat (S times) * num Y)%N ->
    chain OVER Y (contexts_of Quotient) (Row (Some n) X PLUS) (n =? 0) (Some z) counted
      (subtract_times Y n times X more)
    /\ hd END (response (subtract_times Y n times X more))
       = if n <? 9 then S n else next_or_end counted.
  Proof.
    intros Hz Hcounted Hmore. destruct (plain_Y) as [dY sY tY].
    induction times as [|times IH]; intros n X Hn dX lX Hlt;
      [rewrite Nat.add_0_r in Hn; subst n; apply Hmore; auto; lia|].
    destruct (quotient_subtract X dX lX ltac:(nia)) as (Hl & dX' & lX' & HX'). cbn [subtract_times].
    destruct (Nat.ltb_spec n 9) as [H9|]; [|lia]. split; [|reflexivity].
    assert (signs : forall x, In x
      [sign_context Quotient STEP (Some n) (n =? 0) PLUS (S n) (Some z) (hd_error counted) PLUS
         (if S n <? 9 then S (S n) else next_or_end counted);
       sign_context Quotient STEP (Some n) (n =? 0) PLUS (S n) (Some z) (hd_error counted) MINUS n;
       sign_context Quotient REPAIR (Some (S n)) false MINUS n (Some z) (hd_error counted) PLUS
         (next_or_end counted)] -> In x (sign_contexts Quotient)).
    { intros x Hx. apply in_or_app. right.
      apply in_digit_signs with (z := z) (counted := counted); auto. apply in_or_app. right.
      nine (S n).
      rewrite Nat.sub_succ, Nat.sub_0_r, shift_or_end_is, Nat.add_1_r. exact Hx. }
    assert (more_steps : forall rows, In (minus_sign X Y, sign_view OVER STEP (Some n) (n =? 0) PLUS
        (Some (S n)) (Some z) (hd_error counted) (minus_sign X Y), hd END (response rows))
        (sign_contexts Quotient) ->
      chain OVER Y (contexts_of Quotient) (Row (Some (S n)) (subtract_row X Y) (minus_sign X Y))
        false (Some z) counted rows ->
      chain OVER Y (contexts_of Quotient) (Row (Some n) X PLUS) (n =? 0) (Some z) counted
        (Row (Some (S n)) (subtract_row X Y) (minus_sign X Y) :: rows)).
    { intros rows Hsign C. unfold subtract_row in *. rewrite Hl in *.
    rule Quotient quotient_step 0 X Y.
      - intros p Hp. apply quotient_step_fits; assumption || nia.
      - apply in_or_app. left. nine (S n). apply in_or_app. left. rewrite Nat.sub_succ, Nat.sub_0_r.
        apply in_step_counts; auto. lia.
      - exact Hsign. }
    pose proof (minus_sign_is X Y) as Hs. destruct (minus_sign X Y =? MINUS); rewrite Hs in *.
    - destruct HX' as (Hless & Hmany & dX'' & E). rewrite Hl.
      destruct (Hmore n (write_row plus_ 0 (subtract_row X Y) Y size)) as [C Hhd];
        [lia|exact dX''|apply write_length|rewrite E; exact Hless|].
      apply more_steps; [apply signs; right; left; reflexivity|].
      rule Quotient quotient_repair 0 (subtract_row X Y) Y.
      + intros p Hp. apply quotient_repair_fits; assumption.
      + apply in_or_app. left. nine (S n). apply in_or_app. right.
        rewrite Nat.sub_succ, Nat.sub_0_r.
        apply in_step_counts; auto. lia.
      + rewrite Hhd. apply signs. right. right. left. reflexivity.
    - destruct (IH (S n) (subtract_row X Y)) as [C Hhd]; [lia|exact dX'|exact lX'|lia|].
      apply more_steps; [|exact C]. rewrite Hhd. apply signs. left. reflexivity.
  Qed.

  Lemma quotient_shift_sign z counted before : z < 10 -> all_digits counted ->
    match before with None => leads_number z (hd_error counted) = true | Some n => n < 10 end ->
    In (PLUS, sign_view OVER SHIFT before false PLUS (Some 0) (Some z) (hd_error counted) PLUS, 1)
      (sign_contexts Quotient).
  Proof.
    intros Hz Hc Hb. apply in_or_app. right.
    apply in_digit_signs with (z := z) (counted := counted); auto.
    apply in_or_app. left. apply in_flat_map. exists before. split.
    - apply in_maybe. intros a ->. apply in_ten, Hb.
    - destruct before as [n|]; [|rewrite Hb]; left; reflexivity.
  Qed.

  Lemma quotient_chain : forall counted X n z,
    all_digits counted -> all_digits X -> length X = size -> (num X < num Y)%N -> n < 10 ->
    chain OVER Y (contexts_of Quotient) (Row (Some n) X PLUS) false z counted
      (quotient_rows Y counted X)
    /\ hd END (response (quotient_rows Y counted X)) = next_or_end counted.
  Proof.
    destruct (plain_Y) as [dY sY tY].
    induction counted as [|d counted IH]; intros X n z Hcounted dX lX Hlt Hn;
      [split; [constructor|reflexivity]|].
    inversion Hcounted as [|? ? Hd Hcounted']. subst. cbn [quotient_rows]. fold size.
    destruct (subtract_chain d counted (quotient_rows Y counted)) with
      (times := 9) (n := 0) (X := write_row move_ d X Y size) as [C E]; auto using move_digits.
    - apply write_length.
    - rewrite quotient_move by auto. lia.
    - split; [|reflexivity]. rule Quotient quotient_shift d X Y.
      + intros p Hp. apply quotient_shift_fits; assumption.
      + apply in_or_app. right. ten (nth 0 Y 0). apply in_or_app. right. ten n. ten (nth 0 X 0).
        rewrite !nth_error_0 by lia. apply (in_shift_counts Quotient); auto.
      + rewrite E. exact (quotient_shift_sign d counted (Some n) Hd Hcounted' Hn).
  Qed.

  Lemma quotient_all A : plain A ->
    chain OVER Y (contexts_of Quotient) (row_0 OVER A) false None (rev A)
      (quotient_rows Y (rev A) [])
    /\ In (equals_context Quotient (nth_error (rev A) 0)
        (hd END (response (quotient_rows Y (rev A) [])))) (contexts_of Quotient).
  Proof.
    intros HA. destruct (plain_Y) as [dY sY tY].
    destruct (leads_rev A HA) as (d & counted & -> & Hd & Hc & Hlead). split.
    2:{ unfold contexts_of. cbn [sign_contexts]. rewrite !in_app_iff. left. left. apply in_map_iff.
        exists d. split; [reflexivity|apply in_ten, Hd]. }
    cbn [quotient_rows]. fold size.
    destruct (subtract_chain d counted (quotient_rows Y counted)) with
      (times := 9) (n := 0) (X := write_row move_ d [] Y size) as [C E]; auto.
    - intros n X dX lX Hlt Hn. apply quotient_chain; assumption.
    - apply move_digits; [exact Hd|constructor].
    - apply write_length.
    - rewrite quotient_move by (cbn; auto; lia). cbn [number]. lia.
    - rule Quotient (first_rule true) d (@nil nat) Y.
      + intros p Hp. apply (first_fits Y true d); auto; discriminate.
      + apply in_or_app. right. ten (nth 0 Y 0). apply in_or_app. left.
        rewrite (nth_error_0 Y) by exact sY. apply (in_shift_counts Quotient); auto.
      + rewrite E, (sign_view_shift _ _ _ _ PLUS).
        exact (quotient_shift_sign d counted None Hd Hc Hlead).
  Qed.
End Quotient.

(** * The task *)

Lemma rows_chain c :
  let o := operation_of c in
  let A := digits 10 (first_number c) in
  let B := digits 10 (second_number c) in
  let first := sign_token o in
  chain first (fixed_of first A B) (contexts_of o) (row_0 first A) false None (counted_of first A B)
    (rows_of c)
  /\ In (equals_context o (nth_error (counted_of first A B) 0) (hd END (response (rows_of c))))
       (contexts_of o).
Proof.
  destruct c as [o a b Hb]. unfold rows_of. cbn [operation_of first_number second_number]. cbv zeta.
  pose proof (plain_number a) as HA. pose proof (plain_number b) as HB. destruct o.
  - split; [apply sum_chain; assumption|left; reflexivity].
  - split; [apply difference_chain; assumption|left; reflexivity].
  - apply product_all; assumption.
  - apply quotient_all; [exact HB| |exact HA]. rewrite number_digits by lia. apply Hb. reflexivity.
Qed.

Lemma no_sign n s : 10 <= s -> ~ In s (digits 10 n).
Proof.
  intros Hs Hin. pose proof (plain_digits _ (plain_number n)) as H. unfold all_digits in H.
  rewrite Forall_forall in H. apply H in Hin. lia.
Qed.

Definition question_of (c : calculation) : list token :=
  calculation_text (sign_token (operation_of c))
    (digits 10 (first_number c)) (digits 10 (second_number c)).

Definition calculator : task.
Proof.
  refine (Task calculation question_of (fun c => response (rows_of c)) longhand_ids windows_
    (flat_map contexts_of [Sum; Difference; Product; Quotient]) _ _).
  - intros c. destruct (rows_chain c) as [C _]. eapply chain_no_end, C.
  - intros c k Hk. destruct (rows_chain c) as [C E].
    destruct (rows_covered (sign_token (operation_of c)) _ _ _ (rows_of c) k
      (no_sign (first_number c) COMMA ltac:(unfold COMMA; lia))
      (no_sign (second_number c) EQUALS ltac:(unfold EQUALS; lia)) E C Hk) as (keys & Hin & Hperm).
    exists keys. split; [|exact Hperm]. apply in_flat_map. exists (operation_of c).
    split; [|exact Hin]. destruct (operation_of c); cbn; auto.
Defined.
