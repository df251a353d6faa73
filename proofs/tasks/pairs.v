(** Two numbers, place by place, as long as the longer one: digits of sums, carries, comparison. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits tasks.sums.
Import ListNotations.
Local Open Scope N_scope.

(** [step c x y] gives the next state from a state and the digits at a place; what is written is the
    token of this next state. *)
Definition pair_rules (form_ : layout) (higher : list window) (states : list N)
    (step : N -> N -> N -> N) (token_of : N -> token) : rules := {|
  form := form_;
  more_windows := higher;
  write d := d;
  state := N;
  initial := 0;
  after c col := match col with [x; y] => step c (value x) (value y) | _ => c end;
  out c col := match col with
    | [x; y] => if is_some x || is_some y then Some (token_of (step c (value x) (value y))) else None
    | _ => None end;
  starts := lowest_columns 10 2;
  lowest := near_columns 10 true 2;
  later := flat_map (fun c => map (fun cc => (c, fst cc, snd cc)) (near_columns 10 false 2)) states |}.

Definition digit (n : N) (k : nat) : N := n / 10 ^ N.of_nat k mod 10.

Section Problem.
  Variables (form_ : layout) (higher : list window) (states : list N).
  Variables (step : N -> N -> N -> N) (token_of : N -> token) (a b : N).
  Hypothesis one_other : length (others form_) = 1%nat.
  Hypothesis signs : Forall (fun s => (10 <= sign s)%nat) (others form_ ++ [answer_segment form_]).
  Hypothesis closed : forall c x y, In c (0 :: states) -> x < 10 -> y < 10 -> In (step c x y) states.
  Let r := pair_rules form_ higher states step token_of.
  Let numbers := map (digits 10) [a; b].

  Fixpoint states_of (k : nat) : N :=
    match k with O => 0 | S k => step (states_of k) (digit a k) (digit b k) end.
  Definition pair_written : list token :=
    map (fun k => token_of (states_of (S k))) (seq 0 (Nat.max (length (digits 10 a)) (length (digits 10 b)))).

  Lemma value_digit n k : value (nth_error (digits 10 n) k) = digit n k.
  Proof. rewrite nth_digits by lia. apply value_low. lia. Qed.

  Lemma state_is k : state_at r numbers k = states_of k.
  Proof.
    induction k as [|k IH]; [reflexivity|]. cbn [state_at states_of]. rewrite IH.
    unfold numbers, column_of. cbn [map r pair_rules after]. rewrite !value_digit. reflexivity.
  Qed.

  Lemma states_in k : In (states_of (S k)) states.
  Proof.
    cbn [states_of]. induction k as [|k IH]; apply closed; try (apply N.mod_lt; discriminate);
      [left; reflexivity|right; exact IH].
  Qed.

  Lemma pair_follows : follows r numbers pair_written.
  Proof.
    assert (Hl : length pair_written = Nat.max (length (digits 10 a)) (length (digits 10 b)))
      by (unfold pair_written; rewrite map_length, seq_length; reflexivity).
    split.
    - cbn [r pair_rules form]. rewrite one_other. reflexivity.
    - intros n d s Hn Hd Hs. apply in_map_iff in Hn. destruct Hn as (m & <- & _).
      apply digits_below in Hd; [|lia]. rewrite Forall_forall in signs. apply signs in Hs.
      cbn [r pair_rules write]. lia.
    - intros k Hk. rewrite Hl in Hk. unfold column_of, numbers. cbn [map r pair_rules out].
      fold r numbers. rewrite state_is, !value_digit.
      assert (H : forall n, is_some (nth_error (digits 10 n) k) = (k <? length (digits 10 n))%nat).
      { intros n. destruct (nth_error (digits 10 n) k) as [d|] eqn:E, (Nat.ltb_spec k (length (digits 10 n)));
          try reflexivity; [|apply nth_error_None in E; lia].
        assert (nth_error (digits 10 n) k <> None) as Hs by congruence. apply nth_error_Some in Hs. lia. }
      rewrite !H. unfold pair_written. rewrite nth_error_map.
      destruct (Nat.ltb_spec k (length (digits 10 a))), (Nat.ltb_spec k (length (digits 10 b))); cbn [orb];
        try (rewrite (nth_error_nth' _ 0%nat), seq_nth by (rewrite ?seq_length; lia); reflexivity).
      rewrite (proj2 (nth_error_None _ _)) by (rewrite seq_length; lia). reflexivity.
    - apply (in_lowest_columns 10 ltac:(lia) [a; b]).
    - intros k _. pose proof (in_near_columns 10 ltac:(lia) [a; b] k) as H.
      destruct k as [|k]; [exact H|]. cbn [Nat.eqb] in *. apply in_flat_map.
      exists (state_at r numbers (S k)). split; [|apply in_map_iff; eexists; split; [|exact H]; reflexivity].
      rewrite state_is. apply states_in.
  Qed.
  Lemma pair_no_end : Forall (fun c => token_of c <> END) states -> ~ In END pair_written.
  Proof.
    intros H Hin. apply in_map_iff in Hin. destruct Hin as (k & E & _). rewrite Forall_forall in H.
    exact (H _ (states_in k) E).
  Qed.
End Problem.

(** ** Digits modulo 10, and carries, of each place alone: [mad$356+94=296$], [car$356+94=c--$] *)

Definition labelled (letters : list token) : layout := {|
  first := {| sign := hd 0%nat letters; sign_ids := []; tags := [] |};
  label := tl letters; others := [at_sign PLUS]; answer_segment := at_sign EQUALS |}.
Definition CARRY : token := 25%nat.  (* the letter c *)
Definition LESS : token := 22%nat.  (* also the minus *)

Definition pairs_task (form_ : layout) (higher : list window) (states : list N)
    (step : N -> N -> N -> N) (token_of : N -> token)
    (below : Forall is_below (first form_ :: others form_))
    (equals_low : sign_ids (answer_segment form_) = Some (-1)%Z :: tags (answer_segment form_))
    (one_other : length (others form_) = 1%nat)
    (signs : Forall (fun s => (10 <= sign s)%nat) (others form_ ++ [answer_segment form_]))
    (closed : forall c x y, In c (0 :: states) -> x < 10 -> y < 10 -> In (step c x y) states)
    (no_end_ : Forall (fun c => token_of c <> END) states) : task :=
  columns_task (pair_rules form_ higher states step token_of) (N * N)
    (fun ab => map (digits 10) [fst ab; snd ab]) (fun ab => pair_written step token_of (fst ab) (snd ab))
    below equals_low
    (fun ab => pair_no_end states step token_of (fst ab) (snd ab) closed no_end_)
    (fun ab => pair_follows form_ higher states step token_of (fst ab) (snd ab) one_other signs closed).

Ltac by_cases := repeat constructor; cbn; unfold END, CARRY, LESS; lia.

Definition LETTER_A : token := 23%nat.
Definition LETTER_D : token := 26%nat.
Definition LETTER_M : token := 35%nat.
Definition LETTER_R : token := 40%nat.

Definition digits_mod_10 : task.
Proof.
  refine (pairs_task (labelled [LETTER_M; LETTER_A; LETTER_D; END]) [] (map N.of_nat (seq 0 10)) (fun _ x y => (x + y) mod 10)
    N.to_nat _ eq_refl eq_refl _ _ _); try by_cases.
  intros _ x y _ _ _. apply in_map_iff. exists (N.to_nat ((x + y) mod 10)).
  split; [apply N2Nat.id|]. apply in_seq. pose proof (N.mod_lt (x + y) 10 ltac:(discriminate)) as H.
  revert H. generalize ((x + y) mod 10). lia.
Defined.

Definition carries : task.
Proof.
  refine (pairs_task (labelled [CARRY; LETTER_A; LETTER_R; END]) [] [0; 1] (fun _ x y => if 10 <=? x + y then 1 else 0)
    (fun c => if c =? 1 then CARRY else LESS) _ eq_refl eq_refl _ _ _); try by_cases.
  intros _ x y _ _ _. destruct (10 <=? x + y); cbn; auto.
Defined.

(** ** The larger number by the digits so far, 0 if none is: [^306-94=221$] *)

(** Level 2 counts the numbers; the minus belongs to the first one. *)
Definition two_levels : layout := {|
  first := {| sign := BEGIN; sign_ids := []; tags := [Some 0%Z] |};
  label := [];
  others := [{| sign := LESS; sign_ids := [Some (-1)%Z; Some 0%Z]; tags := [Some 1%Z] |}];
  answer_segment := {| sign := EQUALS; sign_ids := [Some (-1)%Z; Some 2%Z]; tags := [Some 2%Z] |} |}.

Definition larger_so_far (c x y : N) : N := if x =? y then c else if y <? x then 1 else 2.

Definition comparison : task.
Proof.
  refine (pairs_task two_levels [(2, 0)%Z] [0; 1; 2] larger_so_far N.to_nat _ eq_refl eq_refl _ _ _);
    try by_cases.
  intros c x y Hc _ _. unfold larger_so_far. destruct (x =? y), (y <? x); cbn in *; intuition.
Defined.

Lemma comparison_writes a b k :
  states_of larger_so_far a b k
  = let p := 10 ^ N.of_nat k in if a mod p =? b mod p then 0 else if b mod p <? a mod p then 1 else 2.
Proof.
  cbv zeta. induction k as [|k IH]; [rewrite !N.mod_1_r; reflexivity|].
  cbn [states_of]. rewrite IH, Nat2N.inj_succ, N.pow_succ_r'. unfold larger_so_far, digit.
  assert (10 ^ N.of_nat k <> 0) as Hp by (apply N.pow_nonzero; discriminate).
  set (p := 10 ^ N.of_nat k) in *. rewrite (N.mul_comm 10), !N.mod_mul_r by (lia || discriminate).
  pose proof (N.mod_lt a p Hp). pose proof (N.mod_lt b p Hp).
  generalize dependent (a mod p). generalize dependent (b mod p). intros y Hy x Hx.
  generalize ((a / p) mod 10) ((b / p) mod 10). intros u v.
  destruct (N.eqb_spec u v) as [->|Hne].
  - destruct (N.eqb_spec x y), (N.ltb_spec y x), (N.eqb_spec (x + p * v) (y + p * v)),
      (N.ltb_spec (y + p * v) (x + p * v)); lia.
  - destruct (N.eqb_spec (x + p * u) (y + p * v)), (N.ltb_spec v u), (N.ltb_spec (y + p * v) (x + p * u)); nia.
Qed.
