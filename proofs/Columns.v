(** Tasks that go from place to place: the answer at a place follows from the digits of all numbers
    at this place (a column) and from a state, such as a carry. The window shows each query the
    column of its place and the next one; so finitely many contexts cover all lengths. *)

From Coq Require Import List Arith ZArith Bool Permutation Lia.
From Carry Require Import Decoding Windows Sorting.
Import ListNotations.

(** * Where tokens stand *)

(** A number and the sign before it. Digits have their place as id of level 1, from 0 on; [tags] are
    their ids of higher levels. Only differences of ids matter to what a token sees. *)
Record segment := Segment { sign : token; sign_ids : ids; tags : ids }.

(** The numbers of a question, each after its sign, then the answer after its own. The first token may
    begin a label, whose other tokens have no ids. *)
Record layout := Layout {
  first : segment; label : list token; others : list segment; answer_segment : segment }.

Fixpoint scan (tags_ : ids) (later : list segment) (place : Z) (text : list token) : list ids :=
  match text with
  | [] => []
  | t :: rest =>
    let digit := (Some place :: tags_) :: scan tags_ later (place + 1) rest in
    match later with
    | [] => digit
    | s :: later' =>
      if t =? sign s then sign_ids s :: scan (tags s) later' 0 rest else digit
    end
  end.

(** The ids of a text: the next sign in the layout ends a number. *)
Definition locate (l : layout) (text : list token) : list ids :=
  match text with
  | [] => []
  | _ :: rest =>
    let n := length (label l) in
    sign_ids (first l) :: map (fun _ => []) (firstn n rest)
      ++ scan (tags (first l)) (others l ++ [answer_segment l]) 0 (skipn n rest)
  end.

(** * What the last token sees, as a list with the first token, what is visible, and itself *)

Definition cell := (token * ids)%type.

Definition glimpse (windows : list window) (first : cell) (middle : list cell) (query : cell)
    : list key :=
  map (show windows (snd query))
    (first :: filter (fun c => visible windows (snd query) (snd c)) middle ++ [query]).

Lemma last_snoc {A} (l : list A) x d : last (l ++ [x]) d = x.
Proof. apply last_last. Qed.

Lemma seen_glimpse windows first middle query :
  seen windows (first :: middle ++ [query]) = glimpse windows first middle query.
Proof.
  unfold seen, glimpse. rewrite app_comm_cons, last_last. cbn [app length seq combine map].
  destruct first as [t k]. cbn [filter]. unfold sees at 1. cbn [Nat.eqb orb map snd]. f_equal.
  rewrite app_length. cbn [length]. set (size := S (length middle + 1)).
  assert (H : forall j m, 0 < j -> j + length m + 1 = size ->
    map (fun p => show windows (snd query) (snd p))
      (filter (sees windows size (snd query)) (combine (seq j (length m + 1)) (m ++ [query])))
    = map (show windows (snd query))
        (filter (fun c => visible windows (snd query) (snd c)) m ++ [query])).
  2:{ apply H; unfold size; lia. }
  intros j m Hj. revert j Hj; induction m as [|[t' k'] m IH]; intros j Hj Hs; cbn [length] in Hs.
  - destruct query as [u k']. cbn [length plus seq app combine filter map snd]. unfold sees.
    replace (S j =? size) with true by (symmetry; apply Nat.eqb_eq; lia).
    rewrite orb_true_r. reflexivity.
  - cbn [length plus seq app combine filter map snd]. unfold sees at 1.
    replace (j =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
    replace (S j =? size) with false by (symmetry; apply Nat.eqb_neq; lia). cbn [orb].
    destruct (visible windows (snd query) k'); cbn [map snd app]; rewrite IH by lia; reflexivity.
Qed.

Lemma glimpse_filter windows first middle middle' (query : cell) :
  filter (fun c => visible windows (snd query) (snd c)) middle
  = filter (fun c => visible windows (snd query) (snd c)) middle' ->
  glimpse windows first middle query = glimpse windows first middle' query.
Proof. unfold glimpse. intros ->. reflexivity. Qed.

(** * Places *)

Fixpoint digit_cells (tags_ : ids) (place : Z) (l : list token) : list cell :=
  match l with
  | [] => []
  | t :: l => (t, Some place :: tags_) :: digit_cells tags_ (place + 1) l
  end.

Definition bare (t : token) : cell := (t, []).
Definition sign_cell (s : segment) : cell := (sign s, sign_ids s).
Definition cell_at (tags_ : ids) (place : Z) (t : option token) : list cell :=
  match t with Some t => [(t, Some place :: tags_)] | None => [] end.
Definition segment_cells (s : segment) (l : list token) : list cell :=
  sign_cell s :: digit_cells (tags s) 0 l.

Lemma scan_digits tags_ s later place l rest : ~ In (sign s) l ->
  combine (l ++ sign s :: rest) (scan tags_ (s :: later) place (l ++ sign s :: rest))
  = digit_cells tags_ place l ++ sign_cell s :: combine rest (scan (tags s) later 0 rest).
Proof.
  revert place; induction l as [|t l IH]; intros place H; cbn [app scan combine digit_cells].
  - rewrite Nat.eqb_refl. reflexivity.
  - destruct (Nat.eqb_spec t (sign s)) as [->|_]; [exfalso; apply H; left; reflexivity|].
    cbn [combine]. f_equal. apply IH. intros Hin. apply H. right. exact Hin.
Qed.

Lemma scan_end tags_ place l : combine l (scan tags_ [] place l) = digit_cells tags_ place l.
Proof.
  revert place; induction l as [|t l IH]; intros place; [reflexivity|]. cbn. f_equal. apply IH.
Qed.

Lemma visible_level_1 above below ws place j q k :
  ~ (place - below <= j <= place + above)%Z ->
  visible ((below, above) :: ws) (Some place :: q) (Some j :: k) = false.
Proof.
  intros H. unfold visible, levels. cbn [length seq map nth]. cbn [inside].
  replace ((place - below <=? j) && (j <=? place + above))%Z with false by lia.
  cbn [forallb]. apply andb_false_r.
Qed.

Lemma visible_without_ids ws q : visible ws q [] = false.
Proof.
  unfold visible, levels. rewrite map_map, andb_false_iff. left. apply not_true_is_false.
  intros H. apply existsb_exists in H. destruct H as (d & Hd & H). apply in_map_iff in Hd.
  destruct Hd as (i & <- & _). revert H. cbn. destruct (nth i ws (0, 0)%Z), (nth i q None), i; discriminate.
Qed.

Section Places.
  Variables (below above : Z) (higher : list window).
  Hypothesis two : (below + above = 1)%Z.
  Variables (q : ids) (place : Z).
  Let sees_ (c : cell) := visible ((below, above) :: higher) (Some place :: q) (snd c).

  (** A window of two places shows the digits at these places. *)
  Lemma visible_digits tags_ n l :
    let at_ i := if (i <? n)%Z then None else nth_error l (Z.to_nat (i - n)) in
    let i := (place - below)%Z in
    filter sees_ (digit_cells tags_ n l)
    = filter sees_ (cell_at tags_ i (at_ i) ++ cell_at tags_ (i + 1) (at_ (i + 1)%Z)).
  Proof.
    cbv zeta. set (i := (place - below)%Z). revert n; induction l as [|t l IH]; intros n.
    - assert (H : forall j, (if (j <? n)%Z then None else nth_error (@nil token) (Z.to_nat (j - n))) = None).
      { intros j. destruct (j <? n)%Z, (Z.to_nat (j - n)); reflexivity. }
      rewrite !H. reflexivity.
    - cbn [digit_cells filter]. rewrite IH. clear IH. unfold sees_ at 1. cbn [snd].
      assert (H : (i < n - 1 \/ i = n - 1 \/ i = n \/ n < i)%Z) by lia.
      destruct H as [H|[H|[H|H]]]; try (rewrite visible_level_1 by (unfold i in H; lia)); clearbody i;
        try subst i; repeat match goal with |- context [(?a <? ?b)%Z] => destruct (Z.ltb_spec a b); try lia end.
      + reflexivity.
      + replace (n - 1 + 1 - n)%Z with 0%Z by lia. replace (n - 1 + 1)%Z with n by lia.
        cbn [cell_at app filter nth_error Z.to_nat]. unfold sees_. cbn [snd].
        destruct (visible _ _ _); reflexivity.
      + replace (n - n)%Z with 0%Z by lia. replace (n + 1 - (n + 1))%Z with 0%Z by lia.
        replace (Z.to_nat (n + 1 - n)) with 1 by lia. cbn [cell_at app filter nth_error Z.to_nat].
        unfold sees_. cbn [snd]. destruct (visible _ _ _); reflexivity.
      + replace (Z.to_nat (i - n)) with (S (Z.to_nat (i - (n + 1)))) by lia.
        replace (Z.to_nat (i + 1 - n)) with (S (Z.to_nat (i + 1 - (n + 1)))) by lia.
        reflexivity.
  Qed.
End Places.

Lemma levels_cons w ws q qs k ks :
  levels (w :: ws) (q :: qs) (k :: ks) = (w, q, k) :: levels ws qs ks.
Proof. unfold levels. cbn [length seq map nth]. f_equal. rewrite <- seq_shift, map_map. reflexivity. Qed.

Lemma levels_without_ids w ws q qs : levels (w :: ws) (q :: qs) [] = levels (w :: ws) (q :: qs) (None :: []).
Proof.
  unfold levels. apply map_ext. intros [|i]; [reflexivity|]. cbn [nth]. destruct i; reflexivity.
Qed.

(** Signs have no place, or are below the lowest one. *)
Definition is_low (k : ids) : Prop :=
  match k with Some c :: _ => (c <= -1)%Z | _ => True end.

Section Shift.
  Variables (below above : Z) (higher : list window).
  Notation windows := ((below, above) :: higher).
  Variables (q : ids) (place place' : Z).

  (** Queries at two places see the same. *)
  Definition alike (c d : cell) : Prop :=
    show windows (Some place :: q) c = show windows (Some place' :: q) d
    /\ visible windows (Some place :: q) (snd c) = visible windows (Some place' :: q) (snd d).

  Lemma alike_digit t i tags_ :
    alike (t, Some (place + i)%Z :: tags_) (t, Some (place' + i)%Z :: tags_).
  Proof.
    unfold alike, show, visible. cbn [fst snd]. rewrite !levels_cons. cbn [map]. split.
    - do 2 f_equal. unfold bias_row. lia.
    - do 3 f_equal; unfold inside; do 2 f_equal; lia.
  Qed.

  Definition far (k : ids) : Prop :=
    match k with Some c :: _ => (c < Z.min place place' - Z.max below above)%Z | _ => True end.

  Lemma alike_far t k : far k -> alike (t, k) (t, k).
  Proof.
    intros H. unfold alike, show, visible. cbn [fst snd].
    destruct k as [|[c|] k]; rewrite ?levels_without_ids, !levels_cons; try (split; reflexivity).
    cbn [far] in H. cbn [map]. split.
    - do 2 f_equal. unfold bias_row. lia.
    - do 3 f_equal; unfold inside; f_equal; lia.
  Qed.

  Lemma glimpse_alike (first first' : cell) middle middle' (query query' : cell) :
    snd query = Some place :: q -> snd query' = Some place' :: q ->
    alike first first' -> Forall2 alike middle middle' -> alike query query' ->
    glimpse windows first middle query = glimpse windows first' middle' query'.
  Proof.
    intros Hq Hq' [Hf _] Hm [Hl _]. unfold glimpse. rewrite Hq, Hq'. cbn [map]. f_equal; [exact Hf|].
    rewrite !map_app. f_equal; [|cbn [map]; f_equal; exact Hl].
    induction Hm as [|c d m m' [Hs Hv] _ IH]; [reflexivity|]. cbn [filter]. rewrite Hv.
    destruct (visible _ (Some place' :: q) _); [|exact IH]. cbn [map]. f_equal; [exact Hs|exact IH].
  Qed.
End Shift.

Lemma low_far place k : (1 <= place)%Z -> is_low k -> far 0 1 place 1 k.
Proof. destruct k as [|[c|] k]; cbn; try exact (fun _ _ => I). lia. Qed.

(** * A task, place by place *)

(** The digits of all numbers at a place, where there is one. *)
Definition column := list (option nat).

Record rules := Rules {
  form : layout;
  more_windows : list window;  (* of higher levels; that of places shows this one and the next *)
  write : nat -> token;  (* the token of a digit of a number *)
  state : Type;
  initial : state;
  after : state -> column -> state;
  out : state -> column -> option token;  (* what is written at a place; [None] after the last *)
  (** What may be found, or more: the lowest column; the lowest two; a state, its column and the
      next one. *)
  starts : list column;
  lowest : list (column * column);
  later : list (state * column * column) }.

Section Rules.
  Variable r : rules.
  Notation windows := ((0, 1)%Z :: more_windows r).
  Let begin := sign_cell (first (form r)).
  Let equals := sign_cell (answer_segment (form r)).
  Let answer_tags := tags (answer_segment (form r)).

  Definition ask (numbers : list (list nat)) : list token :=
    match numbers with
    | [] => []
    | n :: more =>
      sign (first (form r)) :: label (form r) ++ map (write r) n
        ++ flat_map (fun sn => sign (fst sn) :: map (write r) (snd sn)) (combine (others (form r)) more)
        ++ [sign (answer_segment (form r))]
    end.

  (** What may be neighbours a query at a place. *)
  Definition neighbour_digits (s : segment) (place : Z) (x x' : option nat) : list cell :=
    cell_at (tags s) place (option_map (write r) x)
      ++ cell_at (tags s) (place + 1) (option_map (write r) x').
  Definition neighbours (place : Z) (col next : column) : list cell :=
    match col, next with
    | x :: xs, x' :: xs' =>
      neighbour_digits (first (form r)) place x x'
        ++ flat_map (fun sxx => sign_cell (fst sxx)
             :: neighbour_digits (fst sxx) place (fst (snd sxx)) (snd (snd sxx)))
             (combine (others (form r)) (combine xs xs'))
    | _, _ => []
    end.

  Definition due (t : option token) : token := match t with Some t => t | None => END end.

  Definition first_context (next : column) : context :=
    (fst equals, glimpse windows begin (neighbours (-1) (map (fun _ => None) next) next) equals,
     due (out r (initial r) next)).
  Definition later_keys (place : Z) (q : token) (col next : column) : list key :=
    glimpse windows begin (neighbours place col next ++ [equals]) (q, Some place :: answer_tags).
  Definition later_context (place : Z) (s : state r) (col next : column) : list context :=
    match out r s col with
    | None => []
    | Some q => [(q, later_keys place q col next, due (out r (after r s col) next))]
    end.

  Definition all_contexts : list context := normal (
    map first_context (starts r)
    ++ flat_map (fun c => later_context 0 (initial r) (fst c) (snd c)) (lowest r)
    ++ flat_map (fun c => later_context 1 (fst (fst c)) (snd (fst c)) (snd c)) (later r)).

  Definition column_at (numbers : list (list nat)) (place : Z) : column :=
    map (fun n => if (place <? 0)%Z then None else nth_error n (Z.to_nat place)) numbers.
  Definition column_of (numbers : list (list nat)) (k : nat) : column :=
    map (fun n => nth_error n k) numbers.

  Fixpoint state_at (numbers : list (list nat)) (k : nat) : state r :=
    match k with
    | O => initial r
    | S k => after r (state_at numbers k) (column_of numbers k)
    end.

  Definition is_below (s : segment) : Prop := is_low (sign_ids s).

  (** The rules hold of numbers and what is written below them. *)
  Record follows (numbers : list (list nat)) (written : list token) : Prop := Follows {
    as_many : length numbers = S (length (others (form r)));
    plain : forall n d s, In n numbers -> In d n -> In s (others (form r) ++ [answer_segment (form r)]) ->
      write r d <> sign s;
    writes : forall k, k <= length written ->
      nth_error written k = out r (state_at numbers k) (column_of numbers k);
    starts_so : In (column_of numbers 0) (starts r);
    goes_on : forall k, k < length written ->
      if k =? 0 then In (column_of numbers 0, column_of numbers 1) (lowest r)
      else In (state_at numbers k, column_of numbers k, column_of numbers (S k)) (later r) }.

  (** ** Each step is one of these contexts *)

  Definition question_cells (numbers : list (list nat)) : list cell :=
    match numbers with
    | [] => []
    | n :: more =>
      map bare (label (form r)) ++ digit_cells (tags (first (form r))) 0 (map (write r) n)
        ++ flat_map (fun sn => segment_cells (fst sn) (map (write r) (snd sn)))
             (combine (others (form r)) more)
    end.

  Lemma located_numbers t0 n more rest later_ :
    length more = length later_ ->
    (forall m d s, In m (n :: more) -> In d m -> In s (later_ ++ [answer_segment (form r)]) ->
      write r d <> sign s) ->
    let text := map (write r) n ++ flat_map (fun sn => sign (fst sn) :: map (write r) (snd sn))
      (combine later_ more) ++ sign (answer_segment (form r)) :: rest in
    combine text (scan t0 (later_ ++ [answer_segment (form r)]) 0 text)
    = digit_cells t0 0 (map (write r) n)
      ++ flat_map (fun sn => segment_cells (fst sn) (map (write r) (snd sn))) (combine later_ more)
      ++ equals :: digit_cells answer_tags 0 rest.
  Proof.
    revert t0 n more; induction later_ as [|s later_ IH]; intros t0 n more Hlen plain;
      (destruct more as [|m more]; cbn in Hlen; try discriminate); cbv zeta; cbn [combine flat_map app].
    - rewrite scan_digits.
      + rewrite scan_end. reflexivity.
      + rewrite in_map_iff. intros (d & E & Hd). apply (plain n d (answer_segment (form r))); cbn; auto.
    - rewrite <- app_assoc. cbn [app fst snd]. rewrite scan_digits.
      + specialize (IH (tags s) m more ltac:(congruence)).
        rewrite IH; [rewrite <- app_assoc; reflexivity|]. intros m' d s' Hm Hd Hs. apply (plain m' d s'); cbn in *; auto.
      + rewrite in_map_iff. intros (d & E & Hd). apply (plain n d s); cbn; auto.
  Qed.

  Lemma text_cells numbers written rest : follows numbers written ->
    let text := ask numbers ++ rest in
    combine text (locate (form r) text)
    = begin :: question_cells numbers ++ equals :: digit_cells answer_tags 0 rest.
  Proof.
    intros [Hlen Hplain _ _ _]. destruct numbers as [|n more]; [discriminate|].
    cbn [ask question_cells app locate combine]. unfold begin at 1, sign_cell. f_equal.
    rewrite <- !app_assoc. rewrite firstn_app, firstn_all, Nat.sub_diag, skipn_app, skipn_all, Nat.sub_diag.
    cbn [firstn skipn app]. rewrite app_nil_r.
    injection Hlen as Hlen. cbn [app].
    pose proof (located_numbers (tags (first (form r))) n more rest (others (form r)) Hlen Hplain) as H.
    cbv zeta in H. rewrite <- H. clear. induction (label (form r)) as [|t l IH]; [reflexivity|].
    cbn [app map combine]. f_equal. exact IH.
  Qed.

  Section See.
    Variables (q : ids) (place : Z).
    Hypothesis Hplace : (-1 <= place)%Z.
    Let sees_ (c : cell) := visible windows (Some place :: q) (snd c).

    Lemma see_number s n :
      filter sees_ (digit_cells (tags s) 0 (map (write r) n))
      = filter sees_ (neighbour_digits s place (if (place <? 0)%Z then None else nth_error n (Z.to_nat place))
          (nth_error n (Z.to_nat (place + 1)))).
    Proof.
      unfold sees_, neighbour_digits. rewrite visible_digits, Z.sub_0_r by reflexivity. do 2 f_equal.
      - destruct (place <? 0)%Z; [reflexivity|]. rewrite Z.sub_0_r, nth_error_map. reflexivity.
      - destruct (Z.ltb_spec (place + 1) 0); [lia|]. rewrite Z.sub_0_r, nth_error_map. reflexivity.
    Qed.

    Lemma see_bare l : filter sees_ (map bare l) = [].
    Proof.
      induction l as [|t l IH]; [reflexivity|]. cbn [map filter]. unfold sees_ at 1. cbn [bare snd].
      rewrite visible_without_ids. exact IH.
    Qed.

    Lemma see_question numbers :
      filter sees_ (question_cells numbers)
      = filter sees_ (neighbours place (column_at numbers place) (column_of numbers (Z.to_nat (place + 1)))).
    Proof.
      destruct numbers as [|n more]; [reflexivity|]. cbn [question_cells neighbours column_at column_of map].
      rewrite !filter_app, see_number, see_bare. cbn [app]. f_equal. generalize (others (form r)).
      induction more as [|m more IH]; intros [|s l]; try reflexivity.
      cbn [combine flat_map map]. rewrite !filter_app, IH. unfold segment_cells.
      cbn [filter fst snd]. rewrite see_number. reflexivity.
    Qed.

    Lemma see_written l : (Z.of_nat (length l) <= place)%Z ->
      filter sees_ (digit_cells answer_tags 0 l) = [].
    Proof.
      intros H. unfold sees_. rewrite visible_digits, Z.sub_0_r by reflexivity.
      destruct (Z.ltb_spec place 0); [lia|]. destruct (Z.ltb_spec (place + 1) 0); [lia|].
      rewrite !(fun i => proj2 (nth_error_None l i)) by lia. reflexivity.
    Qed.
  End See.

  Lemma Forall2_flat_map {A B} (P : B -> B -> Prop) (f g : A -> list B) l :
    (forall a, In a l -> Forall2 P (f a) (g a)) -> Forall2 P (flat_map f l) (flat_map g l).
  Proof.
    induction l as [|a l IH]; cbn; intros H; [constructor|]. apply Forall2_app; [apply H; auto|].
    apply IH. auto.
  Qed.

  Hypothesis signs_low : Forall is_below (first (form r) :: others (form r)).
  Hypothesis equals_low : sign_ids (answer_segment (form r)) = Some (-1)%Z :: answer_tags.

  Lemma neighbours_alike q place col next : (1 <= place)%Z ->
    Forall2 (alike 0 1 (more_windows r) q place 1) (neighbours place col next ++ [equals]) (neighbours 1 col next ++ [equals]).
  Proof.
    intros Hplace. inversion signs_low as [|? ? _ Hlow]. subst. rewrite Forall_forall in Hlow.
    assert (digits : forall s x x', Forall2 (alike 0 1 (more_windows r) q place 1)
      (neighbour_digits s place x x') (neighbour_digits s 1 x x')).
    { intros s x x'. assert (H : forall i t, Forall2 (alike 0 1 (more_windows r) q place 1)
        (cell_at (tags s) (place + i) t) (cell_at (tags s) (1 + i) t)).
      { intros i [t|]; constructor; [apply alike_digit|constructor]. }
      pose proof (H 0%Z (option_map (write r) x)) as H0. rewrite !Z.add_0_r in H0.
      apply Forall2_app; [exact H0|apply H]. }
    apply Forall2_app.
    - destruct col as [|x xs], next as [|x' xs']; try constructor. apply Forall2_app; [apply digits|].
      apply Forall2_flat_map. intros [s [y y']] Hin. constructor; [|apply digits].
      apply alike_far, low_far; [exact Hplace|]. apply Hlow. apply in_combine_l in Hin. exact Hin.
    - constructor; [|constructor]. unfold equals, sign_cell. rewrite equals_low.
      apply alike_far, low_far; [exact Hplace|]. cbn. lia.
  Qed.

  Lemma digit_cells_snoc t place l w :
    digit_cells t place (l ++ [w]) = digit_cells t place l ++ [(w, Some (place + Z.of_nat (length l))%Z :: t)].
  Proof.
    revert place; induction l as [|x l IH]; intros place; cbn [app digit_cells length].
    - rewrite Z.add_0_r. reflexivity.
    - rewrite IH, Nat2Z.inj_succ. replace (place + 1 + Z.of_nat (length l))%Z
        with (place + Z.succ (Z.of_nat (length l)))%Z by lia. reflexivity.
  Qed.

  Lemma firstn_snoc {A} (l : list A) k w : nth_error l k = Some w -> firstn (S k) l = firstn k l ++ [w].
  Proof.
    revert k; induction l as [|x l IH]; intros [|k] H; try discriminate; cbn in *; [congruence|].
    f_equal. apply IH, H.
  Qed.

  Lemma due_written written k : nth k written END = due (nth_error written k).
  Proof.
    destruct (nth_error written k) as [w|] eqn:E; [apply nth_error_nth, E|].
    apply nth_error_None in E. apply nth_overflow, E.
  Qed.

  Lemma last_question numbers : numbers <> [] -> exists l, ask numbers = l ++ [fst equals].
  Proof.
    destruct numbers as [|n more]; [congruence|]. intros _. cbn [ask].
    eexists (sign (first (form r)) :: label (form r) ++ map (write r) n ++ flat_map _ _).
    rewrite <- !app_comm_cons, <- !app_assoc. reflexivity.
  Qed.

  Theorem steps_covered numbers written k : follows numbers written -> k <= length written ->
    let text := ask numbers ++ firstn k written in
    exists keys, In (last text END, keys, nth k written END) all_contexts
      /\ Permutation keys (seen windows (combine text (locate (form r) text))).
  Proof.
    intros F Hk. cbv zeta. rewrite (text_cells _ _ _ F), due_written. destruct F as [Hlen _ Hout Hstart Hgo].
    rewrite (Hout k Hk). destruct k as [|p].
    - cbn [firstn digit_cells]. rewrite app_nil_r.
      destruct (last_question numbers) as (l & ->); [intros ->; discriminate|].
      rewrite last_last, seen_glimpse. apply in_normal, in_or_app. left. apply in_map_iff.
      exists (column_of numbers 0). split; [|exact Hstart]. unfold first_context. do 2 f_equal.
      apply glimpse_filter. unfold equals, sign_cell. cbn [snd]. rewrite equals_low.
      symmetry. etransitivity; [apply see_question; lia|]. cbn [Z.add]. do 2 f_equal.
      unfold column_at, column_of. rewrite map_map. reflexivity.
    - destruct (nth_error written p) as [w|] eqn:Hw;
        [|apply nth_error_None in Hw; lia].
      rewrite (firstn_snoc _ _ _ Hw), digit_cells_snoc, app_assoc, last_last.
      rewrite firstn_length_le, Z.add_0_l by lia.
      match goal with |- context [equals :: ?d ++ [?x]] =>
        change (equals :: d ++ [x]) with ((equals :: d) ++ [x]) end.
      rewrite app_assoc, seen_glimpse.
      assert (same : column_at numbers (Z.of_nat p) = column_of numbers p).
      { unfold column_at, column_of. apply map_ext. intros n.
        destruct (Z.ltb_spec (Z.of_nat p) 0); [lia|]. rewrite Nat2Z.id. reflexivity. }
      assert (keys : glimpse windows begin
          (question_cells numbers ++ equals :: digit_cells answer_tags 0 (firstn p written))
          (w, Some (Z.of_nat p) :: answer_tags)
        = later_keys (Z.of_nat p) w (column_of numbers p) (column_of numbers (S p))).
      { apply glimpse_filter. cbn [snd]. rewrite !filter_app. cbn [filter].
        rewrite see_question, see_written by (rewrite ?firstn_length_le; lia).
        rewrite same. replace (Z.to_nat (Z.of_nat p + 1)) with (S p) by lia. reflexivity. }
      rewrite keys. clear keys. apply in_normal, in_or_app. right. apply in_or_app.
      specialize (Hgo p Hk). pose proof (Hout p ltac:(lia)) as Hw'. rewrite Hw in Hw'.
      destruct p as [|p]; cbn [Nat.eqb] in Hgo.
      + left. apply in_flat_map. eexists. split; [exact Hgo|]. cbn [fst snd]. unfold later_context.
        cbn [state_at] in Hw'. rewrite <- Hw'. left. reflexivity.
      + right. apply in_flat_map. eexists. split; [exact Hgo|]. cbn [fst snd]. unfold later_context.
        rewrite <- Hw'. left. do 2 f_equal. unfold later_keys. symmetry.
        apply (glimpse_alike 0 1 (more_windows r) answer_tags (Z.of_nat (S p)) 1); try reflexivity.
        * apply alike_far, low_far; [lia|]. inversion signs_low. assumption.
        * apply neighbours_alike. lia.
        * pose proof (alike_digit 0 1 (more_windows r) answer_tags (Z.of_nat (S p)) 1 w 0 answer_tags) as H.
          rewrite !Z.add_0_r in H. exact H.
  Qed.
End Rules.

(** The task of some rules, of problems whose numbers and answers follow them. *)
Definition columns_task (r : rules) (problem : Type) (numbers : problem -> list (list nat))
    (written : problem -> list token)
    (signs_low : Forall is_below (first (form r) :: others (form r)))
    (equals_low : sign_ids (answer_segment (form r)) = Some (-1)%Z :: tags (answer_segment (form r)))
    (ends_once : forall p, ~ In END (written p))
    (follow : forall p, follows r (numbers p) (written p)) : task :=
  Task problem (fun p => ask r (numbers p)) written (locate (form r)) ((0, 1)%Z :: more_windows r)
    (all_contexts r) ends_once
    (fun p k Hk => steps_covered r signs_low equals_low (numbers p) (written p) k (follow p) Hk).
