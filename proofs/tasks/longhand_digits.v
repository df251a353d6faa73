(** The digits of rows: each place is in one of the contexts. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits.
From Carry Require Import tasks.longhand_rows tasks.longhand_contexts tasks.longhand_numbers.
Import ListNotations.

Definition near_at (X Y : list nat) (p : nat) : near :=
  Near (nth_error X p) (nth_error X (S p)) (nth_error Y p) (nth_error Y (S p)).

(** A rule describes a place of a row. *)
Definition fits (r : rule) (c : nat) (X Y : list nat) (size : nat) (sign : token) (p : nat) : Prop
  :=
  let carry := carry_at (step r) c X Y in
  In (carry p) (carries r) /\ possible r (p =? 0) (near_at X Y p) (carry p) = true
  /\ goes_on r (near_at X Y p) (carry (S p)) = (S p <? size)
  /\ (S p = size -> ends r (carry (S p)) = sign).

Lemma nth_error_spec (l : list nat) p : nth_error l p = if p <? length l then Some (nth p l 0)
  else None.
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

Lemma digit_at_ten l p a : all_digits l -> nth_error l p = Some a -> In a ten.
Proof.
  intros H E. apply nth_error_In in E. unfold all_digits in H. rewrite Forall_forall in H.
  apply in_ten, H, E.
Qed.

Lemma in_near_pairs l p : all_digits l -> In (nth_error l p, nth_error l (S p)) near_pairs.
Proof.
  intros H. unfold near_pairs. destruct (nth_error l p) as [d|] eqn:E.
  - right. apply in_flat_map. exists d. split; [apply (digit_at_ten l p); assumption|].
    apply in_map, in_maybe. intros a Ha. apply (digit_at_ten l (S p)); assumption.
  - left. f_equal. symmetry. apply nth_error_None. apply nth_error_None in E. lia.
Qed.

Lemma rule_digits o r c X Y size sign : In r (rules_of o) -> all_digits X -> all_digits Y ->
  (forall p, p < size -> fits r c X Y size sign p) ->
  forall p q, nth_error (write_row (step r) c X Y size) p = Some q ->
  In (q, digit_view (sign_token o) (kind r) (nth_error X p) (nth_error X (S p)) (nth_error Y p)
    (nth_error Y (S p)) q,
    nth (S p) (write_row (step r) c X Y size ++ [sign]) END) (contexts_of o).
Proof.
  intros Hr HX HY H p q Hq. apply write_nth_error in Hq. destruct Hq as [Hp ->].
  destruct (H p Hp) as (Hc & Hpos & Hgo & Hend).
  unfold contexts_of. apply in_or_app. right. apply in_or_app. right.
  apply in_flat_map. exists r. split; [exact Hr|].
  apply in_flat_map. eexists. split; [apply (in_near_pairs X p), HX|].
  apply in_flat_map. eexists. split; [apply (in_near_pairs Y p), HY|]. cbv zeta. cbn [fst snd].
  apply in_flat_map. exists (carry_at (step r) c X Y p). split; [exact Hc|]. unfold near_at in Hpos.
  assert (E : forall b, (p =? 0) = b -> possible r b _ _ = true) by (intros b <-; exact Hpos).
  match goal with |- In _ (if ?b then _ else _) => replace b with true end.
  2:{ destruct (p =? 0) eqn:Ep; rewrite (E _ eq_refl); [reflexivity|symmetry; apply orb_true_r]. }
  left. unfold digit_context. fold (near_at X Y p). cbn [x_ x_next y_ y_next near_at].
  rewrite !value_at.
  unfold place_at. cbn [carry_at] in Hgo, Hend.
  destruct (step r (nth p X 0) (nth p Y 0) (carry_at (step r) c X Y p)) as [q c'] eqn:Ec.
  cbn [fst snd] in *. fold (near_at X Y p). rewrite Hgo. f_equal. unfold write_row.
  destruct (Nat.ltb_spec (S p) size) as [Hlt|Hge].
  - rewrite app_nth1 by (rewrite map_length, seq_length; exact Hlt).
    fold (write_row (step r) c X Y size).
    rewrite (nth_indep _ END 0) by (rewrite write_length; exact Hlt).
    rewrite write_nth by exact Hlt.
    unfold place_at. cbn [carry_at]. rewrite Ec. reflexivity.
  - rewrite app_nth2; rewrite map_length, seq_length; [|exact Hge].
    replace (S p - size) with 0 by lia. apply Hend. lia.
Qed.

(** * Numbers without leading zeros *)

Record plain (l : list nat) : Prop := Plain {
  plain_digits : all_digits l;
  plain_size : 1 <= length l;
  plain_top : length l = 1 \/ nth (length l - 1) l 0 <> 0 }.

Lemma last_nth (l : list nat) : last l 0 = nth (length l - 1) l 0.
Proof.
  induction l as [|d [|d' l] IH]; try reflexivity.
  change (last (d :: d' :: l) 0) with (last (d' :: l) 0).
  rewrite IH. cbn [length nth]. rewrite !Nat.sub_succ, !Nat.sub_0_r. reflexivity.
Qed.

Lemma plain_number n : plain (digits 10 n).
Proof.
  split.
  - apply Forall_forall. intros d H. apply digits_below in H; lia.
  - rewrite digits_step by lia. cbn. lia.
  - destruct (Nat.eq_dec (length (digits 10 n)) 1) as [|Hne]; [left; assumption|right].
    intros H. rewrite <- last_nth in H. apply no_leading_zero in H; [|lia]. subst n. apply Hne.
    reflexivity.
Qed.

Lemma natural_at l p : plain l ->
  natural (p =? 0) (nth_error l p) (nth_error l (S p)) = true.
Proof.
  intros [_ Hs Ht]. rewrite !nth_error_spec. unfold natural.
  destruct (Nat.ltb_spec p (length l)), (Nat.ltb_spec (S p) (length l)), (Nat.eqb_spec p 0);
    cbn [orb andb negb is_some]; try lia; try reflexivity.
  destruct Ht as [Ht|Ht]; [lia|]. replace (length l - 1) with p in Ht by lia. apply Nat.leb_le. lia.
Qed.

(** A number without leading zeros is smaller if it is shorter, and if its top digit is smaller. *)
Lemma num_large l : length l = 1 \/ nth (length l - 1) l 0 <> 0 -> 1 <= length l ->
  num l <> 0%N -> (power (length l - 1) <= num l)%N.
Proof.
  intros Ht Hs H0. rewrite (num_top l (length l - 1)) in * by lia. destruct Ht as [Ht|Ht]; [|nia].
  rewrite Ht in *. change (power (1 - 1)) with 1%N in *. lia.
Qed.

Lemma power_le j k : (power j < power k)%N -> j < k.
Proof.
  intros H. apply Nat.nle_gt. intros Hle.
  apply (N.pow_le_mono_r 10 (N.of_nat k) (N.of_nat j)) in Hle || idtac.
  unfold power in H. assert (10 ^ N.of_nat k <= 10 ^ N.of_nat j)%N by (apply N.pow_le_mono_r; lia).
  lia.
Qed.

Lemma top_le X Y k : length X = S k -> length Y = S k -> all_digits X -> (num Y <= num X)%N ->
  nth k Y 0 <= nth k X 0.
Proof.
  intros HX HY dX H. rewrite (num_top X k HX), (num_top Y k HY) in H.
  pose proof (num_firstn_below X k dX). pose proof (power_1 k).
  destruct (Nat.le_gt_cases (nth k Y 0) (nth k X 0)) as [|Hgt]; [assumption|]. exfalso. nia.
Qed.

Lemma plain_shorter X Y : plain X -> plain Y -> (num X < num Y)%N -> length X <= length Y.
Proof.
  intros [dX sX tX] [dY sY tY] H. destruct (N.eq_dec (num X) 0) as [E|Hne].
  - destruct tX as [tX|tX]; [lia|]. exfalso. apply tX, num_zero, E.
  - pose proof (num_large X tX sX Hne). pose proof (num_below Y dY).
    assert (length X - 1 < length Y); [|lia]. apply power_le. lia.
Qed.

(** * Carries *)

Lemma carry_plus c X Y k : c <= 1 -> all_digits X -> all_digits Y -> carry_at plus_ c X Y k <= 1.
Proof.
  intros Hc HX HY. induction k as [|k IH]; [exact Hc|]. cbn [carry_at].
  apply plus_step; [apply nth_digit, HX|apply nth_digit, HY|exact IH].
Qed.

Lemma in_01 c : c <= 1 -> In c [0; 1].
Proof. intros H. destruct c as [|[|c]]; cbn; auto; lia. Qed.

Lemma fixed_near_at e X Y p : plain Y ->
  fixed_near (p =? 0) (near_at X Y p) (carry_at e 0 X Y p) = true.
Proof.
  intros HY. unfold fixed_near, near_at. cbn [y_ y_next]. rewrite natural_at by assumption.
  destruct p; reflexivity.
Qed.

Lemma plus_digits c X Y size : c <= 1 -> all_digits X -> all_digits Y ->
  all_digits (write_row plus_ c X Y size).
Proof.
  intros Hc HX HY. apply Forall_forall. intros d Hd. apply in_map_iff in Hd.
  destruct Hd as (k & <- & _).
  apply plus_step; [apply nth_digit, HX|apply nth_digit, HY|apply carry_plus; assumption].
Qed.

Lemma minus_digits X Y size : all_digits X -> all_digits Y ->
  all_digits (write_row minus_ 0 X Y size).
Proof.
  intros HX HY. apply Forall_forall. intros d Hd. apply in_map_iff in Hd.
  destruct Hd as (k & <- & _).
  apply minus_step; [apply nth_digit, HX|apply nth_digit, HY|apply minus_number; assumption].
Qed.

Lemma move_digits d X Y size : d < 10 -> all_digits X -> all_digits (write_row move_ d X Y size).
Proof.
  intros Hd HX. apply Forall_forall. intros e He. apply in_map_iff in He.
  destruct He as ([|k] & <- & _);
    [exact Hd|apply nth_digit, HX].
Qed.

(** * Rules *)

Ltac places := rewrite ?nth_error_spec; repeat match goal with
  | |- context [?a <? ?b] => destruct (Nat.ltb_spec a b); try lia
  end; cbn [is_some andb orb negb eqb value_of].

Definition longer (X Y : list nat) : nat := Nat.max (length X) (length Y).

Section Rules.
  Variables X Y : list nat.
  Hypothesis digits_X : all_digits X.
  Hypothesis plain_Y : plain Y.
  Let digits_Y : all_digits Y := plain_digits Y plain_Y.
  Let most := longer X Y.

  Lemma beyond l p : length l <= p -> nth p l 0 = 0.
  Proof. apply nth_overflow. Qed.

  (** A sum has one place more if it carries out. *)
  Definition sum_size : nat := most + carry_at plus_ 0 X Y most.

  Lemma sum_size_1 : 1 <= length Y -> 0 < sum_size.
  Proof. unfold sum_size, most, longer. lia. Qed.

  Lemma sum_fits k possible_ :
    (forall p, p < sum_size -> possible_ (p =? 0) (near_at X Y p) (carry_at plus_ 0 X Y p)
      = true) ->
    forall p, p < sum_size -> fits (sum_rule k plus_ true possible_) 0 X Y sum_size PLUS p.
  Proof.
    intros Hpos p Hp. specialize (Hpos p Hp). unfold fits, sum_rule.
    cbn [step carries possible goes_on ends].
    pose proof (carry_plus 0 X Y most ltac:(lia) digits_X digits_Y) as Hm. unfold sum_size in *.
    repeat split.
    - apply in_01, carry_plus; auto.
    - rewrite fixed_near_at, Hpos by assumption. unfold near_at. cbn [x_ y_ andb].
      destruct (Nat.eq_dec p most) as [->|Hne].
      + replace (0 <? carry_at plus_ 0 X Y most) with true by (symmetry; apply Nat.ltb_lt; lia).
        rewrite !orb_true_r. reflexivity.
      + unfold most, longer in *. places; reflexivity.
    - unfold near_at. cbn [x_next y_next andb].
      destruct (Nat.lt_trichotomy (S p) most) as [H|[H|H]].
      + unfold most, longer in *. places; reflexivity.
      + rewrite H in *. rewrite !(fun l => proj2 (nth_error_None l most)) by (unfold most, longer;
          lia).
        cbn [is_some orb]. destruct (Nat.ltb_spec 0 (carry_at plus_ 0 X Y most)),
          (Nat.ltb_spec most (most + carry_at plus_ 0 X Y most)); lia || reflexivity.
      + assert (p = most) as -> by lia. cbn [carry_at].
        rewrite !beyond by (unfold most, longer; lia).
        rewrite !(fun l => proj2 (nth_error_None l (S most))) by (unfold most, longer; lia).
        cbn [is_some orb]. replace (carry_at plus_ 0 X Y most) with 1 by lia. cbn [plus_ snd].
        destruct (Nat.ltb_spec (S most) (most + 1)); [lia|reflexivity].
  Qed.

  (** A difference is as long as the longer number. *)
  Definition minus_sign : token := if carry_at minus_ 0 X Y most =? 0 then PLUS else MINUS.

  Lemma minus_fits k possible_ :
    (forall p, p < most -> possible_ (p =? 0) (near_at X Y p) (carry_at minus_ 0 X Y p) = true) ->
    forall p, p < most -> fits (sum_rule k minus_ false possible_) 0 X Y most minus_sign p.
  Proof.
    intros Hpos p Hp. specialize (Hpos p Hp). unfold fits, sum_rule.
    cbn [step carries possible goes_on ends].
    repeat split.
    - apply in_01, minus_number; assumption.
    - rewrite fixed_near_at, Hpos by assumption. unfold near_at. cbn [x_ y_ andb].
      unfold most, longer in *. places; reflexivity.
    - unfold near_at. cbn [x_next y_next andb]. unfold most, longer in *. places; reflexivity.
    - intros ->. reflexivity.
  Qed.

  (** The first row of a product or quotient. *)
  Lemma first_fits longer d p : d < 10 -> (longer = false -> d = 0) ->
    let size := if longer then S (length Y) else length Y in
    p < size -> fits (first_rule longer) d [] Y size PLUS p.
  Proof.
    clear most digits_X. clear X. cbv zeta. intros Hd H0 Hp. unfold fits, first_rule.
    cbn [step carries possible goes_on ends].
    assert (Hc : carry_at move_ d [] Y p = if p =? 0 then d else 0) by (destruct p as [|[|p]];
      reflexivity).
    rewrite Hc. repeat split.
    - destruct longer.
      + destruct p; apply in_seq; cbn; lia.
      + rewrite H0 by reflexivity. destruct p; left; reflexivity.
    - unfold near_at. cbn [x_ x_next y_ y_next]. rewrite natural_at by assumption.
      rewrite !(fun k => proj2 (nth_error_None (@nil nat) k)) by (cbn; lia). cbn [is_some negb].
      destruct longer; [destruct p; reflexivity|]. places. destruct p; reflexivity.
    - unfold near_at. cbn [y_ y_next]. destruct longer; places; reflexivity.
  Qed.

(** ** Differences below 0 *)

  Lemma carry_negate p : carry_at negate_ 0 X Y p = carry_at minus_ 0 [] X p.
  Proof. induction p as [|p IH]; [reflexivity|]. cbn [carry_at]. rewrite IH.
  destruct p; reflexivity. Qed.

  Lemma negate_number size : length X = size ->
    (num (write_row negate_ 0 X Y size) + num X
      = power size * N.of_nat (carry_at negate_ 0 X Y size))%N
    /\ carry_at negate_ 0 X Y size <= 1.
  Proof.
    intros H. destruct (minus_number [] X size (Forall_nil _) digits_X) as [E Hc].
    rewrite carry_negate. split; [|exact Hc].
    rewrite (firstn_all2 (n := size) X), firstn_nil in E by lia. rewrite N.add_0_l in E.
    rewrite <- E. do 2 f_equal.
    apply map_ext. intros k. unfold place_at. rewrite carry_negate. destruct k; reflexivity.
  Qed.

  Lemma negate_digits size : all_digits (write_row negate_ 0 X Y size).
  Proof.
    apply Forall_forall. intros d Hd. apply in_map_iff in Hd. destruct Hd as (k & <- & _).
    apply minus_step; [lia|apply nth_digit, digits_X|]. rewrite carry_negate.
    apply minus_number; [constructor|exact digits_X].
  Qed.

  Lemma negate_fits p : let D := write_row negate_ 0 X Y (length Y) in
    length X = length Y -> (0 < num D <= num Y)%N ->
    p < length Y -> fits negate_rule 0 X Y (length Y) PLUS p.
  Proof.
    cbv zeta. intros HX HD Hp. unfold fits, negate_rule. cbn [step carries possible goes_on ends].
    assert (Hc : forall k, carry_at negate_ 0 X Y k <= 1)
      by (intros k; rewrite carry_negate; apply minus_number; [constructor|exact digits_X]).
    repeat split.
    - apply in_01, Hc.
    - rewrite fixed_near_at by assumption. unfold near_at. cbn [x_ x_next y_ y_next].
      rewrite !value_at, !nth_error_spec, HX.
      destruct (Nat.ltb_spec p (length Y)), (Nat.ltb_spec (S p) (length Y)); try lia;
        cbn [is_some eqb andb orb]; [reflexivity|].
      assert (Hs : length Y = S p) by lia. rewrite Hs in HD.
      set (D := write_row negate_ 0 X Y (S p)) in *.
      assert (Hd : nth p D 0 = place_at negate_ 0 X Y p) by (apply write_nth; lia).
      change (fst (negate_ (nth p X 0) 0 (carry_at negate_ 0 X Y p)))
        with (place_at negate_ 0 X Y p).
      rewrite <- Hd. apply andb_true_iff. split.
      + apply Nat.leb_le, top_le; [exact Hs|apply write_length|exact digits_Y|apply HD].
      + destruct (Nat.ltb_spec 0 (nth p D 0)); [reflexivity|]. cbn [orb]. apply Nat.ltb_lt.
        assert (carry_at negate_ 0 X Y p <> 0); [|lia]. intros none.
        destruct (minus_number [] X p (Forall_nil _) digits_X) as [E _].
        rewrite <- carry_negate, none, firstn_nil in E.
        assert (Hz : num (write_row negate_ 0 X Y p) = 0%N).
        { replace (write_row negate_ 0 X Y p) with (write_row minus_ 0 [] X p).
          - cbn [number] in E. lia.
          - apply map_ext. intros k. unfold place_at. rewrite carry_negate.
            destruct k; reflexivity. }
        unfold D in HD. rewrite write_snoc, num_snoc, Hz, <- Hd in HD. lia.
    - unfold near_at. cbn [x_next]. rewrite nth_error_spec, HX.
      destruct (Nat.ltb_spec (S p) (length Y)); reflexivity.
  Qed.

    (** ** Products: a row is a multiple of the fixed number, of which only this is used *)

  Definition product_row : Prop :=
    1 <= length X
    /\ (num X = 0%N /\ (length X = length Y \/ length Y = 1 /\ nth 0 Y 0 = 0)
       \/ nth (length X - 1) X 0 <> 0 /\ (num Y <= num X)%N).

  Lemma product_length : product_row -> length Y <= length X.
  Proof.
    intros (Hs & [[_ [->|[-> _]]]|[Ht H]]); try lia.
    destruct (Nat.le_gt_cases (length Y) (length X)) as [|Hgt]; [assumption|exfalso].
    pose proof (num_below X digits_X) as HX.
    assert (num Y <> 0%N) as H0.
    { destruct (plain_top Y plain_Y) as [H1|HY]; [lia|]. intros E. apply HY, num_zero, E. }
    pose proof (num_large Y (plain_top Y plain_Y) (plain_size Y plain_Y) H0) as HY.
    assert (length Y - 1 < length X); [|lia]. apply power_le. lia.
  Qed.

  Lemma product_near_at p c : product_row -> (num X = 0%N -> c = 0) ->
    product_near (p =? 0) (near_at X Y p) c = true.
  Proof.
    intros HP Hc. pose proof (product_length HP) as Hl. destruct HP as (Hs & HP).
    unfold product_near, near_at. rewrite !nth_error_spec.
    assert (Hp : (p =? 0) = true -> p < length X) by (intros E; apply Nat.eqb_eq in E; lia).
    assert (H1 : forall a b, (is_some (if a <? b then Some (nth a X 0) else None)) = (a <? b))
      by (intros a b; destruct (a <? b); reflexivity).
    destruct HP as [[H0 HP]|[Ht HP]].
    - rewrite Hc by exact H0. unfold is_zero. rewrite !(fun k => num_zero X k H0).
      destruct HP as [HP|[HP HY]].
      + rewrite <- HP. destruct (Nat.ltb_spec p (length X)), (Nat.ltb_spec (S p) (length X)),
          (p =? 0); cbn; try lia;
          try reflexivity; discriminate (Hp eq_refl) || (specialize (Hp eq_refl); lia).
      + rewrite HP in *. destruct (Nat.ltb_spec p (length X)), (Nat.ltb_spec (S p) (length X)),
          (Nat.ltb_spec p 1),
          (Nat.ltb_spec (S p) 1), (Nat.eqb_spec p 0); try lia; try subst p; rewrite ?HY;
            reflexivity.
    - destruct (Nat.ltb_spec p (length X)), (Nat.ltb_spec (S p) (length X)),
        (Nat.ltb_spec p (length Y)),
        (Nat.ltb_spec (S p) (length Y)), (Nat.eqb_spec p 0);
          cbn [is_some andb orb negb eqb at_most]; try lia; try reflexivity;
        rewrite ?orb_true_r; try reflexivity.
      all: replace (length X - 1) with p in Ht by lia.
      all: try (rewrite (proj2 (Nat.leb_le _ _)) by (apply top_le; auto; lia)).
      all: destruct (nth p X 0); [congruence|]; rewrite ?orb_true_r; reflexivity.
  Qed.

  (** A shift puts a digit below the row before. *)
  Lemma carry_move d p : carry_at move_ d X Y (S p) = nth p X 0.
  Proof. reflexivity. Qed.

  Lemma product_shift_fits p : product_row ->
    p < S (length X) -> fits product_shift 0 X Y (S (length X)) PLUS p.
  Proof.
    intros HP Hp. unfold fits, product_shift. cbn [step carries possible goes_on ends].
    assert (Hc : carry_at move_ 0 X Y p < 10) by (destruct p; [cbn; lia|apply nth_digit, digits_X]).
    repeat split.
    - apply in_ten, Hc.
    - rewrite fixed_near_at by assumption. apply product_near_at; [exact HP|].
      intros H0. destruct p; [reflexivity|]. apply num_zero, H0.
    - unfold near_at. cbn [x_]. places; reflexivity.
  Qed.

  Lemma carry_zero p : num X = 0%N -> carry_at plus_ 0 X Y p = 0.
  Proof.
    intros H0. induction p as [|p IH]; [reflexivity|]. cbn [carry_at plus_ snd].
    rewrite IH, num_zero by exact H0.
    apply Nat.div_small. pose proof (nth_digit Y p digits_Y). lia.
  Qed.

  Lemma product_step_fits p : product_row -> p < sum_size ->
    fits (sum_rule STEP plus_ true product_near) 0 X Y sum_size PLUS p.
  Proof.
    intros HP Hp. apply sum_fits; [|exact Hp]. intros k Hk.
    apply product_near_at; [exact HP|apply carry_zero].
  Qed.

  (** ** Quotients: rows are one digit longer than the fixed number *)

  Hypothesis nonzero : num Y <> 0%N.

  Lemma longer_near_at p : length X = S (length Y) -> p <= length Y -> longer_near (near_at X Y p)
    = true.
  Proof. intros HX Hp. unfold longer_near, near_at. cbn [x_ x_next y_]. places; reflexivity. Qed.

  Lemma Y_top : (power (length Y - 1) <= num Y)%N.
  Proof. apply num_large; [apply plain_Y..|exact nonzero]. Qed.

  Lemma power_pred k : 1 <= k -> power k = (10 * power (k - 1))%N.
  Proof. intros H. rewrite <- power_S. f_equal. lia. Qed.

  Lemma quotient_shift_fits d p : length X = S (length Y) -> (num X < num Y)%N -> d < 10 ->
    p < S (length Y) -> fits quotient_shift d X Y (S (length Y)) PLUS p.
  Proof.
    intros HX Hlt Hd Hp. unfold fits, quotient_shift. cbn [step carries possible goes_on ends].
    assert (Hc : carry_at move_ d X Y p < 10) by (destruct p; [exact Hd|apply nth_digit, digits_X]).
    pose proof (num_below Y digits_Y) as HY. pose proof (plain_size Y plain_Y) as Hs.
    assert (Ht : nth (length Y) X 0 = 0) by (rewrite (num_top X _ HX) in Hlt; nia).
    repeat split.
    - apply in_ten, Hc.
    - unfold near_at at 1 2. cbn [y_ y_next].
      rewrite natural_at, longer_near_at by (assumption || lia).
      unfold near_at, top, is_zero. cbn [x_ x_next y_ y_next andb]. rewrite !nth_error_spec.
      destruct (Nat.ltb_spec p (length Y)), (Nat.ltb_spec (S p) (length Y)); cbn [is_some orb];
        try lia; try reflexivity.
      + assert (S p = length Y) as Ep by lia. rewrite Ep, Ht.
        destruct (Nat.ltb_spec (length Y) (length X)), (Nat.ltb_spec p (length X)); try lia.
        cbn [value_of Nat.eqb andb negb orb at_most]. apply Nat.leb_le.
        assert (HXp : num X = (num (firstn p X) + power p * N.of_nat (nth p X O))%N).
        { rewrite (num_top X _ HX), <- Ep, num_firstn, Ep, Ht. lia. }
        rewrite HXp, (num_top Y p (eq_sym Ep)) in Hlt. pose proof (num_firstn_below Y p digits_Y).
        destruct (Nat.le_gt_cases (nth p X 0) (nth p Y 0)) as [|Hgt]; [assumption|exfalso]. nia.
      + assert (p = length Y) as -> by lia. rewrite Ht.
        destruct (Nat.ltb_spec (length Y) (length X)); [reflexivity|lia].
    - unfold near_at. cbn [y_]. places; reflexivity.
  Qed.

  Lemma quotient_step_fits p : length X = S (length Y) -> (num X < 10 * num Y)%N ->
    p < S (length Y) -> fits quotient_step 0 X Y (S (length Y)) minus_sign p.
  Proof.
    intros HX Hlt Hp. assert (Hm : most = S (length Y)) by (unfold most, longer; lia).
    rewrite <- Hm in Hp |- *.
    apply minus_fits; [|exact Hp]. intros k Hk. rewrite longer_near_at by lia.
    unfold near_at, top. cbn [x_ x_next y_ y_next]. rewrite !nth_error_spec.
    destruct (Nat.ltb_spec k (length Y)), (Nat.ltb_spec (S k) (length Y));
      cbn [is_some orb negb andb]; try lia; try reflexivity.
    assert (S k = length Y) as Ek by lia. rewrite Ek.
    destruct (Nat.ltb_spec (length Y) (length X)); [|lia].
    cbn [at_most]. apply Nat.leb_le. rewrite (num_top X _ HX), (num_top Y k (eq_sym Ek)), <- Ek,
      power_S in Hlt.
    pose proof (num_firstn_below Y k digits_Y). rewrite Ek in Hlt.
    destruct (Nat.le_gt_cases (nth (length Y) X 0) (nth k Y 0)) as [|Hgt]; [assumption|exfalso].
    nia.
  Qed.

  Lemma quotient_repair_fits p : length X = S (length Y) ->
    (power (S (length Y)) <= num X + num Y)%N ->
    p < S (length Y) -> fits quotient_repair 0 X Y (S (length Y)) PLUS p.
  Proof.
    intros HX Hle Hp. unfold fits, quotient_repair. cbn [step carries possible goes_on ends].
    pose proof (num_below Y digits_Y) as HY. pose proof (num_below X digits_X) as HX'.
    pose proof (plain_size Y plain_Y) as Hs.
    pose proof (nth_digit X (length Y) digits_X) as H10.
    assert (Ht : nth (length Y) X 0 = 9).
    { rewrite (num_top X _ HX), power_S in Hle. pose proof (num_firstn_below X (length Y) digits_X).
      assert (8 < nth (length Y) X 0); [|lia]. apply Nat.nle_gt. intros H8. nia. }
    (* all carries into the top place, and out of it *)
    pose proof (plus_number 0 X Y (S (length Y))) as Hsum.
    rewrite !firstn_all2 in Hsum by lia.
    pose proof (num_below (write_row plus_ 0 X Y (S (length Y)))) as Hw. rewrite write_length in Hw.
    assert (dw : all_digits (write_row plus_ 0 X Y (S (length Y)))) by (apply plus_digits; auto).
    specialize (Hw dw).
    assert (Hout : carry_at plus_ 0 X Y (S (length Y)) = 1).
    { pose proof (carry_plus 0 X Y (S (length Y)) ltac:(lia) digits_X digits_Y).
      destruct (carry_at plus_ 0 X Y (S (length Y))) as [|[|?]]; [|reflexivity|lia]. lia. }
    assert (Hin : 10 <= 9 + carry_at plus_ 0 X Y (length Y)).
    { cbn [carry_at plus_ snd] in Hout. rewrite Ht, (beyond Y) in Hout by lia.
      destruct (Nat.le_gt_cases 10 (9 + 0 + carry_at plus_ 0 X Y (length Y))) as [|Hgt]; [lia|].
      rewrite Nat.div_small in Hout by exact Hgt. discriminate. }
    repeat split.
    - apply in_01, carry_plus; auto.
    - rewrite fixed_near_at, longer_near_at by (assumption || lia).
      unfold near_at, top. cbn [x_ x_next y_ y_next andb]. rewrite !value_at, !nth_error_spec.
      destruct (Nat.ltb_spec p (length Y)), (Nat.ltb_spec (S p) (length Y)); cbn [is_some orb];
        try lia; try reflexivity.
      + assert (S p = length Y) as Ep by lia. rewrite Ep, Ht.
        destruct (Nat.ltb_spec (length Y) (length X)); [|lia].
        apply Nat.leb_le. rewrite <- Ep in Hin. cbn [carry_at plus_ snd] in Hin.
        destruct (Nat.le_gt_cases 10 (nth p X 0 + nth p Y 0 + carry_at plus_ 0 X Y p)) as [|Hgt];
          [assumption|].
        rewrite Nat.div_small in Hin by exact Hgt. lia.
      + assert (p = length Y) as -> by lia. rewrite Ht, (beyond Y) by lia.
        destruct (Nat.ltb_spec (length Y) (length X)); [|lia].
        apply Nat.leb_le. lia.
    - unfold near_at. cbn [x_next]. places; reflexivity.
  Qed.
End Rules.
