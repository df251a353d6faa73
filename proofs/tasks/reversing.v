(** Reversing: [^21=12$]. The answer counts the places ids_down from [=], which is above the highest. *)

From Coq Require Import List Arith ZArith Bool Permutation Lia.
From Carry Require Import Decoding Windows Sorting Columns tasks.strings.
Import ListNotations.

Fixpoint ids_down (place : Z) (text : list token) : list ids :=
  match text with [] => [] | _ :: rest => [Some place] :: ids_down (place - 1) rest end.
Fixpoint ids_up (place : Z) (text : list token) : list ids :=
  match text with
  | [] => []
  | t :: rest => [Some place] :: if t =? EQUALS then ids_down (place - 1) rest else ids_up (place + 1) rest
  end.
Definition reversing_ids (text : list token) : list ids :=
  match text with [] => [] | _ :: rest => [] :: ids_up 0 rest end.

Notation reversing_windows := [(1, 0)%Z].
Definition begin_cell : cell := (BEGIN, []).

(** A query at a place; the digit there, for a digit of the answer; and the one below. *)
Definition keys_down (place : Z) (q : token) (same below : option token) : list key :=
  glimpse reversing_windows begin_cell (cell_at [] (place - 1) below ++ cell_at [] place same) (q, [Some place]).
Definition reversing_context (q : token) (same below : option token) : context :=
  (q, keys_down 0 q same below, due below).

Definition reversing_contexts : list context := normal (
  map (fun d => reversing_context EQUALS None (Some d)) (seq 0 10)
  ++ flat_map (fun d => map (reversing_context d (Some d)) (ends 10)) (seq 0 10)).

Lemma keys_down_shift place q same below : keys_down place q same below = keys_down 0 q same below.
Proof.
  pose proof (fun t i => alike_digit 1 0 [] [] place 0 t i []) as digit.
  assert (none : alike 1 0 [] [] place 0 begin_cell begin_cell) by (apply alike_far; exact I).
  assert (at_ : forall i t, Forall2 (alike 1 0 [] [] place 0) (cell_at [] (place + i) t) (cell_at [] (0 + i) t)).
  { intros i [t|]; constructor; [apply digit|constructor]. }
  apply (glimpse_alike 1 0 [] [] place 0); try reflexivity; try exact none.
  - apply Forall2_app; [apply (at_ (-1)%Z)|]. pose proof (at_ 0%Z same) as H.
    rewrite Z.add_0_r in H. exact H.
  - pose proof (digit q 0%Z) as H. rewrite Z.add_0_r in H. exact H.
Qed.

Lemma up_cells place s rest : ~ In EQUALS s ->
  combine (s ++ EQUALS :: rest) (ids_up place (s ++ EQUALS :: rest))
  = digit_cells [] place s ++ (EQUALS, [Some (place + Z.of_nat (length s))%Z])
    :: combine rest (ids_down (place + Z.of_nat (length s) - 1) rest).
Proof.
  revert place; induction s as [|d s IH]; intros place H; cbn [app ids_up combine digit_cells length].
  - rewrite Z.add_0_r, Nat.eqb_refl. reflexivity.
  - destruct (Nat.eqb_spec d EQUALS) as [->|_]; [exfalso; apply H; left; reflexivity|].
    rewrite IH by (intros E; apply H; right; exact E).
    replace (place + 1 + Z.of_nat (length s))%Z with (place + Z.of_nat (S (length s)))%Z by lia.
    reflexivity.
Qed.

Lemma down_snoc place l t : combine (l ++ [t]) (ids_down place (l ++ [t]))
  = combine l (ids_down place l) ++ [(t, [Some (place - Z.of_nat (length l))%Z])].
Proof.
  revert place; induction l as [|x l IH]; intros place; cbn [app ids_down combine length].
  - rewrite Z.sub_0_r. reflexivity.
  - rewrite IH. replace (place - 1 - Z.of_nat (length l))%Z with (place - Z.of_nat (S (length l)))%Z by lia.
    reflexivity.
Qed.

(** Digits of the answer that are written before stand at higher places. *)
Lemma down_hidden place q l : (q < place - Z.of_nat (length l) + 1)%Z ->
  filter (fun c => visible reversing_windows [Some q] (snd c)) (combine l (ids_down place l)) = [].
Proof.
  revert place; induction l as [|x l IH]; intros place H; [reflexivity|]. cbn [length] in H.
  cbn [ids_down combine filter snd].
  rewrite visible_level_1 by lia. apply IH. lia.
Qed.

Section Problem.
  Variable s : string 10.
  Let l := symbols s.
  Let size := Z.of_nat (length l).

  Lemma no_equals : ~ In EQUALS l.
  Proof.
    intros H. pose proof (below s) as B. rewrite Forall_forall in B. apply B in H. unfold EQUALS in H. lia.
  Qed.

  Lemma visible_down place : (0 <= place <= size)%Z ->
    let at_ i := if (i <? 0)%Z then None else nth_error l (Z.to_nat i) in
    filter (fun c => visible reversing_windows [Some place] (snd c)) (digit_cells [] 0 l)
    = filter (fun c => visible reversing_windows [Some place] (snd c))
        (cell_at [] (place - 1) (at_ (place - 1)%Z) ++ cell_at [] place (at_ place)).
  Proof.
    intros H. cbv beta zeta. pose proof (visible_digits 1 0 [] eq_refl [] place [] 0 l) as V. cbv beta zeta in V.
    rewrite !Z.sub_0_r in V. replace (place - 1 + 1)%Z with place in V by lia. exact V.
  Qed.

  Lemma reversing_covered k : k <= length (rev l) ->
    let text := (BEGIN :: l ++ [EQUALS]) ++ firstn k (rev l) in
    exists keys, In (last text END, keys, nth k (rev l) END) reversing_contexts
      /\ Permutation keys (seen reversing_windows (combine text (reversing_ids text))).
  Proof.
    intros Hk. cbv zeta. rewrite rev_length in Hk. rewrite due_written.
    cbn [app reversing_ids combine]. rewrite <- app_assoc. cbn [app]. rewrite (up_cells 0 l _ no_equals).
    rewrite Z.add_0_l. fold size. change (BEGIN, []) with begin_cell.
    pose proof (below s) as B. rewrite Forall_forall in B. fold l in B.
    assert (flip : forall j, j < length l -> nth_error (rev l) j = nth_error l (length l - S j)).
    { intros j Hj. rewrite (nth_error_nth' (rev l) 0), (nth_error_nth' l 0), rev_nth
        by (rewrite ?rev_length; lia). reflexivity. }
    destruct k as [|p].
    - cbn [firstn combine]. rewrite seen_glimpse, app_comm_cons, last_last. apply in_normal, in_or_app. left.
      assert (length l <> 0) as Hne by (pose proof (nonempty s) as N; fold l in N; destruct l; cbn; congruence).
      rewrite flip by lia. destruct (nth_error l (length l - 1)) as [d|] eqn:E; [|apply nth_error_None in E; lia].
      apply in_map_iff. exists d. split; [|apply in_seq; apply nth_error_In, B in E; lia].
      unfold reversing_context. do 2 f_equal. rewrite <- (keys_down_shift size). unfold keys_down.
      apply glimpse_filter. cbn [snd]. symmetry. etransitivity; [apply (visible_down size); lia|]. cbv beta zeta.
      replace (size - 1 <? 0)%Z with false by lia. replace (size <? 0)%Z with false by lia.
      replace (Z.to_nat (size - 1)) with (length l - 1) by lia. rewrite E.
      replace (Z.to_nat size) with (length l) by lia.
      rewrite (proj2 (nth_error_None l (length l))) by lia. reflexivity.
    - destruct (nth_error (rev l) p) as [w|] eqn:Hw; [|apply nth_error_None in Hw; rewrite rev_length in Hw; lia].
      rewrite (firstn_snoc _ _ _ Hw), down_snoc, firstn_length_le by (rewrite rev_length; lia).
      rewrite flip in Hw by lia. set (place := (size - 1 - Z.of_nat p)%Z).
      match goal with |- context [(EQUALS, ?i) :: ?m ++ [?x]] =>
        change ((EQUALS, i) :: m ++ [x]) with (((EQUALS, i) :: m) ++ [x]) end.
      rewrite (app_assoc (digit_cells _ _ _)), seen_glimpse.
      apply in_normal, in_or_app. right. apply in_flat_map. exists w.
      split; [apply in_seq; apply nth_error_In, B in Hw; lia|]. apply in_map_iff.
      exists (nth_error (rev l) (S p)). split.
      + unfold reversing_context. do 2 f_equal.
        * change (EQUALS :: firstn p (rev l) ++ [w]) with ((EQUALS :: firstn p (rev l)) ++ [w]).
          rewrite app_assoc, app_comm_cons, last_last. reflexivity.
        * rewrite <- (keys_down_shift place). unfold keys_down. fold size place.
          apply glimpse_filter. cbn [snd]. rewrite !filter_app. cbn [filter snd].
          rewrite visible_level_1 by lia.
          rewrite down_hidden by (rewrite firstn_length_le; rewrite ?rev_length; lia).
          rewrite app_nil_r. symmetry. etransitivity; [apply (visible_down place); lia|]. cbv beta zeta.
          rewrite filter_app. fold size place.
          destruct (Z.ltb_spec place 0); [lia|].
          replace (Z.to_nat place) with (length l - S p) by lia. rewrite Hw.
          replace (if (place - 1 <? 0)%Z then None else nth_error l (Z.to_nat (place - 1)))
            with (nth_error (rev l) (S p)); [reflexivity|].
          destruct (Z.ltb_spec (place - 1) 0).
          -- apply nth_error_None. rewrite rev_length. lia.
          -- rewrite flip by lia. f_equal. lia.
      + unfold ends. destruct (nth_error (rev l) (S p)) as [d|] eqn:E; [right|left; reflexivity].
        apply in_map, in_seq. apply nth_error_In, in_rev, B in E. lia.
  Qed.

  Lemma reversing_no_end : ~ In END (rev l).
  Proof.
    intros H. apply in_rev in H. pose proof (below s) as B. rewrite Forall_forall in B.
    apply B in H. unfold END in H. lia.
  Qed.
End Problem.

Definition reversing : task :=
  Task (string 10) (fun s => BEGIN :: symbols s ++ [EQUALS]) (fun s => rev (symbols s)) reversing_ids
    reversing_windows reversing_contexts reversing_no_end reversing_covered.
