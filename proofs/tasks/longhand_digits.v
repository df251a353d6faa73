(** The digits of rows: each place is in one of the contexts. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits.
From Carry Require Import tasks.longhand_rows tasks.longhand_contexts tasks.longhand_numbers.
Import ListNotations.

Definition near_at (X Y : list nat) (p : nat) : near :=
  Near (nth_error X p) (nth_error X (S p)) (nth_error Y p) (nth_error Y (S p)).

(** A rule describes a place of a row. *)
Definition fits (r : rule) (c : nat) (X Y : list nat) (size : nat) (s : token) (p : nat) : Prop :=
  let carry := carry_at (step r) c X Y in
  In (carry p) (carries_in r) /\ possible r (p =? 0) (near_at X Y p) (carry p) = true
  /\ goes_on r (near_at X Y p) (carry (S p)) = (S p <? size)
  /\ (S p = size -> ends r (carry (S p)) = s).

Lemma nth_error_spec (l : list nat) p :
  nth_error l p = if p <? length l then Some (nth p l 0) else None.
Proof.
  destruct (Nat.ltb_spec p (length l)) as [H|H]; [apply nth_error_nth', H|apply nth_error_None, H].
Qed.

Lemma value_at l p : value_of (nth_error l p) = nth p l 0.
Proof.
  rewrite nth_error_spec. destruct (Nat.ltb_spec p (length l)); [reflexivity|].
  symmetry. apply nth_overflow. assumption.
Qed.

Lemma in_ten d : In d ten <-> d < 10.
Proof. unfold ten. rewrite in_seq. lia. Qed.

Lemma in_maybe {A} (x : option A) l : (forall a, x = Some a -> In a l) -> In x (maybe l).
Proof. intros H. destruct x as [a|]; [right; apply in_map, H; reflexivity|left; reflexivity]. Qed.

Lemma in_near_pairs l p : all_digits l -> In (nth_error l p, nth_error l (S p)) near_pairs.
Proof.
  intros H. assert (small : forall p a, nth_error l p = Some a -> In a ten).
  { intros k a E. apply nth_error_In in E. apply in_ten. revert a E. apply Forall_forall, H. }
  destruct (nth_error l p) as [d|] eqn:E.
  - right. apply in_flat_map. exists d. split; [apply (small p), E|]. apply in_map, in_maybe, small.
  - left. f_equal. symmetry. apply nth_error_None. apply nth_error_None in E. lia.
Qed.

Lemma rule_digits o r c X Y size s : In r (rules_of o) -> all_digits X -> all_digits Y ->
  (forall p, p < size -> fits r c X Y size s p) ->
  forall p q, nth_error (write_row (step r) c X Y size) p = Some q ->
  In (q, digit_view (sign_token o) (kind r) (nth_error X p) (nth_error X (S p))
      (nth_error Y p) (nth_error Y (S p)) q,
    nth (S p) (write_row (step r) c X Y size ++ [s]) END) (contexts_of o).
Proof.
  intros Hr HX HY H p q Hq. apply write_nth_error in Hq. destruct Hq as [Hp ->].
  destruct (H p Hp) as (Hc & Hpos & Hgo & Hend). unfold contexts_of. rewrite !in_app_iff. right.
  right.
  apply in_flat_map. exists r. split; [exact Hr|].
  apply in_flat_map. eexists. split; [apply (in_near_pairs X p), HX|].
  apply in_flat_map. eexists. split; [apply (in_near_pairs Y p), HY|]. cbv zeta. cbn [fst snd].
  apply in_flat_map. exists (carry_at (step r) c X Y p). split; [exact Hc|]. fold (near_at X Y p).
  replace (possible r true _ _ || _) with true
    by (destruct (p =? 0); rewrite Hpos, ?orb_true_r; reflexivity).
  left. unfold digit_context. cbn [x_ x_next y_ y_next near_at]. fold (near_at X Y p).
  rewrite !value_at. unfold place_at. cbn [carry_at] in Hgo, Hend.
  destruct (step r (nth p X 0) (nth p Y 0) (carry_at (step r) c X Y p)) as [q c'] eqn:Ec.
  cbn [fst snd] in *. rewrite Hgo. f_equal. destruct (Nat.ltb_spec (S p) size) as [Hlt|Hge].
  - rewrite app_nth1, write_nth by (rewrite ?write_length; exact Hlt).
    unfold place_at. cbn [carry_at]. rewrite Ec. reflexivity.
  - rewrite app_nth2; rewrite write_length; [|exact Hge].
    replace (S p - size) with 0 by lia. apply Hend. lia.
Qed.

Lemma natural_at l p : plain l -> natural (p =? 0) (nth_error l p) (nth_error l (S p)) = true.
Proof.
  intros [_ Hs Ht]. rewrite !nth_error_spec. unfold natural.
  destruct (Nat.ltb_spec p (length l)), (Nat.ltb_spec (S p) (length l)), (Nat.eqb_spec p 0);
    cbn [orb andb negb is_some]; try lia; try reflexivity.
  destruct Ht as [Ht|Ht]; [lia|]. replace (length l - 1) with p in Ht by lia. apply Nat.leb_le. lia.
Qed.

Lemma fixed_near_at e X Y p : plain Y ->
  fixed_near (p =? 0) (near_at X Y p) (carry_at e 0 X Y p) = true.
Proof.
  intros HY. unfold fixed_near, near_at. cbn [y_ y_next]. rewrite natural_at by assumption.
  destruct p; reflexivity.
Qed.

Lemma in_01 c : c <= 1 -> In c [0; 1].
Proof. intros H. destruct c as [|[|c]]; cbn; auto; lia. Qed.

(** Go through the cases of which digits are there, but for impossible ones. *)
Ltac places :=
  unfold near_at, top; cbn [x_ x_next y_ y_next]; rewrite ?value_at, ?nth_error_spec;
  repeat match goal with |- context [?a <? ?b] => destruct (Nat.ltb_spec a b); try lia end;
  cbn [is_some andb orb negb eqb value_of at_most]; try reflexivity.
Ltac rule_cases r := unfold fits, r; cbn [step carries_in possible goes_on ends]; repeat split.

Definition longer (X Y : list nat) : nat := Nat.max (length X) (length Y).

Lemma beyond l p : length l <= p -> nth p l 0 = 0.
Proof. apply nth_overflow. Qed.

Lemma beyond_both X Y p : longer X Y <= p ->
  near_at X Y p = Near None None None None /\ nth p X 0 = 0 /\ nth p Y 0 = 0.
Proof.
  unfold longer, near_at. intros H. rewrite !beyond by lia.
  rewrite !(fun l k => proj2 (nth_error_None l k)) by lia. auto.
Qed.

(** The first row of a product or quotient. *)
Lemma first_fits Y longer d p : plain Y -> d < 10 -> (longer = false -> d = 0) ->
  let size := if longer then S (length Y) else length Y in
  p < size -> fits (first_rule longer) d [] Y size PLUS p.
Proof.
  cbv zeta. intros HY Hd H0 Hp.
  assert (Hc : carry_at move_ d [] Y p = if p =? 0 then d else 0)
    by (destruct p as [|[|p]]; reflexivity).
  rule_cases first_rule; rewrite ?Hc; unfold near_at; cbn [x_ x_next y_ y_next].
  - destruct longer; [|rewrite H0 by reflexivity; destruct p; left; reflexivity].
    apply in_ten. destruct p; cbn; lia.
  - rewrite natural_at by exact HY.
    rewrite !(fun k => proj2 (nth_error_None (@nil nat) k)) by (cbn; lia).
    destruct longer; [destruct p; reflexivity|]. places. destruct p; reflexivity.
  - destruct longer; places.
Qed.

Section Rules.
  Variables X Y : list nat.
  Hypothesis digits_X : all_digits X.
  Hypothesis plain_Y : plain Y.
  Let digits_Y : all_digits Y := plain_digits Y plain_Y.
  Let size := S (length Y).

  (** A sum has one place more if it carries out. *)
  Definition sum_size : nat := longer X Y + carry_at plus_ 0 X Y (longer X Y).

  Lemma sum_fits k possible_ p : p < sum_size ->
    possible_ (p =? 0) (near_at X Y p) (carry_at plus_ 0 X Y p) = true ->
    fits (sum_rule k plus_ true possible_) 0 X Y sum_size PLUS p.
  Proof.
    intros Hp Hpos. pose proof (carry_plus 0 X Y (longer X Y) ltac:(lia) digits_X digits_Y) as Hm.
    unfold sum_size in *. rule_cases sum_rule.
    - apply in_01, carry_plus; auto.
    - rewrite fixed_near_at, Hpos by assumption. cbn [andb].
      destruct (Nat.eq_dec p (longer X Y)) as [->|Hne]; [|unfold longer in *; places].
      rewrite (proj2 (Nat.ltb_lt _ _)) by lia. apply orb_true_r.
    - destruct (Nat.lt_trichotomy (S p) (longer X Y)) as [H|[H|H]]; [unfold longer in *; places| |].
      + rewrite H. unfold longer in *; places.
      + assert (p = longer X Y) as -> by lia. cbn [carry_at].
        destruct (beyond_both X Y (longer X Y) (le_n _)) as (-> & -> & ->).
        replace (carry_at plus_ 0 X Y (longer X Y)) with 1 by lia.
        destruct (Nat.ltb_spec (S (longer X Y)) (longer X Y + 1)); [lia|reflexivity].
  Qed.

  (** A difference is as long as the longer number. *)
  Definition minus_sign : token :=
    if carry_at minus_ 0 X Y (longer X Y) =? 0 then PLUS else MINUS.

  Lemma minus_fits k possible_ p : p < longer X Y ->
    possible_ (p =? 0) (near_at X Y p) (carry_at minus_ 0 X Y p) = true ->
    fits (sum_rule k minus_ false possible_) 0 X Y (longer X Y) minus_sign p.
  Proof.
    intros Hp Hpos. rule_cases sum_rule.
    - apply in_01, minus_number; assumption.
    - rewrite fixed_near_at, Hpos by assumption. unfold longer in *; places.
    - unfold longer in *; places.
    - intros ->. reflexivity.
  Qed.

  (** ** Differences below 0 *)

  Lemma negate_fits p : let D := write_row negate_ 0 X Y (length Y) in
    length X = length Y -> (0 < num D <= num Y)%N ->
    p < length Y -> fits negate_rule 0 X Y (length Y) PLUS p.
  Proof.
    cbv zeta. intros HX HD Hp.
    destruct (minus_number [] X p (Forall_nil _) digits_X) as [E Hc].
    rewrite <- negate_is with (Y := Y), <- carry_negate with (Y := Y), firstn_nil in E.
    rewrite <- carry_negate with (Y := Y) in Hc. rule_cases negate_rule.
    - apply in_01, Hc.
    - rewrite fixed_near_at by assumption. unfold near_at. cbn [x_ x_next y_ y_next].
      rewrite !value_at, !nth_error_spec, HX.
      destruct (Nat.ltb_spec p (length Y)), (Nat.ltb_spec (S p) (length Y)); try lia;
        cbn [is_some eqb andb orb value_of]; [reflexivity|].
      assert (Hs : length Y = S p) by lia. rewrite Hs in HD.
      change (fst (negate_ (nth p X 0) 0 (carry_at negate_ 0 X Y p)))
        with (place_at negate_ 0 X Y p).
      apply andb_true_iff. split.
      + apply Nat.leb_le. rewrite <- (write_nth _ _ _ _ (S p) p 0) by lia.
        apply top_le; [exact Hs|apply write_length|exact digits_Y|apply HD].
      + rewrite write_snoc, num_snoc in HD. cbn [number] in E. apply orb_true_iff.
        rewrite !Nat.ltb_lt. nia.
    - places.
  Qed.

  (** ** Products: a row is a multiple of the fixed number, of which only this is used *)

  Definition product_row : Prop :=
    1 <= length X
    /\ (num X = 0%N /\ (length X = length Y \/ length Y = 1 /\ nth 0 Y 0 = 0)
       \/ nth (length X - 1) X 0 <> 0 /\ (num Y <= num X)%N).

  Lemma product_length : product_row -> length Y <= length X.
  Proof.
    intros (Hs & [[_ [->|[-> _]]]|[Ht H]]); try lia.
    destruct (plain_top Y plain_Y) as [->|HY]; [exact Hs|].
    assert (num Y <> 0%N) as H0 by (intros E; apply HY, num_zero, E).
    pose proof (num_large Y (or_intror HY) (plain_size Y plain_Y) H0).
    pose proof (num_below X digits_X). assert (length Y - 1 < length X); [|lia].
    apply power_less. lia.
  Qed.

  Lemma product_near_at p c : product_row -> (num X = 0%N -> c = 0) ->
    product_near (p =? 0) (near_at X Y p) c = true.
  Proof.
    intros HP Hc. pose proof (product_length HP) as Hl. destruct HP as (Hs & HP).
    unfold product_near, near_at. rewrite !nth_error_spec.
    destruct (Nat.ltb_spec p (length X)), (Nat.ltb_spec (S p) (length X)),
      (Nat.ltb_spec p (length Y)), (Nat.ltb_spec (S p) (length Y)), (Nat.eqb_spec p 0); try lia;
      cbn [is_some andb orb negb eqb at_most]; rewrite ?orb_true_r; try reflexivity;
      destruct HP as [[Hz HP]|[Ht HP]]; try lia; unfold is_zero; cbn [value_of];
      rewrite ?(num_zero X _ Hz), ?(Hc Hz); try reflexivity.
    all: try (replace (length X - 1) with p in Ht by lia).
    all: try (rewrite (proj2 (Nat.leb_le _ _)) by (apply top_le; auto; lia)).
    all: try (destruct (nth p X 0); [congruence|]; rewrite ?orb_true_r; reflexivity).
    all: destruct HP as [HP|[HP HY]]; try lia; subst p; rewrite HY; reflexivity.
  Qed.

  Lemma product_shift_fits p : product_row -> p < S (length X) ->
    fits product_shift 0 X Y (S (length X)) PLUS p.
  Proof.
    intros HP Hp. rule_cases product_shift.
    - apply in_ten. destruct p; [cbn; lia|apply nth_digit, digits_X].
    - rewrite fixed_near_at by assumption. apply product_near_at; [exact HP|].
      intros H0. destruct p; [reflexivity|]. apply num_zero, H0.
    - places.
  Qed.

  Lemma product_step_fits p : product_row -> p < sum_size ->
    fits (sum_rule STEP plus_ true product_near) 0 X Y sum_size PLUS p.
  Proof.
    intros HP Hp. apply sum_fits; [exact Hp|]. apply product_near_at; [exact HP|]. intros H0.
    clear Hp. induction p as [|p IH]; [reflexivity|]. cbn [carry_at plus_ snd].
    rewrite IH, num_zero by exact H0. apply Nat.div_small. pose proof (nth_digit Y p digits_Y). lia.
  Qed.

  (** ** Quotients: rows are one digit longer than the fixed number *)

  Hypothesis length_X : length X = size.

  Lemma longer_near_at p : p < size -> longer_near (near_at X Y p) = true.
  Proof. unfold size in *. intros Hp. unfold longer_near. places. Qed.

  (** The row before a shift is smaller. *)
  Lemma top_zero : (num X < num Y)%N -> nth (length Y) X 0 = 0.
  Proof.
    intros H. rewrite (num_top X _ length_X) in H. pose proof (num_below Y digits_Y). nia.
  Qed.

  Lemma quotient_shift_fits d p : (num X < num Y)%N -> d < 10 -> p < size ->
    fits quotient_shift d X Y size PLUS p.
  Proof.
    intros Hlt Hd Hp. pose proof (top_zero Hlt) as Ht. rule_cases quotient_shift.
    - apply in_ten. destruct p; [exact Hd|apply nth_digit, digits_X].
    - rewrite longer_near_at by exact Hp. cbn [near_at y_ y_next].
      rewrite natural_at by exact plain_Y. unfold size, is_zero in *. places.
      + assert (S p = length Y) as Ep by lia. rewrite Ep, Ht. apply Nat.leb_le.
        rewrite (num_top X _ length_X), Ht, <- Ep, num_firstn, (num_top Y p (eq_sym Ep)) in Hlt.
        apply (digit_le (power p) (num (firstn p X)) _ _ _ (num_firstn_below Y p digits_Y)). lia.
      + assert (p = length Y) as -> by lia. rewrite Ht. reflexivity.
    - unfold size in *. places.
  Qed.

  Lemma quotient_step_fits p : (num X < 10 * num Y)%N -> p < size ->
    fits quotient_step 0 X Y size minus_sign p.
  Proof.
    intros Hlt Hp. assert (Hm : longer X Y = size) by (unfold longer, size in *; lia).
    rewrite <- Hm in Hp |- *. apply minus_fits; [exact Hp|]. rewrite longer_near_at by lia.
    unfold size in *. places. assert (S p = length Y) as Ep by lia. rewrite Ep. apply Nat.leb_le.
    rewrite (num_top X _ length_X), (num_top Y p (eq_sym Ep)), <- Ep, power_S in Hlt.
    pose proof (num_firstn_below Y p digits_Y). rewrite Ep in Hlt.
    apply (digit_le (10 * power p) (num (firstn (length Y) X)) (10 * num (firstn p Y))); lia.
  Qed.

  (** The sum is not below 0, so it carries out of the top, and into it. *)
  Lemma quotient_repair_fits p : (power size <= num X + num Y)%N -> p < size ->
    fits quotient_repair 0 X Y size PLUS p.
  Proof.
    intros Hle Hp. pose proof (num_below Y digits_Y) as HY.
    pose proof (nth_digit X (length Y) digits_X) as H10.
    assert (Ht : nth (length Y) X 0 = 9).
    { unfold size in Hle. rewrite (num_top X _ length_X), power_S in Hle.
      pose proof (num_firstn_below X (length Y) digits_X).
      assert (8 < nth (length Y) X 0); [|lia]. apply Nat.nle_gt. intros H8. nia. }
    assert (Hin : 10 <= 9 + carry_at plus_ 0 X Y (length Y)).
    { pose proof (plus_number 0 X Y size) as E.
    rewrite !firstn_all2 in E by (unfold size in *; lia).
      pose proof (num_below _ (plus_digits 0 X Y size)) as Hw. rewrite write_length in Hw.
      pose proof (carry_plus 0 X Y size ltac:(lia) digits_X digits_Y) as Hc.
      unfold size in E, Hw, Hc. cbn [carry_at plus_ snd] in E, Hc.
      rewrite Ht, (beyond Y), Nat.add_0_r in E by lia.
      destruct (Nat.le_gt_cases 10 (9 + carry_at plus_ 0 X Y (length Y))) as [|Hgt]; [assumption|].
      rewrite Nat.div_small in E by exact Hgt. unfold size in Hle. lia. }
    rule_cases quotient_repair.
    - apply in_01, carry_plus; auto.
    - rewrite fixed_near_at, longer_near_at by assumption. unfold size in *. places.
      + assert (S p = length Y) as Ep by lia. rewrite Ep, Ht. apply Nat.leb_le.
        rewrite <- Ep in Hin.
        cbn [carry_at plus_ snd] in Hin.
        destruct (Nat.le_gt_cases 10 (nth p X 0 + nth p Y 0 + carry_at plus_ 0 X Y p)) as [|Hgt];
          [assumption|]. rewrite Nat.div_small in Hin by exact Hgt. lia.
      + assert (p = length Y) as -> by lia. rewrite Ht, (beyond Y) by lia. apply Nat.leb_le. lia.
    - unfold size in *. places.
  Qed.
End Rules.
