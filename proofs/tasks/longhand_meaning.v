(** What the rows of a calculation say: the last number is the sum, the difference, the product or
    the remainder; and the counts have the digits of a quotient. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits.
From Carry Require Import tasks.longhand_rows tasks.longhand_contexts tasks.longhand_steps.
From Carry Require Import tasks.longhand_numbers tasks.longhand_digits tasks.longhand.
Import ListNotations.

(** The number of the last row. *)
Definition end_number (rows : list row) : N := num (digits_of (last rows (Row None [] PLUS))).

(** The counts of rows that a shift or the end follows. *)
Fixpoint last_counts (rows : list row) : list nat :=
  match rows with
  | [] => []
  | r :: rest =>
    let shift_or_end := match rest with [] => true | next :: _ => value_of (count next) =? 0 end in
    let counts := last_counts rest in
    if (sign_of r =? PLUS) && shift_or_end then value_of (count r) :: counts else counts
  end.

Lemma last_next (r r' d : row) rows : last (r :: r' :: rows) d = last (r' :: rows) d.
Proof. reflexivity. Qed.

(** ** Products *)

Lemma add_times_end Y more : all_digits Y -> forall times n X d, all_digits X ->
  exists X', all_digits X' /\ num X' = (num X + N.of_nat times * num Y)%N
  /\ last (Row (Some n) X PLUS :: add_times Y n times X more) d
    = last (Row (Some (n + times)) X' PLUS :: more X') d.
Proof.
  intros HY. induction times as [|times IH]; intros n X d HX.
  - exists X. rewrite Nat.add_0_r. repeat split; [exact HX|lia].
  - cbn [add_times]. rewrite last_next.
    destruct (IH (S n) (add_row X Y) d (add_digits X Y)) as (X' & HX' & E & ->).
    exists X'. rewrite Nat.add_succ_comm. repeat split; [exact HX'|].
    rewrite E, add_number by assumption. lia.
Qed.

Lemma product_end Y : all_digits Y -> forall counted X n, all_digits X ->
  num (digits_of (last (Row n X PLUS :: product_rows Y counted X) (Row None [] PLUS)))
  = (num X * power (length counted) + num (rev counted) * num Y)%N.
Proof.
  intros HY. induction counted as [|d counted IH]; intros X n HX.
  - cbn [product_rows last digits_of length rev number]. change (power 0) with 1%N. lia.
  - cbn [product_rows]. rewrite last_next.
    set (X0 := write_row move_ 0 X Y (shift_size X Y)).
    destruct (add_times_end Y (product_rows Y counted) HY d 0 X0 (Row None [] PLUS))
      as (X' & HX' & E & ->); [apply move_digits; [lia|exact HX]|]. unfold X0 in E.
    rewrite IH, E, shift_number by exact HX'. cbn [rev length].
    rewrite num_snoc, rev_length, power_S. lia.
Qed.

(** ** Quotients *)

Section Quotient.
  Variable Y : list nat.
  Hypothesis plain_Y : plain Y.
  Hypothesis nonzero : num Y <> 0%N.

  Definition starts_digit (rows : list row) : Prop :=
    match rows with [] => True | r :: _ => value_of (count r) = 0 end.

  Lemma subtract_times_end more : (forall X, starts_digit (more X)) ->
    forall times n X d, n + times = 9 -> all_digits X -> length X = S (length Y) ->
    (num X < N.of_nat (S times) * num Y)%N ->
    exists m X', all_digits X' /\ length X' = S (length Y) /\ (num X' < num Y)%N
    /\ (num X + N.of_nat n * num Y = num X' + N.of_nat m * num Y)%N
    /\ let rows := Row (Some n) X PLUS :: subtract_times Y n times X more in
       last rows d = last (Row (Some m) X' PLUS :: more X') d
       /\ last_counts rows = m :: last_counts (more X').
  Proof.
    intros Hmore.
    assert (ended : forall m X,
      last_counts (Row (Some m) X PLUS :: more X) = m :: last_counts (more X)).
    { intros m X. cbn [last_counts sign_of count value_of]. specialize (Hmore X).
      destruct (more X) as [|r rows]; [reflexivity|]. cbn in Hmore. rewrite Hmore. reflexivity. }
    induction times as [|times IH]; intros n X d Hn dX lX Hlt.
    - exists n, X. repeat split; auto; try lia. apply ended.
    - destruct (quotient_subtract Y plain_Y nonzero X dX lX ltac:(nia)) as (Hl & dX' & lX' & HX').
      cbn [subtract_times].
      pose proof (minus_sign_is X Y) as Hs. destruct (minus_sign X Y =? MINUS); rewrite Hs.
      + destruct HX' as (Hless & _ & dX'' & E). rewrite Hl.
        exists n, (write_row plus_ 0 (subtract_row X Y) Y (S (length Y))). rewrite E, <- ended.
        repeat split; auto using write_length.
      + destruct (IH (S n) (subtract_row X Y) d) as (m & X' & H1 & H2 & H3 & H4 & H5 & H6);
          try assumption; try lia.
        exists m, X'. repeat split; try assumption. lia.
  Qed.

  Lemma quotient_end : forall counted X n, all_digits counted -> all_digits X ->
    X = [] \/ length X = S (length Y) -> (num X < num Y)%N ->
    let rows := quotient_rows Y counted X in
    let rest := num (digits_of (last (Row n X PLUS :: rows) (Row None [] PLUS))) in
    length (last_counts rows) = length counted /\ (rest < num Y)%N
    /\ (num X * power (length counted) + num (rev counted)
      = num (rev (last_counts rows)) * num Y + rest)%N.
  Proof.
    induction counted as [|d counted IH]; intros X n Hc dX lX Hlt; cbv zeta.
    - cbn [quotient_rows last_counts last digits_of length rev number]. change (power 0) with 1%N.
      repeat split; lia.
    - inversion Hc as [|? ? Hd Hc']. subst. cbn [quotient_rows]. rewrite last_next.
      assert (E' : num (write_row move_ d X Y (S (length Y))) = (N.of_nat d + 10 * num X)%N)
        by (apply quotient_move; auto).
      destruct (subtract_times_end (quotient_rows Y counted)) with (times := 9) (n := 0)
        (X := write_row move_ d X Y (S (length Y))) (d := Row None [] PLUS)
        as (m & X' & dX' & lX' & Hlt' & E & El & Ec); auto using move_digits, write_length.
      + intros X'. destruct counted; reflexivity || exact I.
      + lia.
      + rewrite El, Ec.
        destruct (IH X' (Some m) Hc' dX' (or_intror lX') Hlt') as (L & Hr & IHE).
        split; [cbn [length]; congruence|]. split; [exact Hr|].
        cbn [rev length]. rewrite !num_snoc, !rev_length, L, power_S. nia.
  Qed.
End Quotient.

(** ** All calculations *)

(** The rows say the result. *)
Definition say_result (c : calculation) (rows : list row) : Prop :=
  let a := first_number c in
  let b := second_number c in
  match operation_of c with
  | Sum => end_number rows = a + b
  | Difference => end_number rows = (if a <? b then b - a else a - b)
      /\ map sign_of rows = (if a <? b then [MINUS; PLUS] else [PLUS])
  | Product => end_number rows = a * b
  | Quotient => end_number rows = a mod b /\ num (rev (last_counts rows)) = a / b
  end%N.

Theorem rows_say_result c : say_result c (rows_of c).
Proof.
  unfold say_result.
  destruct c as [o a b Hb]. cbn [operation_of first_number second_number]. cbv zeta.
  pose proof (plain_number a) as HA. pose proof (plain_number b) as HB.
  pose proof (number_digits 10 ltac:(lia) a) as Ea.
  pose proof (number_digits 10 ltac:(lia) b) as Eb.
  unfold rows_of. cbn [operation_of first_number second_number].
  set (A := digits 10 a) in *. set (B := digits 10 b) in *.
  destruct (HA) as [dA sA _], (HB) as [dB sB _].
  destruct o.
  - unfold end_number. cbn [sum_rows last digits_of]. rewrite add_number, Ea, Eb by assumption.
    reflexivity.
  - unfold end_number, difference_rows. pose proof (subtract_number A B dA dB) as E.
    pose proof (minus_sign_is A B) as Hs. destruct (minus_sign A B =? MINUS) eqn:Em; rewrite Hs.
    + destruct (repaired A B HA HB Hs) as (Hl & Hn & Hlt). rewrite Ea, Eb in Hn, Hlt.
      cbn [last digits_of map sign_of]. rewrite Hl. destruct (N.ltb_spec a b); [|lia].
      split; [lia|reflexivity].
    + cbn [last digits_of map sign_of]. rewrite Ea, Eb in E. destruct (N.ltb_spec a b); [lia|].
      split; [lia|reflexivity].
  - unfold end_number. pose proof (product_end A dA (rev B) [] None (Forall_nil _)) as E.
    rewrite rev_involutive, Ea, Eb in E. cbn [number] in E.
    destruct (product_rows A (rev B) []) as [|r rows] eqn:Er.
    + exfalso. destruct (rev B) eqn:EB; [|discriminate]. rewrite <- rev_length, EB in sB.
      cbn in sB. lia.
    + rewrite last_next in E. rewrite E. lia.
  - specialize (Hb eq_refl). rewrite <- Eb in Hb.
    destruct (quotient_end B HB Hb (rev A) [] None) as (_ & Hr & E); auto.
    + apply Forall_rev, dA.
    + constructor.
    + cbn [number]. lia.
    + rewrite rev_involutive, Ea in E. cbn [number] in E. rewrite Eb in E, Hr.
      unfold end_number. destruct (quotient_rows B (rev A) []) as [|r rows] eqn:Er.
      * exfalso. destruct (rev A) eqn:EA; [|discriminate]. rewrite <- rev_length, EA in sA.
        cbn in sA. lia.
      * rewrite last_next in E, Hr. set (q := num (rev (last_counts (r :: rows)))) in *.
        split; [apply (N.mod_unique a b q)|eapply N.div_unique]; try exact Hr; lia.
Qed.

(** [next] writes every calculation: the question is [37 - 52] as [-73,25=], the rows [158-051+]. *)
Definition calculates (next : list token -> token) : Prop :=
  forall (c : calculation) (steps : nat), length (response (rows_of c)) < steps ->
  decode next steps (question_of c) = response (rows_of c) ++ [END].

Lemma exact_calculates next : exact calculator next -> calculates next.
Proof.
  intros H c steps Hs. apply (H c steps). unfold answer. rewrite app_length, Nat.add_comm. exact Hs.
Qed.
