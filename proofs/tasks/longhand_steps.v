(** Rows that follow from each other, each in a context of a list: then each step of the text is. *)

From Coq Require Import List Arith ZArith Bool Permutation Lia.
From Carry Require Import Decoding Windows Columns tasks.longhand_rows.
Import ListNotations.

Definition response (rows : list row) : list token := flat_map row_text rows.

Section Steps.
  Variables (operation : token) (fixed counted : list token) (contexts : list context).

  (** A row after the row before, [b]: its count, its digits and its sign, which [next] follows, are
      in contexts. The digits [z] and [z'] of the counted number are the present and the next one.
      *)
  Record good_row (kind : Z) (b : row) (shifted : bool) (c : token) (l : list token) (s : token)
      (z z' : option token) (next : token) : Prop := {
    good_digit_tokens : Forall is_digit (c :: l);
    good_sign_token : s = PLUS \/ s = MINUS;
    good_count :
      let keys := count_view operation kind (nth_error (digits_of b) 0) (nth_error fixed 0)
        (count b) shifted z z' c in
      In (c, keys, nth 0 (l ++ [s]) END) contexts;
    good_digits : forall p q, nth_error l p = Some q ->
      let keys := digit_view operation kind (nth_error (digits_of b) p)
        (nth_error (digits_of b) (S p)) (nth_error fixed p) (nth_error fixed (S p)) q in
      In (q, keys, nth (S p) (l ++ [s]) END) contexts;
    good_sign :
      let keys := sign_view operation kind (count b) shifted (sign_of b) (Some c) z z' s in
      In (s, keys, next) contexts }.

  (** A shift goes on to the next digit. *)
  Definition present (kind : Z) (z : option token) (rest : list token) : option token :=
    if (kind =? SHIFT)%Z then hd_error rest else z.
  Definition following (kind : Z) (rest : list token) : list token :=
    if (kind =? SHIFT)%Z then tl rest else rest.

  (** Rows after a row [b], with the digit that it counts and those after this. *)
  Inductive chain : row -> bool -> option token -> list token -> list row -> Prop :=
  | chain_end b shifted z rest : chain b shifted z rest []
  | chain_row b shifted z rest c l s rows kind : kind = kind_of (sign_of b) c ->
      good_row kind b shifted c l s (present kind z rest) (hd_error (following kind rest))
        (hd END (response rows)) ->
      chain (Row (Some c) l s) (kind =? SHIFT)%Z (present kind z rest) (following kind rest) rows ->
      chain b shifted z rest (Row (Some c) l s :: rows).

  Lemma chain_no_end b shifted z rest rows :
    chain b shifted z rest rows -> ~ In END (response rows).
  Proof.
    induction 1 as [|b shifted z rest c l s rows kind Hkind G C IH]; [cbn; tauto|].
    destruct G as [Hl Hs _ _ _]. rewrite Forall_forall in Hl. unfold is_digit in Hl.
    change (response _) with ((c :: l ++ [s]) ++ response rows). rewrite app_comm_cons, !in_app_iff.
    intros [[H|[H|[]]]|H]; [apply Hl in H|subst s|exact (IH H)]; unfold END, PLUS, MINUS in *; lia.
  Qed.

  Lemma kind_range s c : (3 <= kind_of s c <= 5)%Z.
  Proof. unfold kind_of, SHIFT, STEP, REPAIR. destruct (s =? MINUS), (c =? 0); lia. Qed.

  Lemma older_row i j d shifted b : (i <= j)%Z -> Forall (older j) (row_cells i d shifted b).
  Proof.
    intros H. unfold row_cells. rewrite !Forall_app. repeat split.
    - destruct (count b); repeat constructor. exact H.
    - generalize 0%Z. induction (digits_of b) as [|t l IH]; intros p; constructor; auto.
    - repeat constructor. exact H.
  Qed.

  (** The digit of a row, and those after it, by its id. *)
  Definition digit_is (d : Z) (z : option token) (rest : list token) : Prop :=
    (0 <= d)%Z /\ z = at_ counted (d - 1) /\ rest = skipn (Z.to_nat d) counted.

  Lemma hd_rest d z rest : digit_is d z rest -> hd_error rest = at_ counted d.
  Proof.
    intros (H0 & _ & ->). unfold at_. destruct (Z.ltb_spec d 0); [lia|].
    generalize (Z.to_nat d) counted. intros n l.
    revert l; induction n as [|n IH]; intros [|x l]; try reflexivity. apply IH.
  Qed.

  Lemma next_digit d kind z rest : digit_is d z rest ->
    digit_is (digit_after d kind) (present kind z rest) (following kind rest).
  Proof.
    intros H. unfold present, following, digit_after. destruct (kind =? SHIFT)%Z; [|exact H].
    rewrite (hd_rest d z rest H). destruct H as (H0 & _ & ->). unfold digit_is.
    replace (d + 1 - 1)%Z with d by lia. split; [lia|]. split; [reflexivity|].
    replace (Z.to_nat (d + 1)) with (S (Z.to_nat d)) by lia. generalize (Z.to_nat d) counted.
    intros n l. revert l; induction n as [|n IH]; intros [|x l]; try reflexivity. exact (IH l).
  Qed.

  (** A text that is not empty ends in a token that sees a context. *)
  Definition ends_covered (cells : list cell) (text : list token) (due : token) : Prop :=
    exists front q, cells = front ++ [q] /\ fst q = last text END /\
    In (fst q, glimpse windows_ (operation, []) front q, due) contexts.

  Lemma chain_covered b shifted z rest rows : chain b shifted z rest rows ->
    forall hidden i d k, Forall (older (i - 3)) hidden -> digit_is d z rest ->
    1 <= k <= length (response rows) ->
    let text := firstn k (response rows) in
    ends_covered (question_cells_ fixed counted ++ hidden ++ row_cells i d shifted b
      ++ combine text (row_ids i d (-1) (sign_of b) text)) text (nth k (response rows) END).
  Proof.
    induction 1 as [b shifted z rest|b shifted z rest c l s rows kind Hkind G C IH];
      intros hidden i d k Hold Hd Hk; [cbn in Hk; lia|]. cbv zeta. apply (next_digit d kind) in Hd.
    pose proof (kind_range (sign_of b) c) as Hrange. rewrite <- Hkind in Hrange.
    destruct G as [Hl Hs Gc Gd Gs]. apply Forall_inv_tail in Hl. cbv zeta in Gc, Gd, Gs.
    assert (10 <= s) as Hs10 by (unfold PLUS, MINUS in Hs; lia). clear Hs.
    rewrite (proj1 (proj2 Hd)), (hd_rest _ _ _ Hd) in Gc, Gs.
    change (response (Row (Some c) l s :: rows)) with ((c :: l ++ [s]) ++ response rows) in *.
    assert (Hlen : length (c :: l ++ [s]) = S (S (length l)))
      by (cbn; rewrite app_length; cbn; lia).
    rewrite app_length, Hlen in Hk. set (Q := question_cells_ fixed counted).
    set (R := row_cells i d shifted b).
    assert (assoc : forall X, Q ++ hidden ++ R ++ X = (Q ++ hidden ++ R) ++ X)
      by (intros X; rewrite <- !app_assoc; reflexivity).
    set (current := fun l => (c, count_ids (i + kind) (digit_after d kind) (kind =? SHIFT)%Z)
      :: digit_cells [Some (i + kind)%Z] 0 l).
    destruct (Nat.le_gt_cases k (S (S (length l)))) as [Hin|Hout].
    - rewrite firstn_app, Hlen. replace (k - S (S (length l))) with 0 by lia.
      rewrite firstn_O, app_nil_r.
      destruct (Nat.eq_dec k (S (S (length l)))) as [Hk'|Hne]; [|destruct k as [|[|p]]; [lia| |]].
      + (* the sign *)
        rewrite firstn_all2, app_nth2, Hlen, Hk', Nat.sub_diag by lia.
        replace (nth 0 (response rows) END) with (hd END (response rows))
          by (destruct (response rows); reflexivity).
        rewrite row_scanned by assumption. rewrite <- Hkind. cbn [combine].
        exists ((Q ++ hidden ++ R) ++ current l), (s, sign_ids_ (i + kind) (digit_after d kind)).
        split; [|split].
        * etransitivity; [apply assoc|]. rewrite <- (app_assoc (Q ++ hidden ++ R) (current l)).
          unfold row_cells, current. cbn [count digits_of sign_of count_cell option_list map app].
          rewrite app_nil_r. reflexivity.
        * cbn [fst]. rewrite app_comm_cons, last_last. reflexivity.
        * unfold Q, R, current. rewrite sees_sign by assumption. exact Gs.
      + (* the count *)
        cbn [firstn]. rewrite (part_scanned i d (sign_of b) c [] (Forall_nil _)), <- Hkind.
        cbn [digit_cells].
        exists (Q ++ hidden ++ R), (c, count_ids (i + kind) (digit_after d kind) (kind =? SHIFT)%Z).
        split; [apply assoc|]. split; [reflexivity|]. unfold Q, R. rewrite sees_count by assumption.
        cbn [app nth]. destruct l; exact Gc.
      + (* a digit *)
        assert (Hp : p < length l) by lia. cbn [app].
        destruct (nth_error l p) as [q|] eqn:Hq; [|apply nth_error_None in Hq; lia].
        assert (Hf : firstn (S (S p)) (c :: l ++ [s]) = c :: firstn p l ++ [q]).
        { rewrite firstn_cons, firstn_app. replace (S p - length l) with 0 by lia.
          rewrite firstn_O, app_nil_r. f_equal. apply firstn_snoc, Hq. }
        assert (Hd' : Forall is_digit (firstn p l ++ [q])).
        { rewrite <- (firstn_snoc _ _ _ Hq). rewrite <- (firstn_skipn (S p) l) in Hl.
          apply Forall_app in Hl. apply Hl. }
        rewrite Hf, (part_scanned i d (sign_of b) c _ Hd'), <- Hkind, digit_cells_snoc, Z.add_0_l.
        exists ((Q ++ hidden ++ R) ++ current (firstn p l)).
        exists (q, [Some (Z.of_nat (length (firstn p l))); Some (i + kind)%Z]). split; [|split].
        * etransitivity; [apply assoc|].
          rewrite <- (app_assoc (Q ++ hidden ++ R) (current _)). reflexivity.
        * cbn [fst]. rewrite app_comm_cons, last_last. reflexivity.
        * unfold Q, R, current. rewrite sees_digit, firstn_length_le by (assumption || lia).
          specialize (Gd _ _ Hq). cbn [fst nth]. rewrite (app_nth1 (l ++ [s])); [exact Gd|].
          rewrite app_length. cbn. lia.
    - (* a later row *)
      destruct (IH (hidden ++ R) (i + kind)%Z (digit_after d kind) (k - S (S (length l))))
        as (front & q & E & Hq & Hin); [|exact Hd|lia|].
      + apply Forall_app. split; [|apply older_row; lia].
        eapply Forall_impl; [|exact Hold]. intros [t [|? [|[j|] ?]]]; cbn; try tauto. lia.
      + exists front, q. rewrite firstn_app, firstn_all2, app_nth2, Hlen by lia.
        set (text := firstn (k - S (S (length l))) (response rows)) in *.
        cbn [app]. rewrite <- !app_assoc. cbn [app]. rewrite row_scanned, <- Hkind by assumption.
        split; [rewrite <- E, <- !app_assoc; reflexivity|]. split; [|exact Hin].
        rewrite Hq. destruct (exists_last (l := text)) as (t' & x & ->).
        { intros E'. apply (f_equal (@length _)) in E'. unfold text in E'.
          rewrite firstn_length in E'. cbn in E'. lia. }
        rewrite last_last, (app_comm_cons _ _ s), (app_assoc l), app_comm_cons, last_last.
        reflexivity.
  Qed.
End Steps.

(** Each step of a calculation with these rows is a context of the list. *)
Theorem rows_covered operation first second contexts rows k :
  let fixed := fixed_of operation first second in
  let counted := counted_of operation first second in
  ~ In COMMA first -> ~ In EQUALS second ->
  let keys := glimpse windows_ (operation, []) (counted_at 1 (nth_error counted 0))
    (EQUALS, sign_ids_ 0 0) in
  In (EQUALS, keys, hd END (response rows)) contexts ->
  chain operation fixed contexts (row_0 operation first) false None counted rows ->
  k <= length (response rows) ->
  let text := calculation_text operation first second ++ firstn k (response rows) in
  exists keys, In (last text END, keys, nth k (response rows) END) contexts
    /\ Permutation keys (seen windows_ (combine text (longhand_ids text))).
Proof.
  cbv zeta. intros Hf Hs Heq Hc Hk.
  destruct (text_cells_ operation first second (firstn k (response rows)) Hf Hs)
    as (cells & -> & Hperm).
  set (Q := question_cells_ (fixed_of operation first second) (counted_of operation first second))
    in *.
  destruct k as [|k].
  - cbn [firstn combine]. rewrite !app_nil_r, seen_glimpse. eexists. split.
    + unfold calculation_text. rewrite app_comm_cons, (app_comm_cons _ _ COMMA), app_assoc,
        last_last.
      replace (nth 0 (response rows) END) with (hd END (response rows)); [exact Heq|].
      destruct (response rows); reflexivity.
    + rewrite <- (sees_equals operation (fixed_of operation first second) _
        (row_0 operation first)).
      apply glimpse_permutes. symmetry. exact Hperm.
  - destruct (chain_covered _ _ (counted_of operation first second) _ _ _ _ _ _ Hc [] 0%Z 0%Z (S k))
      as (front & q & E & Hq & Hin); [constructor|repeat split; lia|lia|].
    fold Q in E. cbn [app] in E. change (sign_of (row_0 operation first)) with EQUALS in E.
    set (text := firstn (S k) (response rows)) in *.
    assert (Hne : text <> []).
    { intros E'. apply (f_equal (@length _)) in E'. unfold text in E'.
      rewrite firstn_length in E'. cbn [length] in E'. lia. }
    destruct (exists_last (l := combine text (row_ids 0 0 (-1) EQUALS text))) as (X & x & EX).
    { destruct text as [|t text']; [congruence|]. cbn. discriminate. }
    rewrite EX in *. rewrite !app_assoc in E. apply app_inj_tail in E. destruct E as [<- <-].
    eexists. split.
    + replace (last (calculation_text operation first second ++ text) END) with (fst x);
        [exact Hin|].
      rewrite Hq. destruct (exists_last Hne) as (t' & y & ->).
      rewrite app_assoc, !last_last. reflexivity.
    + rewrite app_assoc, seen_glimpse.
      apply glimpse_permutes, Permutation_app_tail. rewrite Hperm, <- app_assoc. reflexivity.
Qed.
