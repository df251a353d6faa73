(** Calculations in longhand, such as [-73,25=158-051+$]: ids of their texts, and what a token sees.

    The first token is the operation. Numbers begin with their lowest digit. Rows follow [=]: a
    count, a number and a sign, [-] if the number is below 0. *)

From Coq Require Import List Arith ZArith Bool Permutation Lia.
From Carry Require Import Decoding Windows Columns.
Import ListNotations.

Definition TIMES : token := 15.
Definition OVER : token := 17.
Definition COMMA : token := 18.
Definition MINUS : token := 22.

(** A row repairs one below 0. Else a count of 0 shifts the row before, and another one is that of a
    step. A row is 3, 4 or 5 above the one before, so the distance tells the kind. *)
Definition SHIFT : Z := 3.
Definition STEP : Z := 4.
Definition REPAIR : Z := 5.
Definition kind_of (sign_before count : token) : Z :=
  if sign_before =? MINUS then REPAIR else if count =? 0 then SHIFT else STEP.

(** * Ids: the place; the row; the digit of a number whose digits are counted *)

Definition windows_ : list window := [(0, 1); (5, 0); (0, 1)]%Z.

(** The count of a shift belongs to the digit that it brings down. The sign of a row belongs to the
    present digit. *)
Definition count_ids (row digit : Z) (shifts : bool) : ids :=
  [Some (-1)%Z; Some row; if shifts then Some digit else None].
Definition sign_ids_ (row digit : Z) : ids := [Some (-2)%Z; Some row; Some digit].

(** A shift goes on to the next digit. *)
Definition digit_after (digit kind : Z) : Z := (if kind =? SHIFT then digit + 1 else digit)%Z.

(** A count is one below place 0, and a sign two. *)
Fixpoint row_ids (row digit place : Z) (before : token) (text : list token) : list ids :=
  match text with
  | [] => []
  | t :: rest =>
    if (place =? -1)%Z then
      let kind := kind_of before t in
      let digit' := digit_after digit kind in
      count_ids (row + kind) digit' (kind =? SHIFT)%Z :: row_ids (row + kind) digit' 0 t rest
    else if t <? 10 then [Some place; Some row] :: row_ids row digit (place + 1) t rest
    else sign_ids_ row digit :: row_ids row digit (-1) t rest
  end.

(** The tokens before a sign, and those after it. *)
Fixpoint split_at (sign : token) (text : list token) : list token * list token :=
  match text with
  | [] => ([], [])
  | t :: rest =>
    if t =? sign then ([], rest) else let '(l, r) := split_at sign rest in (t :: l, r)
  end.

Definition place_ids (tags : ids) (l : list token) : list ids := map snd (digit_cells tags 0 l).
Definition from_top (l : list token) : list ids :=
  map (fun i => [None; None; Some (Z.of_nat i)]) (rev (seq 1 (length l))).

(** Sums and differences begin with a row. The second number of a product is counted, or the first
    one of a quotient; the other number is fixed. *)
Definition longhand_ids (text : list token) : list ids :=
  match text with
  | [] => []
  | operation :: rest =>
    let '(first, rest) := split_at COMMA rest in
    let '(second, rows) := split_at EQUALS rest in
    let first_ids := if operation =? TIMES then place_ids [] first
      else if operation =? OVER then from_top first else place_ids [Some 0%Z] first in
    let second_ids := if operation =? TIMES then from_top second else place_ids [] second in
    [] :: first_ids ++ [] :: second_ids ++ sign_ids_ 0 0 :: row_ids 0 0 (-1) EQUALS rows
  end.

(** * Cells of a text *)

(** What a sum or a difference begins with is a row without a count, and the other tasks begin with
    an empty one. *)
Record row := Row { count : option nat; digits_of : list token; sign_of : token }.

Definition option_list {A} (x : option A) : list A := match x with Some x => [x] | None => [] end.
Definition row_text (r : row) : list token := option_list (count r) ++ digits_of r ++ [sign_of r].

Definition count_cell (row digit : Z) (shifts : bool) (count : option nat) : list cell :=
  map (fun c => (c, count_ids row digit shifts)) (option_list count).
Definition row_cells (i digit : Z) (shifts : bool) (r : row) : list cell :=
  count_cell i digit shifts (count r) ++ digit_cells [Some i] 0 (digits_of r)
    ++ [(sign_of r, sign_ids_ i digit)].

(** Counted digits, from the top one on. *)
Fixpoint counted_cells (i : Z) (l : list token) : list cell :=
  match l with [] => [] | t :: l => (t, [None; None; Some i]) :: counted_cells (i + 1) l end.
Definition counted_at (i : Z) (t : option token) : list cell :=
  map (fun t => (t, [None; None; Some i])) (option_list t).

(** The cells of a question but the first, in another order: the sign [=] is that of a row. *)
Definition question_cells_ (fixed counted : list token) : list cell :=
  [bare COMMA] ++ digit_cells [] 0 fixed ++ counted_cells 1 counted.

Lemma split_at_sign s l rest : ~ In s l -> split_at s (l ++ s :: rest) = (l, rest).
Proof.
  induction l as [|t l IH]; intros H; cbn [app split_at].
  - rewrite Nat.eqb_refl. reflexivity.
  - destruct (Nat.eqb_spec t s) as [->|_]; [exfalso; apply H; left; reflexivity|].
    rewrite IH; [reflexivity|]. intros Hin. apply H. right. exact Hin.
Qed.

Lemma place_cells tags place l :
  combine l (map snd (digit_cells tags place l)) = digit_cells tags place l
  /\ length l = length (map snd (digit_cells tags place l)).
Proof.
  revert place; induction l as [|t l IH]; intros place; [split; reflexivity|].
  destruct (IH (place + 1)%Z) as [E L]. cbn. rewrite E, <- L. split; reflexivity.
Qed.

Lemma counted_snoc i l t :
  counted_cells i (l ++ [t]) = counted_cells i l
    ++ [(t, [None; None; Some (i + Z.of_nat (length l))%Z])].
Proof.
  revert i; induction l as [|x l IH]; intros i; cbn [app counted_cells length].
  - rewrite Z.add_0_r. reflexivity.
  - rewrite IH. replace (i + 1 + Z.of_nat (length l))%Z with (i + Z.of_nat (S (length l)))%Z by lia.
    reflexivity.
Qed.

Lemma combine_from_top l : Permutation (combine l (from_top l)) (counted_cells 1 (rev l)).
Proof.
  induction l as [|t l IH]; [constructor|]. unfold from_top. cbn [length rev].
  rewrite seq_S, rev_unit, counted_snoc, rev_length. cbn [map combine].
  etransitivity; [|apply Permutation_cons_append].
  replace (1 + Z.of_nat (length l))%Z with (Z.of_nat (1 + length l)) by lia.
  constructor. exact IH.
Qed.

(** The text of a question, with the digits of both numbers. *)
Definition calculation_text (operation : token) (first second : list token) : list token :=
  operation :: first ++ COMMA :: second ++ [EQUALS].
Definition fixed_of (operation : token) (first second : list token) : list token :=
  if operation =? TIMES then first else second.
Definition counted_of (operation : token) (first second : list token) : list token :=
  rev (if operation =? TIMES then second else if operation =? OVER then first else []).
Definition row_0 (operation : token) (first : list token) : row :=
  Row None (if (operation =? TIMES) || (operation =? OVER) then [] else first) EQUALS.

Lemma combine_app {A B} (l l' : list A) (m m' : list B) :
  length l = length m -> combine (l ++ l') (m ++ m') = combine l m ++ combine l' m'.
Proof.
  revert m; induction l as [|x l IH]; intros [|y m] H; cbn in *; try discriminate; f_equal; auto.
Qed.

(** The cells of a text: those of the question but its sign [=], in another order; this sign; and
    those of the rows. *)
Lemma text_cells_ operation first second rest : ~ In COMMA first -> ~ In EQUALS second ->
  let text := calculation_text operation first second ++ rest in
  exists cells,
    combine text (longhand_ids text)
    = (operation, []) :: (cells ++ [(EQUALS, sign_ids_ 0 0)])
      ++ combine rest (row_ids 0 0 (-1) EQUALS rest)
    /\ Permutation cells
      (question_cells_ (fixed_of operation first second) (counted_of operation first second)
       ++ digit_cells [Some 0%Z] 0 (digits_of (row_0 operation first))).
Proof.
  intros Hf Hs. unfold calculation_text. cbv zeta. cbn [app longhand_ids].
  rewrite <- app_assoc. cbn [app]. rewrite split_at_sign by exact Hf.
  rewrite <- app_assoc. cbn [app]. rewrite split_at_sign by exact Hs. cbn [combine].
  assert (top : forall l, length l = length (from_top l))
    by (intros l; unfold from_top; rewrite map_length, rev_length, seq_length; reflexivity).
  pose proof (fun tags l => proj1 (place_cells tags 0 l)) as E.
  pose proof (fun tags l => proj2 (place_cells tags 0 l)) as L.
  set (i1 := if operation =? TIMES then _ else _).
  set (i2 := if operation =? TIMES then from_top _ else _).
  exists (combine first i1 ++ bare COMMA :: combine second i2). split.
  - rewrite combine_app by (unfold i1, place_ids; destruct (operation =? TIMES),
      (operation =? OVER); auto).
    cbn [combine].
    rewrite combine_app by (unfold i2, place_ids; destruct (operation =? TIMES); auto).
    rewrite <- !app_assoc. reflexivity.
  - unfold i1, i2, place_ids, question_cells_, row_0, fixed_of, counted_of. cbn [digits_of].
    destruct (operation =? TIMES); cbn [orb]; [|destruct (operation =? OVER); cbn [orb]];
      rewrite ?E, ?combine_from_top; cbn [app rev digit_cells counted_cells];
      rewrite ?app_nil_r, <- Permutation_middle; constructor;
      [reflexivity|apply Permutation_app_comm..].
Qed.

(** The cells of a row, and of one that has not ended. *)
Definition is_digit (t : token) : Prop := t < 10.

Lemma digits_scanned i digit place before l rest : (0 <= place)%Z -> Forall is_digit l ->
  exists before',
  combine (l ++ rest) (row_ids i digit place before (l ++ rest))
  = digit_cells [Some i] place l
    ++ combine rest (row_ids i digit (place + Z.of_nat (length l)) before' rest).
Proof.
  intros Hp H. revert place before Hp; induction H as [|t l Ht _ IH]; intros place before Hp.
  - exists before. cbn [app digit_cells length]. rewrite Z.add_0_r. reflexivity.
  - cbn [app row_ids digit_cells length]. destruct (Z.eqb_spec place (-1)); [lia|].
    destruct (Nat.ltb_spec t 10) as [_|]; [|unfold is_digit in Ht; lia].
    destruct (IH (place + 1)%Z t ltac:(lia)) as (b & E). exists b. cbn [combine]. rewrite E.
    do 4 f_equal. lia.
Qed.

Lemma row_scanned i digit before c l s rest : Forall is_digit l -> 10 <= s ->
  let kind := kind_of before c in
  let digit' := digit_after digit kind in
  let text := c :: l ++ s :: rest in
  combine text (row_ids i digit (-1) before text)
  = row_cells (i + kind) digit' (kind =? SHIFT)%Z (Row (Some c) l s)
    ++ combine rest (row_ids (i + kind) digit' (-1) s rest).
Proof.
  intros Hl Hs. cbv zeta. cbn [row_ids]. rewrite Z.eqb_refl. unfold row_cells, count_cell.
  cbn [count digits_of sign_of option_list map app combine]. f_equal.
  destruct (digits_scanned (i + kind_of before c) (digit_after digit (kind_of before c)) 0 c l
    (s :: rest) ltac:(lia) Hl) as (b & ->).
  rewrite <- app_assoc. cbn [app row_ids].
  destruct (Z.eqb_spec (0 + Z.of_nat (length l)) (-1)); [lia|].
  destruct (Nat.ltb_spec s 10); [lia|]. reflexivity.
Qed.

Lemma part_scanned i digit before c l : Forall is_digit l ->
  let kind := kind_of before c in
  let digit' := digit_after digit kind in
  combine (c :: l) (row_ids i digit (-1) before (c :: l))
  = (c, count_ids (i + kind) digit' (kind =? SHIFT)%Z) :: digit_cells [Some (i + kind)%Z] 0 l.
Proof.
  intros Hl. cbv zeta. cbn [row_ids]. rewrite Z.eqb_refl. cbn [combine]. f_equal.
  destruct (digits_scanned (i + kind_of before c) (digit_after digit (kind_of before c)) 0 c l
    [] ltac:(lia) Hl) as (b & E).
  rewrite app_nil_r in E. rewrite E. cbn. apply app_nil_r.
Qed.

(** * Only differences of ids matter *)

Fixpoint shift (d : list Z) (k : ids) : ids :=
  match d, k with
  | a :: d, x :: k => option_map (Z.add a) x :: shift d k
  | _, _ => k
  end.

Lemma nth_shift d k i : nth i (shift d k) None = option_map (Z.add (nth i d 0%Z)) (nth i k None).
Proof.
  assert (same : forall (x : option Z), x = option_map (Z.add 0) x) by (intros [x|]; reflexivity).
  revert k i; induction d as [|a d IH]; intros k i.
  - replace (shift [] k) with k by (destruct k; reflexivity). destruct i; apply same.
  - destruct k as [|x k], i as [|i]; try reflexivity. exact (IH k i).
Qed.

Lemma show_shift ws d q t k : show ws (shift d q) (t, shift d k) = show ws q (t, k).
Proof.
  unfold show, levels. cbn [fst snd]. rewrite !map_map. f_equal. apply map_ext. intros i.
  rewrite !nth_shift. destruct (nth i ws (0, 0)%Z) as [a b].
  destruct (nth i q None), (nth i k None); try reflexivity. unfold bias_row. cbn [option_map].
  do 2 f_equal. lia.
Qed.

Lemma visible_shift ws d q k : visible ws (shift d q) (shift d k) = visible ws q k.
Proof.
  assert (H : map inside (levels ws (shift d q) (shift d k)) = map inside (levels ws q k)).
  { unfold levels. rewrite !map_map. apply map_ext. intros i. rewrite !nth_shift.
    destruct (nth i ws (0, 0)%Z) as [a b]. destruct (nth i q None), (nth i k None); try reflexivity.
    cbn [option_map inside]. do 2 f_equal; lia. }
  unfold visible. rewrite H. reflexivity.
Qed.

Definition shift_cell (d : list Z) (c : cell) : cell := (fst c, shift d (snd c)).

Lemma glimpse_shift ws d t middle (q : cell) :
  glimpse ws (t, []) (map (shift_cell d) middle) (shift_cell d q) = glimpse ws (t, []) middle q.
Proof.
  destruct q as [u q]. unfold glimpse. cbn [shift_cell fst snd map]. f_equal.
  - pose proof (show_shift ws d q t []) as H. destruct d; exact H.
  - assert (one : forall v k, show ws (shift d q) (shift_cell d (v, k)) = show ws q (v, k))
      by (intros v k; apply show_shift).
    rewrite !map_app. cbn [map]. rewrite one. f_equal.
    induction middle as [|[v k] m IH]; [reflexivity|]. cbn [map filter].
    change (snd (shift_cell d (v, k))) with (shift d k). cbn [snd].
    rewrite visible_shift. destruct (visible ws q k); [|exact IH]. cbn [map]. rewrite one. f_equal.
    exact IH.
Qed.

Lemma glimpse_permutes ws first middle middle' q :
  Permutation middle middle' ->
  Permutation (glimpse ws first middle q) (glimpse ws first middle' q).
Proof.
  intros H. unfold glimpse. apply Permutation_map. constructor. apply Permutation_app_tail.
  induction H; cbn [filter]; try (destruct (visible _ _ _)); try (destruct (visible _ _ _));
    auto using perm_nil, perm_skip, perm_swap.
  eapply perm_trans; eassumption.
Qed.

(** * What a token sees: its row, the row before, and the question *)

Lemma hidden_row p i q p' j k : (j < i - 5)%Z ->
  visible windows_ (p :: Some i :: q) (p' :: Some j :: k) = false.
Proof.
  intros H. unfold visible, levels, windows_. cbn [length seq map nth inside].
  replace ((i - 5 <=? j) && (j <=? i + 0))%Z with false by lia.
  rewrite andb_false_iff. right. cbn [forallb]. apply andb_false_r.
Qed.

(** The tokens that are visible to a digit, to a count and to a sign; ids are less those of the
    query. Each number has digits x at the place of the query, and x' at the next one: those of the
    row before, of the fixed number (y), and of the counted number. *)
Definition digit_view (operation : token) (kind : Z) (x x' y y' : option token) (q : token)
    : list key :=
  glimpse windows_ (operation, [])
    (cell_at [] 0 y ++ cell_at [] 1 y' ++ cell_at [Some (- kind)%Z] 0 x
      ++ cell_at [Some (- kind)%Z] 1 x')
    (q, [Some 0%Z; Some 0%Z]).

(** The count of the row before has the digit's id if that row is a shift. *)
Definition digit_before (kind : Z) : Z := (if kind =? SHIFT then -1 else 0)%Z.
Definition count_view (operation : token) (kind : Z) (x y before : option token) (shifted : bool)
    (z z' : option token) (q : token) : list key :=
  glimpse windows_ (operation, [])
    (cell_at [] 0 y ++ counted_at 0 z ++ counted_at 1 z'
     ++ count_cell (- kind) (digit_before kind) shifted before ++ cell_at [Some (- kind)%Z] 0 x)
    (q, count_ids 0 0 (kind =? SHIFT)%Z).
Definition sign_view (operation : token) (kind : Z) (before : option token) (shifted : bool)
    (sign : token) (count z z' : option token) (q : token) : list key :=
  glimpse windows_ (operation, [])
    (counted_at 0 z ++ counted_at 1 z' ++ count_cell (- kind) (digit_before kind) shifted before
     ++ [(sign, sign_ids_ (- kind) (digit_before kind))] ++ count_cell 0 0 (kind =? SHIFT)%Z count)
    (q, sign_ids_ 0 0).

Definition sees_ (q : ids) (c : cell) : bool := visible windows_ q (snd c).

Lemma glimpse_sees first middle middle' (q : cell) :
  filter (sees_ (snd q)) middle = filter (sees_ (snd q)) middle' ->
  glimpse windows_ first middle q = glimpse windows_ first middle' q.
Proof. apply glimpse_filter. Qed.

Lemma hidden_counted p i q j t : (forall d, q = Some d -> (j < d \/ d + 1 < j)%Z) ->
  sees_ [Some p; Some i; q] (t, [None; None; Some j]) = false.
Proof.
  intros H. unfold sees_, visible, levels, windows_.
  cbn [snd length seq map nth inside existsb forallb orb andb].
  destruct q as [d|]; [|reflexivity]. specialize (H d eq_refl).
  replace ((d - 0 <=? j) && (j <=? d + 1))%Z with false by lia. reflexivity.
Qed.

(** The element with an index, if there is one. *)
Definition at_ {A} (l : list A) (i : Z) : option A :=
  if (i <? 0)%Z then None else nth_error l (Z.to_nat i).

Lemma at_cons {A} (x : A) l i : at_ (x :: l) i = if (i =? 0)%Z then Some x else at_ l (i - 1).
Proof.
  unfold at_. destruct (Z.eqb_spec i 0) as [->|Hi]; [reflexivity|].
  destruct (Z.ltb_spec i 0), (Z.ltb_spec (i - 1) 0); try lia; [reflexivity|].
  replace (Z.to_nat i) with (S (Z.to_nat (i - 1))) by lia. reflexivity.
Qed.

(** The row is this one or an earlier one. *)
Definition older (i : Z) (c : cell) : Prop :=
  match snd c with _ :: Some j :: _ => (j <= i)%Z | _ => False end.

Section See.
  Variables (operation : token) (fixed counted : list token) (hidden : list cell).
  Variables (b : row) (i digit kind : Z) (shifted : bool).
  Hypothesis old : Forall (older (i - 3)) hidden.
  Hypothesis kinds : (3 <= kind <= 5)%Z.
  Let i' := (i + kind)%Z.
  Let digit' := digit_after digit kind.
  Let middle := question_cells_ fixed counted ++ hidden ++ row_cells i digit shifted b.

  Lemma see_hidden p q : filter (sees_ (p :: Some i' :: q)) hidden = [].
  Proof.
    induction old as [|[t k] l H Hl IH]; [reflexivity|]. cbn [filter]. unfold sees_ at 1. cbn [snd].
    destruct k as [|p' [|[j|] k]]; cbn in H; try contradiction.
    rewrite hidden_row by (unfold i'; lia). exact (IH Hl).
  Qed.

  Lemma see_places p q tags l :
    filter (sees_ (Some p :: q)) (digit_cells tags 0 l)
    = filter (sees_ (Some p :: q)) (cell_at tags p (at_ l p)
      ++ cell_at tags (p + 1) (at_ l (p + 1))).
  Proof.
    clear. unfold sees_ at 1, windows_. rewrite visible_digits, !Z.sub_0_r by reflexivity.
    reflexivity.
  Qed.

  Lemma see_counted p r q j l : filter (sees_ [Some p; Some r; q]) (counted_cells j l)
    = filter (sees_ [Some p; Some r; q])
        match q with
        | Some d => counted_at d (at_ l (d - j)) ++ counted_at (d + 1) (at_ l (d + 1 - j))
        | None => []
        end.
  Proof.
    clear. revert j; induction l as [|t l IH]; intros j; cbn [counted_cells filter].
    - destruct q as [d|]; [|reflexivity]. unfold at_.
      destruct (d - j <? 0)%Z, (d + 1 - j <? 0)%Z, (Z.to_nat (d - j)), (Z.to_nat (d + 1 - j));
        reflexivity.
    - rewrite IH. destruct q as [d|]; [|rewrite hidden_counted by discriminate; reflexivity].
      rewrite !at_cons. replace (d - (j + 1))%Z with (d - j - 1)%Z by lia.
      replace (d + 1 - (j + 1))%Z with (d + 1 - j - 1)%Z by lia.
      destruct (Z.eqb_spec (d - j) 0), (Z.eqb_spec (d + 1 - j) 0); try lia.
      + replace (d - j - 1)%Z with (-1)%Z by lia. replace j with d by lia. reflexivity.
      + replace (d + 1 - j - 1)%Z with (-1)%Z by lia. replace (at_ l (d - j - 1)) with (@None token)
          by (unfold at_; destruct (Z.ltb_spec (d - j - 1) 0); lia || reflexivity).
        replace j with (d + 1)%Z by lia. reflexivity.
      + rewrite hidden_counted by (intros e E; injection E as <-; lia). reflexivity.
  Qed.

  Lemma not_counted p r j t : filter (sees_ [Some p; Some r; None]) (counted_at j t) = [].
  Proof. destruct t as [t|]; [|reflexivity]. exact (see_counted p r None j [t]). Qed.

  Lemma no_counted p r j l : filter (sees_ [Some p; Some r]) (counted_cells j l) = [].
  Proof. exact (see_counted p r None j l). Qed.

  Lemma sees_nothing q : filter (sees_ q) [bare COMMA] = [].
  Proof. cbn [filter]. unfold sees_. cbn [bare snd]. rewrite visible_without_ids. reflexivity. Qed.

  Lemma hidden_below p q j k t : (j < p)%Z -> filter (sees_ (Some p :: q)) [(t, Some j :: k)] = [].
  Proof.
    clear. intros H. cbn [filter]. unfold sees_, windows_. cbn [snd].
    rewrite visible_level_1 by lia. reflexivity.
  Qed.

  Lemma shift_place a d tags j t :
    map (shift_cell (a :: d)) (cell_at tags j t) = cell_at (shift d tags) (a + j) t.
  Proof. destruct t; reflexivity. Qed.

  Lemma shift_counted a c d j t :
    map (shift_cell [a; c; d]) (counted_at j t) = counted_at (d + j) t.
  Proof. destruct t; reflexivity. Qed.

  Lemma shift_count c d r j s t :
    map (shift_cell [0%Z; c; d]) (count_cell r j s t) = count_cell (c + r) (d + j) s t.
  Proof. destruct t, s; reflexivity. Qed.

  Lemma shift_sign c d s r j :
    map (shift_cell [0%Z; c; d]) [(s, sign_ids_ r j)] = [(s, sign_ids_ (c + r) (d + j))].
  Proof. reflexivity. Qed.

  Ltac sees := unfold middle, question_cells_, row_cells; rewrite ?filter_app.

  Lemma sees_digit c l q :
    let p := length l in
    glimpse windows_ (operation, [])
      (middle ++ (c, count_ids i' digit' (kind =? SHIFT)%Z) :: digit_cells [Some i'] 0 l)
      (q, [Some (Z.of_nat p); Some i'])
    = digit_view operation kind (nth_error (digits_of b) p) (nth_error (digits_of b) (S p))
        (nth_error fixed p) (nth_error fixed (S p)) q.
  Proof.
    cbv zeta. unfold digit_view. set (p := Z.of_nat (length l)).
    rewrite <- (glimpse_shift windows_ [p; i'] _ _ (q, [Some 0%Z; Some 0%Z])).
    replace (shift_cell [p; i'] (q, [Some 0%Z; Some 0%Z])) with (q, [Some p; Some i'])
      by (unfold shift_cell; cbn; rewrite !Z.add_0_r; reflexivity).
    apply glimpse_sees. cbn [snd].
    rewrite !map_app, !shift_place. cbn [shift option_map].
    replace (i' + - kind)%Z with i by (unfold i'; lia).
    rewrite Z.add_0_r.
    match goal with |- context [?x :: digit_cells ?t 0 l] =>
      change (x :: digit_cells t 0 l) with ([x] ++ digit_cells t 0 l) end.
    sees. rewrite sees_nothing, (see_hidden (Some p) []), !see_places, no_counted.
    replace (filter (sees_ _) (count_cell i digit shifted (count b))) with (@nil cell)
      by (destruct (count b); [symmetry; apply hidden_below; lia|reflexivity]).
    unfold sign_ids_, count_ids. rewrite !hidden_below by lia.
    assert (E : forall m : list token, at_ m p = nth_error m (length l)
      /\ at_ m (p + 1) = nth_error m (S (length l))).
    { intros m. unfold at_. destruct (Z.ltb_spec p 0), (Z.ltb_spec (p + 1) 0); try lia.
      split; f_equal; lia. }
    rewrite !(fun m => proj1 (E m)), !(fun m => proj2 (E m)).
    rewrite !(fun n => proj2 (nth_error_None l n)) by lia. cbn [cell_at app filter].
    rewrite !filter_app, !app_nil_r, <- !app_assoc. reflexivity.
  Qed.

  Lemma same_digit : (digit' + digit_before kind)%Z = digit.
  Proof. unfold digit', digit_after, digit_before. destruct (kind =? SHIFT)%Z; lia. Qed.

  (** The counted digit with an id, and the next one. *)
  Let z := at_ counted (digit' - 1).
  Let z' := at_ counted digit'.

  Lemma see_present p r (q : option Z) : q = Some digit' \/ q = None ->
    filter (sees_ [Some p; Some r; q]) (counted_cells 1 counted)
    = filter (sees_ [Some p; Some r; q]) (counted_at digit' z ++ counted_at (digit' + 1) z').
  Proof.
    rewrite see_counted. intros [-> | ->].
    - unfold z, z'. replace (digit' + 1 - 1)%Z with digit' by lia. reflexivity.
    - rewrite filter_app, !not_counted. reflexivity.
  Qed.

  Lemma sees_count q :
    glimpse windows_ (operation, []) middle (q, count_ids i' digit' (kind =? SHIFT)%Z)
    = count_view operation kind (nth_error (digits_of b) 0) (nth_error fixed 0) (count b) shifted
        z z' q.
  Proof.
    unfold count_view.
    rewrite <- (glimpse_shift windows_ [0%Z; i'; digit'] _ _ (q, count_ids 0 0 (kind =? SHIFT)%Z)).
    replace (shift_cell [0%Z; i'; digit'] (q, count_ids 0 0 (kind =? SHIFT)%Z))
      with (q, count_ids i' digit' (kind =? SHIFT)%Z)
      by (unfold shift_cell, count_ids; cbn; destruct (kind =? SHIFT)%Z; cbn; rewrite !Z.add_0_r;
        reflexivity).
    apply glimpse_sees. cbn [snd].
    rewrite !map_app, !shift_place, !shift_counted, !shift_count. cbn [shift option_map].
    replace (i' + - kind)%Z with i by (unfold i'; lia). rewrite !Z.add_0_r, same_digit.
    sees. unfold count_ids, sign_ids_.
    rewrite sees_nothing, (see_hidden (Some (-1)%Z) [_]), see_present
      by (destruct (kind =? SHIFT)%Z; auto).
    rewrite !see_places, hidden_below by lia. change (-1 + 1)%Z with 0%Z. cbn [cell_at app].
    rewrite !filter_app, !app_nil_r, <- !app_assoc. reflexivity.
  Qed.

  Lemma sees_sign c l q :
    glimpse windows_ (operation, [])
      (middle ++ (c, count_ids i' digit' (kind =? SHIFT)%Z) :: digit_cells [Some i'] 0 l)
      (q, sign_ids_ i' digit')
    = sign_view operation kind (count b) shifted (sign_of b) (Some c) z z' q.
  Proof.
    unfold sign_view. rewrite <- (glimpse_shift windows_ [0%Z; i'; digit'] _ _ (q, sign_ids_ 0 0)).
    replace (shift_cell [0%Z; i'; digit'] (q, sign_ids_ 0 0)) with (q, sign_ids_ i' digit')
      by (unfold shift_cell, sign_ids_; cbn; rewrite !Z.add_0_r; reflexivity).
    apply glimpse_sees. cbn [snd].
    rewrite !map_app, !shift_counted, !shift_count, !shift_sign.
    replace (i' + - kind)%Z with i by (unfold i'; lia). rewrite !Z.add_0_r, same_digit.
    match goal with |- context [?x :: digit_cells ?t 0 l] =>
      change (x :: digit_cells t 0 l) with ([x] ++ digit_cells t 0 l) end.
    sees. unfold sign_ids_.
    rewrite sees_nothing, (see_hidden (Some (-2)%Z) [_]), see_present by auto.
    rewrite !see_places. cbn [cell_at app count_cell option_list map].
    rewrite !filter_app, !app_nil_r, <- !app_assoc. reflexivity.
  Qed.

  (** The sign [=]. *)
  Lemma sees_equals :
    glimpse windows_ (operation, [])
      (question_cells_ fixed counted ++ digit_cells [Some 0%Z] 0 (digits_of b)) (EQUALS,
        sign_ids_ 0 0)
    = glimpse windows_ (operation, []) (counted_at 1 (nth_error counted 0)) (EQUALS, sign_ids_ 0 0).
  Proof.
    clear. apply glimpse_sees. cbn [snd]. unfold sign_ids_, question_cells_.
    rewrite !filter_app, sees_nothing, !see_places, see_counted. cbn. rewrite app_nil_r.
    reflexivity.
  Qed.
End See.
