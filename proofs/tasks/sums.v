(** Sums of one or two numbers and a first carry, in any base: addition and increment. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns Digits.
Import ListNotations.
Local Open Scope N_scope.

(** Digits from 10 on are small letters. *)
Definition digit_token (d : nat) : token := if (d <? 10)%nat then d else (d + 13)%nat.

(** Ids count the digits of each number; signs have the id below the lowest digit. *)
Definition at_sign (sign : token) : segment :=
  {| sign := sign; sign_ids := [Some (-1)%Z]; tags := [] |}.
(** The first token has such an id, too, or none. *)
Definition at_begin (begin_has_id : bool) : segment :=
  {| sign := BEGIN; sign_ids := if begin_has_id then [Some (-1)%Z] else []; tags := [] |}.

Definition value (d : option nat) : N := match d with Some d => N.of_nat d | None => 0 end.
Definition is_some (d : option nat) : bool := match d with Some _ => true | None => false end.
Definition sum_of (l : list N) : N := fold_right N.add 0 l.

Section Sums.
  Variable base : N.

  (** Every way of having so many numbers at the lowest place, and at a place and the next one. *)
  Fixpoint lowest_columns (count : nat) : list column :=
    match count with
    | O => [[]]
    | S count => flat_map (fun d => map (cons (Some d)) (lowest_columns count)) (digit_list base)
    end.
  Fixpoint near_columns (lowest : bool) (count : nat) : list (column * column) :=
    match count with
    | O => [([], [])]
    | S count =>
      flat_map (fun xx => map (fun cc => (fst xx :: fst cc, snd xx :: snd cc))
        (near_columns lowest count)) (number_near base lowest)
    end.

  Definition sum_rules (begin_has_id : bool) (count : nat) (carry : N) : rules := {|
    form := {| first := at_begin begin_has_id; label := [];
               others := map (fun _ => at_sign PLUS) (seq 1 (count - 1)); answer_segment := at_sign EQUALS |};
    more_windows := [];
    write := digit_token;
    state := N;
    initial := carry;
    after c col := (sum_of (map value col) + c) / base;
    out c col :=
      if existsb is_some col || (0 <? c)
      then Some (digit_token (N.to_nat ((sum_of (map value col) + c) mod base))) else None;
    starts := lowest_columns count;
    lowest := near_columns true count;
    later := flat_map (fun c => map (fun cc => (c, fst cc, snd cc)) (near_columns false count)) [0; 1] |}.

  Hypothesis base_2 : 2 <= base.

  Lemma value_low lowest n : value (digit_at base lowest n) = n mod base.
  Proof.
    unfold digit_at. destruct lowest, (N.leb_spec 1 n); cbn [orb value]; try apply N2Nat.id.
    replace n with 0 by lia. symmetry. apply N.mod_0_l. lia.
  Qed.

  Lemma sum_of_div l c :
    (sum_of l + c) / base = sum_of (map (fun n => n / base) l) + (sum_of (map (fun n => n mod base) l) + c) / base.
  Proof.
    revert c; induction l as [|n l IH]; intros c; cbn [sum_of map fold_right]; [reflexivity|].
    fold (sum_of l). fold (sum_of (map (fun n => n / base) l)). fold (sum_of (map (fun n => n mod base) l)).
    replace (n + sum_of l + c) with (sum_of l + (n + c)) by lia. rewrite IH.
    set (m := sum_of (map (fun n => n mod base) l)).
    replace (m + (n + c)) with (n / base * base + (n mod base + m + c))
      by (pose proof (N.div_mod n base); lia).
    rewrite N.div_add_l by lia. lia.
  Qed.

  Lemma sum_of_mod l c : (sum_of (map (fun n => n mod base) l) + c) mod base = (sum_of l + c) mod base.
  Proof.
    revert c; induction l as [|n l IH]; intros c; [reflexivity|]. cbn [map sum_of fold_right].
    fold (sum_of l) (sum_of (map (fun n => n mod base) l)).
    rewrite <- !N.add_assoc, N.add_mod_idemp_l, !(N.add_comm n), <- !N.add_assoc by lia. apply IH.
  Qed.

  Section Problem.
    Variables (begin_has_id : bool) (carry : N) (ns : list N).
    Hypothesis carry_1 : carry <= 1.
    Hypothesis one_or_two : (length ns = 1 \/ length ns = 2)%nat.
    Let r := sum_rules begin_has_id (length ns) carry.
    Let numbers := map (digits base) ns.
    Let at_ (k : nat) := map (fun n => n / base ^ N.of_nat k) ns.

    Lemma column_low k : column_of numbers k = map (digit_at base (k =? 0)%nat) (at_ k).
    Proof.
      unfold column_of, numbers, at_. rewrite !map_map. apply map_ext. intros n. apply nth_digits, base_2.
    Qed.

    Lemma values_at k : map value (column_of numbers k) = map (fun n => n mod base) (at_ k).
    Proof. rewrite column_low, map_map. apply map_ext. intros n. apply value_low. Qed.

    Lemma at_next k : at_ (S k) = map (fun n => n / base) (at_ k).
    Proof. unfold at_. rewrite map_map. apply map_ext. intros n. apply next_quotient, base_2. Qed.

    (** The carry into a place. *)
    Lemma sum_at k : (sum_of ns + carry) / base ^ N.of_nat k = sum_of (at_ k) + state_at r numbers k
      /\ state_at r numbers k <= 1.
    Proof.
      induction k as [|k [IH Hc]].
      - change (base ^ N.of_nat 0) with 1. rewrite N.div_1_r. cbn. split; [|exact carry_1]. do 2 f_equal.
        unfold at_. rewrite <- (map_id ns) at 1. apply map_ext. intros n.
        change (base ^ N.of_nat 0) with 1. symmetry. apply N.div_1_r.
      - rewrite next_quotient, IH, at_next, sum_of_div by exact base_2. cbn [state_at r sum_rules after].
        rewrite values_at. split; [reflexivity|].
        apply N.lt_succ_r, N.div_lt_upper_bound; [lia|]. fold r. set (c := state_at r numbers k) in *.
        unfold at_. generalize (base ^ N.of_nat k). intros q.
        pose proof (fun n => N.mod_lt (n / q) base ltac:(lia)) as Hm. clear - Hm Hc one_or_two base_2.
        destruct ns as [|m [|n [|? ?]]]; cbn in *; try lia.
        + specialize (Hm m). revert Hm. generalize ((m / q) mod base). nia.
        + pose proof (Hm m) as H1. pose proof (Hm n) as H2. revert H1 H2.
          generalize ((m / q) mod base) ((n / q) mod base). nia.
    Qed.

    Lemma out_sum k : out r (state_at r numbers k) (column_of numbers k)
      = option_map digit_token (nth_error (digits base (sum_of ns + carry)) k).
    Proof.
      rewrite nth_digits by exact base_2. destruct (sum_at k) as [-> Hc].
      set (c := state_at r numbers k) in *. cbn [r sum_rules out]. rewrite values_at, column_low.
      rewrite sum_of_mod.
      assert (present : existsb is_some (map (digit_at base (k =? 0)%nat) (at_ k)) || (0 <? c)
        = (k =? 0)%nat || (1 <=? sum_of (at_ k) + c)).
      { assert (H : forall l, existsb is_some (map (digit_at base false) l) = (1 <=? sum_of l)).
        { induction l as [|n l IH]; [reflexivity|]. cbn [map existsb sum_of fold_right]. rewrite IH.
          fold (sum_of l). unfold digit_at. cbn [orb].
          destruct (N.leb_spec 1 n), (N.leb_spec 1 (sum_of l)), (N.leb_spec 1 (n + sum_of l)); cbn; lia. }
        destruct (k =? 0)%nat; cbn [orb].
        - unfold at_. destruct ns as [|n l]; [cbn in one_or_two; lia|]. reflexivity.
        - rewrite H. destruct (N.leb_spec 1 (sum_of (at_ k))), (N.ltb_spec 0 c),
            (N.leb_spec 1 (sum_of (at_ k) + c)); cbn; lia. }
      rewrite present. unfold digit_at. destruct ((k =? 0)%nat || (1 <=? sum_of (at_ k) + c)); reflexivity.
    Qed.

    Lemma in_lowest_columns : In (column_of numbers 0) (lowest_columns (length ns)).
    Proof.
      rewrite column_low. unfold at_. rewrite map_map. clear - base_2. induction ns as [|n l IH]; [left; reflexivity|].
      cbn [length lowest_columns map]. apply in_flat_map. eexists. split; [apply in_digit_list, base_2|].
      apply in_map_iff. eexists. split; [|exact IH]. reflexivity.
    Qed.

    Lemma in_near_columns k :
      In (column_of numbers k, column_of numbers (S k)) (near_columns (k =? 0)%nat (length ns)).
    Proof.
      rewrite !column_low, at_next. unfold at_. rewrite !map_map. clear - base_2.
      induction ns as [|n l IH]; [left; reflexivity|].
      cbn [length near_columns map]. apply in_flat_map. eexists. split; [apply in_number_near, base_2|].
      apply in_map_iff. eexists. split; [|exact IH]. reflexivity.
    Qed.

    Lemma sums_follow n : n = sum_of ns + carry -> follows r numbers (map digit_token (digits base n)).
    Proof.
      intros ->.
      split.
      - unfold numbers. cbn. rewrite !map_length, seq_length. lia.
      - intros n d s Hn Hd Hs. unfold numbers in Hn. apply in_map_iff in Hn. destruct Hn as (m & <- & _).
        apply digits_below in Hd; [|exact base_2]. apply in_app_or in Hs.
        enough (sign s = PLUS \/ sign s = EQUALS) as H.
        { cbn [r sum_rules write]. unfold digit_token, PLUS, EQUALS in *. destruct (Nat.ltb_spec d 10); lia. }
        destruct Hs as [Hs|[<-|[]]]; [left|right; reflexivity]. cbn in Hs. apply in_map_iff in Hs.
        destruct Hs as (? & <- & _). reflexivity.
      - intros k _. rewrite out_sum. apply nth_error_map.
      - apply in_lowest_columns.
      - intros k _. pose proof (in_near_columns k) as H. destruct k as [|k]; [exact H|].
        cbn [Nat.eqb] in *. apply in_flat_map. exists (state_at r numbers (S k)). split.
        + destruct (sum_at (S k)) as [_ Hc]. revert Hc. generalize (state_at r numbers (S k)).
          cbn [r sum_rules state In]. lia.
        + apply in_map_iff. eexists. split; [|exact H]. reflexivity.
    Qed.
  End Problem.

  Lemma no_end l : ~ In END (map digit_token l).
  Proof.
    rewrite in_map_iff. intros (d & H & _). unfold digit_token, END in H. destruct (Nat.ltb_spec d 10); lia.
  Qed.

  Lemma begin_low begin_has_id l : Forall is_below (at_begin begin_has_id :: map (fun _ : nat => at_sign PLUS) l).
  Proof.
    constructor; [destruct begin_has_id; cbn; lia|]. apply Forall_forall. intros s Hs. apply in_map_iff in Hs.
    destruct Hs as (? & <- & _). cbn. lia.
  Qed.

  (** The sum of two numbers. *)
  Definition addition (begin_has_id : bool) : task :=
    columns_task (sum_rules begin_has_id 2 0) (N * N) (fun ab => map (digits base) [fst ab; snd ab])
      (fun ab => map digit_token (digits base (fst ab + snd ab)))
      (begin_low _ _) eq_refl (fun _ => no_end _)
      (fun ab => sums_follow begin_has_id 0 [fst ab; snd ab] ltac:(lia) (or_intror eq_refl)
         (fst ab + snd ab) ltac:(unfold sum_of; cbn [fold_right]; lia)).

  (** A number and 1. *)
  Definition increment (begin_has_id : bool) : task :=
    columns_task (sum_rules begin_has_id 1 1) N (fun n => [digits base n])
      (fun n => map digit_token (digits base (n + 1)))
      (begin_low _ _) eq_refl (fun _ => no_end _)
      (fun n => sums_follow begin_has_id 1 [n] ltac:(lia) (or_introl eq_refl)
         (n + 1) ltac:(unfold sum_of; cbn [fold_right]; lia)).
End Sums.

(** ** Decimal sums, in full *)

Definition tokens_of (n : N) : list token := map digit_token (digits 10 n).

(** [next] writes the sum of every two numbers. *)
Definition adds (next : list token -> token) : Prop :=
  forall (a b : N) (steps : nat), (length (tokens_of (a + b)) < steps)%nat ->
  decode next steps (BEGIN :: tokens_of a ++ PLUS :: tokens_of b ++ [EQUALS])
  = tokens_of (a + b) ++ [END].

Definition decimal (begin_has_id : bool) : task := addition 10 ltac:(discriminate) begin_has_id.

Lemma exact_adds begin_has_id next : exact (decimal begin_has_id) next -> adds next.
Proof.
  intros H a b steps Hs. specialize (H (a, b) steps).
  change (answer (decimal begin_has_id) (a, b)) with (tokens_of (a + b) ++ [END]) in H.
  rewrite app_length, Nat.add_comm in H. rewrite <- (H Hs). f_equal. cbn.
  rewrite <- app_assoc. reflexivity.
Qed.
