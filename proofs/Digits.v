(** Digits of natural numbers in any base, lowest first, without leading zeros. *)

From Coq Require Import List Arith NArith ZArith Bool Lia.
From Carry Require Import Decoding.
Import ListNotations.
Local Open Scope N_scope.

Fixpoint digits_with (fuel : nat) (base n : N) : list nat :=
  match fuel with
  | O => []
  | S fuel => N.to_nat (n mod base) :: if n <? base then [] else digits_with fuel base (n / base)
  end.

(** The digits of a number, lowest first; those of 0 are [0]. *)
Definition digits (base n : N) : list nat := digits_with (S (N.size_nat n)) base n.

(** What this means: the number, and no leading zeros ([number_digits], [no_leading_zero]). *)
Fixpoint number (base : N) (l : list nat) : N :=
  match l with [] => 0 | d :: l => N.of_nat d + base * number base l end.

(** The digit at a place: of n / base^place, if there is one. *)
Definition digit_at (base : N) (lowest : bool) (n : N) : option nat :=
  if lowest || (1 <=? n) then Some (N.to_nat (n mod base)) else None.

(** Digits at a place and at the next one. *)
Definition digit_list (base : N) : list nat := seq 0 (N.to_nat base).
Definition number_near (base : N) (lowest : bool) : list (option nat * option nat) :=
  (if lowest then [] else [(None, None)])
  ++ map (fun d => (Some d, None)) (if lowest then digit_list base else tl (digit_list base))
  ++ flat_map (fun d => map (fun e => (Some d, Some e)) (digit_list base)) (digit_list base).

Section Base.
  Variable base : N.
  Hypothesis base_2 : 2 <= base.

  Lemma digits_with_enough f g n : n < 2 ^ N.of_nat f -> n < 2 ^ N.of_nat g ->
    digits_with (S f) base n = digits_with (S g) base n.
  Proof.
    assert (zero : forall g, digits_with (S g) base 0 = [0%nat]).
    { intros k. cbn [digits_with]. rewrite N.mod_0_l by lia. destruct (N.ltb_spec 0 base); [reflexivity|lia]. }
    revert g n; induction f as [|f IH]; intros [|g] n Hf Hg; try (assert (n = 0) as -> by (cbn in *; lia);
      rewrite !zero; reflexivity).
    cbn [digits_with]. destruct (N.ltb_spec n base) as [|Hn]; [reflexivity|]. f_equal.
    rewrite Nat2N.inj_succ, N.pow_succ_r' in Hf, Hg. apply IH; apply N.div_lt_upper_bound; nia.
  Qed.

  Lemma size_enough n : n < 2 ^ N.of_nat (N.size_nat n).
  Proof.
    destruct n as [|p]; [cbn; lia|]. cbn [N.size_nat]. induction p as [p IH|p IH|];
      cbn [Pos.size_nat]; try rewrite Nat2N.inj_succ, N.pow_succ_r'; lia.
  Qed.

  Lemma digits_step n :
    digits base n = N.to_nat (n mod base) :: if n <? base then [] else digits base (n / base).
  Proof.
    unfold digits at 1. cbn [digits_with]. f_equal. destruct (N.ltb_spec n base); [reflexivity|].
    pose proof (size_enough n) as Hn. destruct (N.size_nat n) as [|s]; [cbn in Hn; lia|].
    rewrite Nat2N.inj_succ, N.pow_succ_r' in Hn.
    apply digits_with_enough; [apply N.div_lt_upper_bound; nia|apply size_enough].
  Qed.

  Lemma digits_induction (P : N -> list nat -> Prop) :
    (forall n, n < base -> P n [N.to_nat (n mod base)]) ->
    (forall n, base <= n -> P (n / base) (digits base (n / base)) ->
       P n (N.to_nat (n mod base) :: digits base (n / base))) ->
    forall n, P n (digits base n).
  Proof.
    intros H0 H1 n. induction n as [n IH] using (well_founded_induction N.lt_wf_0).
    rewrite digits_step. destruct (N.ltb_spec n base); [apply H0; assumption|].
    apply H1; [assumption|]. apply IH, N.div_lt; lia.
  Qed.

  Theorem number_digits n : number base (digits base n) = n.
  Proof.
    apply (digits_induction (fun n l => number base l = n)); intros m H; cbn [number].
    - rewrite N2Nat.id, N.mod_small by lia. lia.
    - intros ->. rewrite N2Nat.id. pose proof (N.div_mod m base). lia.
  Qed.

  Theorem no_leading_zero n : last (digits base n) 0%nat = 0%nat -> n = 0.
  Proof.
    apply (digits_induction (fun n l => last l 0%nat = 0%nat -> n = 0)); intros m H.
    - cbn. rewrite N.mod_small by lia. lia.
    - intros IH Hl. exfalso. rewrite digits_step in IH, Hl. apply IH in Hl.
      apply N.div_small_iff in Hl; lia.
  Qed.

  Lemma digits_below n d : In d (digits base n) -> (d < N.to_nat base)%nat.
  Proof.
    apply (digits_induction (fun n l => In d l -> (d < N.to_nat base)%nat)); intros m H;
      pose proof (N.mod_lt m base ltac:(lia)); cbn; intuition lia.
  Qed.

  Lemma nth_digits k n :
    nth_error (digits base n) k = digit_at base (k =? 0)%nat (n / base ^ N.of_nat k).
  Proof.
    revert n; induction k as [|k IH]; intros n; rewrite digits_step; cbn [nth_error].
    - change (base ^ N.of_nat 0) with 1. rewrite N.div_1_r. reflexivity.
    - rewrite Nat2N.inj_succ, N.pow_succ_r', <- N.div_div by (lia || (apply N.pow_nonzero; lia)).
      destruct (N.ltb_spec n base) as [H|H].
      + rewrite (N.div_small n base), N.div_0_l by (lia || (apply N.pow_nonzero; lia)).
        destruct k; reflexivity.
      + rewrite IH. unfold digit_at. cbn [Nat.eqb]. destruct k as [|k]; [|reflexivity]. cbn [Nat.eqb orb].
        change (base ^ N.of_nat 0) with 1. rewrite N.div_1_r.
        assert (1 <= n / base) by (apply N.div_le_lower_bound; lia).
        destruct (N.leb_spec 1 (n / base)); [reflexivity|lia].
  Qed.

  Lemma next_quotient n k : n / base ^ N.of_nat (S k) = n / base ^ N.of_nat k / base.
  Proof.
    rewrite Nat2N.inj_succ, N.pow_succ_r', N.mul_comm, N.div_div; [reflexivity| |lia].
    apply N.pow_nonzero. lia.
  Qed.

  Lemma in_digit_list n : In (N.to_nat (n mod base)) (digit_list base).
  Proof.
    apply in_seq. pose proof (N.mod_lt n base ltac:(lia)) as H. revert H. generalize (n mod base). lia.
  Qed.

  Lemma in_number_near lowest n : In (digit_at base lowest n, digit_at base false (n / base)) (number_near base lowest).
  Proof.
    unfold number_near, digit_at. cbn [orb]. rewrite !in_app_iff, in_map_iff, in_flat_map.
    destruct (N.leb_spec 1 (n / base)) as [H|H].
    - assert (1 <= n) by (destruct (N.eq_dec n 0) as [->|]; [rewrite N.div_0_l in H by lia|]; lia).
      destruct (N.leb_spec 1 n); [|lia]. rewrite orb_true_r. right. right.
      eexists. split; [apply in_digit_list|]. apply in_map_iff.
      eexists. split; [reflexivity|apply in_digit_list].
    - assert (n < base) by (apply N.div_small_iff; [lia|apply N.lt_1_r, H]).
      destruct lowest; cbn [orb].
      + right. left. eexists. split; [reflexivity|]. apply in_digit_list.
      + destruct (N.leb_spec 1 n); [|left; left; reflexivity].
        right. left. eexists. split; [reflexivity|]. rewrite N.mod_small by lia. unfold digit_list.
        replace (N.to_nat base) with (S (N.to_nat base - 1)) by lia. cbn [seq tl]. apply in_seq. lia.
  Qed.
End Base.
