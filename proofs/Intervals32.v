(** The margins of float32 by intervals: if all are positive in all contexts, float32 is right. *)

From Coq Require Import List Arith ZArith Reals Bool Lia.
From Flocq Require Import Core.Zaux.
From Interval Require Import Float.Sig.
From Carry Require Import Decoding Windows Transformer Float32 Related Tables Intervals Errors.
Import ListNotations.

(** * Margins of related numbers are related *)

Section Related.
  Context {T U : Type} {n : arithmetic T} {m : arithmetic U} {rel : T -> U -> Prop}.
  Hypothesis operations : respects n m rel.
  Notation vec := (Forall2 rel).
  Notation mat := (Forall2 (Forall2 rel)).
  Context (multiply : matrix T -> vector T -> vector T) (multiply' : matrix U -> vector U -> vector U).
  Hypothesis related_multiply : forall W V x y, mat W V -> vec x y ->
    vec (multiply W x) (multiply' V y).

  Lemma rel_units k : rel (units n k) (units m k).
  Proof. unfold units, number. relate. Qed.
  Lemma rel_smallest : rel (smallest n) (smallest m).
  Proof. unfold smallest. relate. Qed.
  Lemma rel_size x y : vec x y -> rel (size n x) (size m y).
  Proof. intros. unfold size. relate. Qed.
  Lemma rel_frobenius (W : matrix T) (V : matrix U) : mat W V -> rel (frobenius n W) (frobenius m V).
  Proof. intros. apply rel_size. relate. apply rel_size; assumption. Qed.
  Lemma rel_largest x y : vec x y -> rel (largest n x) (largest m y).
  Proof. unfold largest, absolute. induction 1; cbn [fold_right]; relate. Qed.

  Lemma breadth_same (W : matrix T) (V : matrix U) : mat W V -> breadth W = breadth V.
  Proof. unfold breadth. induction 1; cbn; eauto using Forall2_length. Qed.
  Lemma mat_columns (W : matrix T) (V : matrix U) : mat W V -> mat (columns n W) (columns m V).
  Proof. intros H. unfold columns. rewrite (breadth_same _ _ H). relate. Qed.
  Lemma rel_stretch k : forall W V, mat W V -> rel (stretch n k W) (stretch m k V).
  Proof.
    induction k; intros W V H; [apply rel_frobenius, H|]. cbn [stretch]. relate. apply IHk.
    pose proof (mat_columns _ _ H). unfold gram. relate.
  Qed.
  Lemma rel_spectral (W : matrix T) (V : matrix U) : mat W V -> rel (spectral n W) (spectral m V).
  Proof.
    intros H. unfold spectral. rewrite (breadth_same _ _ H), (Forall2_length _ _ _ H).
    destruct (_ <? _); auto using rel_stretch, mat_columns.
  Qed.

  (** Related balls. *)
  Definition balls (b : ball T) (c : ball U) : Prop := vec (fst b) (fst c) /\ rel (snd b) (snd c).
  Lemma rel_reach b c : balls b c -> rel (reach n b) (reach m c).
  Proof. intros []. unfold reach. relate. apply rel_size; assumption. Qed.

  (** Related affine maps, and what is known of them. *)
  Definition affines (a : affine T) (b : affine U) : Prop :=
    mat (fst a) (fst b) /\ vec (snd a) (snd b).
  Record knowns (k : known T) (l : known U) : Prop := Knowns {
    ks_rows : forall x y, vec x y -> vec (k_rows k x) (k_rows l y);
    ks_stretch : rel (k_stretch k) (k_stretch l); ks_size : rel (k_size k) (k_size l);
    ks_bias : rel (k_bias k) (k_bias l); ks_growth : rel (k_growth k) (k_growth l);
    ks_lost : rel (k_lost k) (k_lost l) }.
  Lemma related_known a b : affines a b -> knowns (known_of n multiply a) (known_of m multiply' b).
  Proof.
    intros [HW Hb]. split; cbn [known_of k_rows k_stretch k_size k_bias k_growth k_lost].
    - auto.
    - apply rel_spectral, HW.
    - apply rel_frobenius, HW.
    - apply rel_size, Hb.
    - rewrite (breadth_same _ _ HW). unfold growth. relate. apply rel_units.
    - rewrite (breadth_same _ _ HW). unfold lost, number. relate;
        eauto using rel_units, rel_smallest.
  Qed.
  Lemma rel_roundings k l x y v u : knowns k l -> balls x y -> balls v u ->
    rel (roundings n k x v) (roundings m l y u).
  Proof. intros []  Hx Hv. unfold roundings. relate; auto using rel_reach. Qed.
  Lemma related_affine a b k l x y v u : affines a b -> knowns k l -> balls x y -> balls v u ->
    balls (affine_ball n a k x v) (affine_ball m b l y u).
  Proof.
    intros [Ha Hb] Hk Hx Hv. pose proof (rel_roundings _ _ _ _ _ _ Hk Hx Hv).
    destruct Hk, Hx, Hv. split; cbn [affine_ball fst snd]; relate. auto.
  Qed.
  Lemma related_none {A B} (l : list A) (l' : list B) : length l = length l' ->
    balls (no_vector n l) (no_vector m l').
  Proof.
    intros H. split; cbn [no_vector fst snd]; [|relate]. revert l' H.
    induction l; intros [|]; cbn; intros H; try discriminate; constructor; [relate|]. apply IHl. congruence.
  Qed.
  Lemma related_relu x y : balls x y -> balls (relu_ball n x) (relu_ball m y).
  Proof. intros []. split; cbn [relu_ball fst snd]; relate. Qed.

  Lemma balls_same x y : balls x y -> length (fst x) = length (fst y).
  Proof. intros []. eauto using Forall2_length. Qed.
  Lemma rel_least x y : balls x y -> rel (least_deviation n x) (least_deviation m y).
  Proof. intros []. unfold least_deviation. relate. Qed.
  Lemma rel_square_error x y : balls x y -> rel (square_error n x) (square_error m y).
  Proof.
    intros H. unfold square_error. rewrite (balls_same _ _ H). pose proof (rel_reach _ _ H).
    destruct H. relate; auto using rel_units, rel_smallest.
  Qed.
  Lemma rel_variance x y : balls x y -> rel (least_variance n x) (least_variance m y).
  Proof. intros. unfold least_variance. relate; auto using rel_least, rel_square_error. Qed.
  Lemma rel_steadiness x y : balls x y -> rel (steadiness n x) (steadiness m y).
  Proof. intros H. pose proof (rel_variance _ _ H). destruct H. unfold steadiness. relate. Qed.
  Lemma related_norm s r x y : vec (fst s) (fst r) /\ vec (snd s) (snd r) -> balls x y ->
    balls (norm_ball n s x) (norm_ball m r y).
  Proof.
    intros [] H'. pose proof (rel_reach _ _ H'). pose proof (rel_variance _ _ H').
    pose proof (rel_square_error _ _ H'). pose proof (rel_least _ _ H').
    pose proof (balls_same _ _ H') as E. destruct H'. split; cbn [norm_ball fst snd]; [relate|]. rewrite E.
    relate; auto using rel_units, rel_smallest, rel_largest, rel_size.
  Qed.

  (** Related doubts of heads. *)
  Record doubts_related (d : doubts T) (e : doubts U) : Prop := DoubtsRelated {
    rel_crossed : forall q t, rel (crossed d q t) (crossed e q t);
    rel_gross : forall q t, rel (gross d q t) (gross e q t);
    rel_gross_rows : Forall2 (fun f g => forall r, rel (f r) (g r)) (gross_rows d) (gross_rows e);
    rel_value_error : forall t, rel (value_error d t) (value_error e t);
    rel_value_reach : forall t, rel (value_reach d t) (value_reach e t);
    same_units : score_units d = score_units e }.

  Variables (S : Type) (f : S -> T) (g : S -> U).
  Hypothesis entries : forall s, rel (f s) (g s).
  Lemma affines_map a : affines (map_affine f a) (map_affine g a).
  Proof. split; [apply mat_map, entries|apply vec_map, entries]. Qed.

  Lemma related_doubts size_ source source' h : (forall t, balls (source t) (source' t)) ->
    doubts_related (doubts_of n multiply size_ source (map_head f h))
      (doubts_of m multiply' size_ source' (map_head g h)).
  Proof.
    intros Hs.
    assert (through : forall a t, balls
      (affine_ball n (map_affine f a) (known_of n multiply (map_affine f a)) (source t)
        (no_vector n (snd (map_affine f a))))
      (affine_ball m (map_affine g a) (known_of m multiply' (map_affine g a)) (source' t)
        (no_vector m (snd (map_affine g a))))).
    { intros a t. apply related_affine; auto using affines_map, related_known.
      apply related_none. cbn. rewrite !map_length. reflexivity. }
    split; cbn [doubts_of crossed gross gross_rows value_error value_reach score_units map_head query
      key_map value biases]; intros; rewrite ?tabulate_eq; cbv zeta; rewrite ?tabulate_eq.
    - pose proof (through (query h) q) as [Hq Hq']. pose proof (through (key_map h) t) as [Hk Hk'].
      relate; auto using rel_reach, rel_size. exact (proj2 (affines_map (query h))).
    - relate; auto using rel_reach. exact (proj2 (affines_map (query h))).
    - rewrite !map_map. apply Forall2_map_same. intros level r. rewrite !tabulate_eq. unfold absolute.
      pose proof (vec_map f g entries level). relate.
    - apply through.
    - apply rel_reach, through.
    - cbn. rewrite !map_length. reflexivity.
  Qed.

  Notation parts_related := (related_parts (rel := rel)).
  Lemma related_head q keys h h' : parts_related (fst h) (fst h') -> doubts_related (snd h) (snd h') ->
    balls (head_ball n q keys h) (head_ball m q keys h').
  Proof.
    intros Hp Hd.
    assert (Hz : vec (attended_head n q keys (fst h)) (attended_head m q keys (fst h')))
      by (eapply vec_attended_head; eassumption).
    assert (Hw : forall k, rel (weight_of n (fst h) q k) (weight_of m (fst h') q k))
      by (intros; eapply rel_weight; eassumption).
    pose proof (related_value _ _ Hp) as Hv. destruct Hd. split; [exact Hz|].
    cbn [head_ball snd]. unfold shift, spread, over, number. rewrite same_units0.
    relate; auto using rel_units, rel_smallest.
    all: try (apply rel_largest, Forall2_map_same; intros); auto.
    all: try (apply rel_size; relate; apply Hv).
    all: apply (rel_add operations), (rel_sum operations); auto.
    all: eapply Forall2_map; [apply Forall2_combine; [eassumption|apply Forall2_equal]|].
    all: intros a b [H E]; rewrite E; apply H.
  Qed.

  (** Related weights give related margins. *)
  Variable w : weights S.
  Notation fw := (map_weights f w).
  Notation gw := (map_weights g w).
  Lemma related_embedding t : balls (embedding_ball n fw t) (embedding_ball m gw t).
  Proof. split; cbn [embedding_ball fst snd]; [apply vec_embedding, entries|relate]. Qed.

  Lemma scalings_map s : vec (fst (map_scaling f s)) (fst (map_scaling g s))
    /\ vec (snd (map_scaling f s)) (snd (map_scaling g s)).
  Proof. split; apply vec_map, entries. Qed.

  Record related_knowledge (k : knowledge T) (l : knowledge U) : Prop := RelatedKnowledge {
    related_heads : Forall2 (fun h h' => parts_related (fst h) (fst h') /\ doubts_related (snd h) (snd h'))
      (of_heads k) (of_heads l);
    related_sources : forall t, rel (of_source k t) (of_source l t);
    related_output : knowns (of_output k) (of_output l); related_up : knowns (of_up k) (of_up l);
    related_down : knowns (of_down k) (of_down l); related_logits : knowns (of_logits k) (of_logits l);
    related_distances : mat (distances k) (distances l) }.
  Lemma related_knowledge_of : related_knowledge (knowledge_of n multiply fw) (knowledge_of m multiply' gw).
  Proof.
    pose proof (mat_map f g entries (logits w)) as Hl.
    split; cbn [knowledge_of of_heads of_source of_output of_up of_down of_logits distances map_weights
      tokens heads output up down logits]; rewrite ?map_length.
    - rewrite !map_map. apply Forall2_map_same. intros h. cbn [fst snd].
      split; [apply (related_parts_of operations f g entries)|apply related_doubts]; intros t; rewrite !tabulate_eq.
      + apply (vec_source operations), entries.
      + apply related_norm; [apply scalings_map|apply related_embedding].
    - intros t. rewrite !tabulate_eq. apply rel_steadiness, related_embedding.
    - apply related_known, affines_map.
    - apply related_known, affines_map.
    - apply related_known, affines_map.
    - apply related_known. split; [exact Hl|]. cbn [without_bias snd].
      apply (related_none (map (map f) (logits w)) (map (map g) (logits w))). rewrite !map_length. reflexivity.
    - relate. apply rel_size. relate.
  Qed.

  Theorem related_margins c : vec (margins n fw (knowledge_of n multiply fw) c)
    (margins m gw (knowledge_of m multiply' gw) c).
  Proof.
    destruct related_knowledge_of as [Hh Hs Ho Hu Hd Hlog Hdist]. destruct c as [[q keys] y].
    set (k := knowledge_of n multiply fw) in *. set (l := knowledge_of m multiply' gw) in *.
    assert (Hz : balls (heads_ball n k q keys) (heads_ball m l q keys)).
    { assert (H : Forall2 balls (map (head_ball n q keys) (of_heads k)) (map (head_ball m q keys) (of_heads l)))
        by (eapply Forall2_map; [exact Hh|]; intros h h' []; apply related_head; assumption).
      split; cbn [heads_ball fst snd].
      - induction H as [|b c bs cs []]; cbn; auto using Forall2_app.
      - apply rel_size. eapply Forall2_map; [exact H|]. intros b c []. assumption. }
    assert (Hx : balls (attention_ball n fw k q (heads_ball n k q keys))
      (attention_ball m gw l q (heads_ball m l q keys)))
      by (apply related_affine; auto using affines_map, related_embedding; apply affines_map).
    set (x := attention_ball _ _ _ _ _) in *. set (x' := attention_ball m _ _ _ _) in *.
    assert (Hy : balls (hidden_ball n fw k x) (hidden_ball m gw l x')).
    { apply related_affine; auto using affines_map; [apply affines_map|]. apply related_relu.
      apply related_affine; auto using affines_map; [apply affines_map| |].
      - apply related_norm; [apply scalings_map|exact Hx].
      - apply related_none. cbn. rewrite !map_length. reflexivity. }
    set (h := hidden_ball _ _ _ _) in *. set (h' := hidden_ball m _ _ _) in *.
    cbn [margins]. fold x x' h h'. constructor; [apply (rel_of_Z operations)|].
    apply Forall2_app; [apply Forall2_map_same, Hs|]. do 2 (constructor; [apply rel_steadiness; assumption|]).
    assert (Hlast : balls (norm_ball n (before_logits fw) h) (norm_ball m (before_logits gw) h'))
      by (apply related_norm; [apply scalings_map|exact Hy]).
    unfold leads. pose proof (ks_rows _ _ Hlog _ _ (proj1 Hlast)) as Hrows.
    rewrite (Forall2_length _ _ _ Hrows). cbv zeta. apply Forall2_map_same. intros v. relate.
    - apply Hlast.
    - apply rel_roundings; [exact Hlog|exact Hlast|]. apply related_none. cbn. rewrite !map_length. reflexivity.
  Qed.
End Related.

(** * The check *)

Module Intervals32 (F : FloatOps with Definition radix := radix2
                                 with Definition sensible_format := true).
Module B := Intervals F.
Import B.

Section Precision.
  Variable p : F.precision.

  (** A matrix by a vector, with signs known. *)
  Definition multiply (W : matrix I.type) : vector I.type -> vector I.type :=
    let W := map (map sign) W in fun x => let x := map sign x in map (fun row => product p row x) W.

  Lemma holds_multiply (W : matrix I.type) V x y : Forall2 (Forall2 (holds)) W V ->
    Forall2 holds x y -> Forall2 holds (multiply W x) (rows V y).
  Proof.
    intros H Hx. unfold multiply, rows. cbv zeta. rewrite map_map. eapply Forall2_map; [exact H|].
    intros row row' Hrow. apply holds_product; assumption.
  Qed.

  (** Whether the due token leads in all float32 results, in each of the contexts. *)
  Definition check32 (w : weights (Z * Z)) (contexts : list context) : bool :=
    let v := map_weights (bound p) w in
    let k := knowledge_of (intervals p) multiply v in
    forallb (fun row => length row =? length (hd [] (logits w))) (logits w)
    && forallb (fun c => (snd c <? length (logits w)) && forallb positive (margins (intervals p) v k c)) contexts.

  Theorem check32_correct t w : check32 w (contexts t) = true -> right32_by t (map_weights real w).
  Proof.
    unfold check32. cbv zeta. rewrite andb_true_iff, !forallb_forall. intros [same H] q keys y l Hin.
    specialize (H _ Hin). cbn [snd] in H. rewrite andb_true_iff, Nat.ltb_lt, forallb_forall in H.
    destruct H as [Hy Hm]. apply margins_right.
    - intros v v' Hv Hv'. cbn [map_weights logits] in *. rewrite map_length in *.
      assert (L : forall v, v < length (logits w) -> length (nth v (map (map real) (logits w)) [])
        = length (hd [] (logits w))).
      { intros u Hu. rewrite (nth_map (map real) _ _ []), map_length by exact Hu. apply Nat.eqb_eq, same, nth_In, Hu. }
      rewrite !L; auto.
    - cbn [map_weights logits]. rewrite map_length. exact Hy.
    - pose proof (related_margins (operations p) multiply rows holds_multiply _ _ _ (holds_real p) w
        (q, keys, y)) as M.
      set (l1 := margins _ _ _ _) in M, Hm. set (l2 := margins _ _ _ _) in M |- *. clearbody l1 l2.
      induction M as [|a x l1 l2 Ha _ IH]; constructor.
      + apply (positive_holds a x Ha), Hm. left. reflexivity.
      + apply IH. intros b Hb. apply Hm. right. exact Hb.
  Qed.

  (** All of some models are exact in float32. *)
  Definition check32_models {A} (models : list (weights (Z * Z) * A)) (l : list context) : bool :=
    forallb (fun wm => check32 (fst wm) l) models.

  Theorem float32_exact {A} t (models : list (weights (Z * Z) * A)) :
    check32_models models (contexts t) = true -> forall w m, In (w, m) models ->
    forall computed, computes32 t (map_weights real w) computed -> exact t (greedy computed).
  Proof.
    unfold check32_models. rewrite forallb_forall. intros H w m Hin.
    apply right_so_exact32, check32_correct, (H _ Hin).
  Qed.
End Precision.
End Intervals32.
