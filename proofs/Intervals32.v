(** The margins of float32 by intervals: if all are positive in all contexts, float32 is right. *)

From Coq Require Import List Arith ZArith Reals Bool Lia.
From Flocq Require Import Core.Zaux.
From Interval Require Import Float.Sig.
From Carry Require Import Decoding Windows Transformer Float32 Related Tables Intervals
  Lengths Margins Errors Leads.
Import ListNotations.

(** * Margins of related numbers are related *)

Section Related.
  Context {T U : Type} {n : arithmetic T} {m : arithmetic U} {rel : T -> U -> Prop}.
  Hypothesis operations : respects n m rel.
  Notation vec := (Forall2 rel).
  Notation mat := (Forall2 (Forall2 rel)).
  Context (s : tools T) (r : tools U).
  Hypothesis rel_multiply : forall W V x y, mat W V -> vec x y ->
    vec (multiply s W x) (multiply r V y).
  Hypothesis rel_unit : rel (unit s) (unit r).
  Hypothesis rel_tiny : rel (least s) (least r).

  Lemma rel_units k : rel (units n s k) (units m r k).
  Proof. unfold units, number. relate. Qed.
  Lemma rel_size x y : vec x y -> rel (size n x) (size m y).
  Proof. intros. unfold size. relate. Qed.
  Lemma rel_frobenius (W : matrix T) (V : matrix U) : mat W V ->
    rel (frobenius n W) (frobenius m V).
  Proof. intros. apply rel_size. relate. apply rel_size. assumption. Qed.
  Lemma rel_largest x y : vec x y -> rel (largest n x) (largest m y).
  Proof. unfold largest, absolute. induction 1; cbn [fold_right]; relate. Qed.

  Lemma breadth_same (W : matrix T) (V : matrix U) : mat W V -> breadth W = breadth V.
  Proof. unfold breadth. induction 1; cbn; eauto using Forall2_length. Qed.
  Lemma mat_columns (W : matrix T) (V : matrix U) : mat W V -> mat (columns n W) (columns m V).
  Proof. intros H. unfold columns. rewrite (breadth_same _ _ H). relate. Qed.
  Lemma rel_spectral (W : matrix T) (V : matrix U) : mat W V ->
    rel (spectral n W) (spectral m V).
  Proof.
    assert (S : forall k W V, mat W V -> rel (stretch n k W) (stretch m k V)).
    { induction k; intros W' V' H; [apply rel_frobenius, H|]. cbn [stretch]. relate. apply IHk.
      pose proof (mat_columns _ _ H). unfold gram. relate. }
    intros H. unfold spectral. rewrite (breadth_same _ _ H), (Forall2_length _ _ _ H).
    destruct (_ <? _); auto using mat_columns.
  Qed.

  (** Related balls, and what is known of affine maps. *)
  Definition balls (b : ball T) (c : ball U) : Prop := vec (fst b) (fst c) /\ rel (snd b) (snd c).
  Definition pairs (a : affine T) (b : affine U) : Prop :=
    mat (fst a) (fst b) /\ vec (snd a) (snd b).
  Record knowns (k : known T) (l : known U) : Prop := Knowns {
    ks_rows : forall x y, vec x y -> vec (k_rows k x) (k_rows l y);
    ks_stretch : rel (k_stretch k) (k_stretch l); ks_size : rel (k_size k) (k_size l);
    ks_bias : rel (k_bias k) (k_bias l); ks_growth : rel (k_growth k) (k_growth l);
    ks_lost : rel (k_lost k) (k_lost l) }.

  Lemma rel_reach b c : balls b c -> rel (reach n b) (reach m c).
  Proof. intros []. unfold reach. relate. apply rel_size; assumption. Qed.
  Lemma related_exactly x y : vec x y -> balls (exactly n x) (exactly m y).
  Proof. intros. split; cbn [exactly fst snd]; relate. Qed.
  Lemma vec_zeros {A B} (P : A -> B -> Prop) l l' : Forall2 P l l' -> vec (zeros n l) (zeros m l').
  Proof. unfold zeros. induction 1; cbn [map]; constructor; auto. relate. Qed.

  Lemma related_known a b : pairs a b -> knowns (known_of n s a) (known_of m r b).
  Proof.
    intros [HW Hb]. split; cbn [known_of k_rows k_stretch k_size k_bias k_growth k_lost];
      rewrite ?(breadth_same _ _ HW); auto using rel_spectral, rel_frobenius, rel_size;
      unfold growth, lost, number; relate; eauto using rel_units.
  Qed.
  Lemma rel_roundings k l x y v u : knowns k l -> balls x y -> balls v u ->
    rel (roundings n k x v) (roundings m l y u).
  Proof. intros [] Hx Hv. unfold roundings. relate; auto using rel_reach. Qed.
  Lemma related_affine a b k l x y v u : pairs a b -> knowns k l -> balls x y -> balls v u ->
    balls (affine_ball n a k x v) (affine_ball m b l y u).
  Proof.
    intros [Ha Hb] Hk Hx Hv. pose proof (rel_roundings _ _ _ _ _ _ Hk Hx Hv).
    destruct Hk, Hx, Hv. split; cbn [affine_ball fst snd]; relate. auto.
  Qed.
  Lemma related_relu x y : balls x y -> balls (relu_ball n x) (relu_ball m y).
  Proof. intros []. split; cbn [relu_ball fst snd]; relate. Qed.

  (** Related norms. *)
  Lemma rel_least x y : balls x y -> rel (least_deviation n x) (least_deviation m y).
  Proof. intros []. unfold least_deviation. relate. Qed.
  Lemma rel_square_error x y : balls x y -> rel (square_error n s x) (square_error m r y).
  Proof.
    intros H. pose proof (rel_reach _ _ H). destruct H as [H ?]. unfold square_error.
    rewrite (Forall2_length _ _ _ H). relate. apply rel_units.
  Qed.
  Lemma rel_variance x y : balls x y -> rel (least_variance n s x) (least_variance m r y).
  Proof. intros. unfold least_variance. relate; auto using rel_least, rel_square_error. Qed.
  Lemma rel_steadiness x y : balls x y -> rel (steadiness n s x) (steadiness m r y).
  Proof. intros H. pose proof (rel_variance _ _ H). destruct H. unfold steadiness. relate. Qed.
  Lemma related_norm u v x y : vec (fst u) (fst v) /\ vec (snd u) (snd v) -> balls x y ->
    balls (norm_ball n s u x) (norm_ball m r v y).
  Proof.
    intros [] H'. pose proof (rel_reach _ _ H'). pose proof (rel_variance _ _ H').
    pose proof (rel_square_error _ _ H'). pose proof (rel_least _ _ H').
    destruct H' as [Hx ?]. split; cbn [norm_ball fst snd]; [relate|].
    rewrite (Forall2_length _ _ _ Hx). relate; auto using rel_units, rel_largest, rel_size.
  Qed.

  (** Related heads. *)
  Definition both (a : T * T) (b : U * U) : Prop := rel (fst a) (fst b) /\ rel (snd a) (snd b).
  Record related_doubts (d : doubts T) (e : doubts U) : Prop := RelatedDoubts {
    rel_query : forall t, both (of_query d t) (of_query e t);
    rel_key : forall t, both (of_key d t) (of_key e t);
    rel_value : forall t, both (of_value_ d t) (of_value_ e t);
    rel_bias : rel (largest_bias d) (largest_bias e); rel_scale : rel (scale d) (scale e);
    same_units : score_units d = score_units e }.

  Lemma both_most f g keys : (forall t, both (f t) (g t)) -> both (most n f keys) (most m g keys).
  Proof. intros H. split; apply rel_largest, Forall2_map_same; intros; apply H. Qed.

  Lemma related_head q keys h h' : related_parts (rel := rel) (fst h) (fst h') ->
    related_doubts (snd h) (snd h') -> balls (head_ball n s q keys h) (head_ball m r q keys h').
  Proof.
    intros Hp Hd.
    assert (Hz : vec (attended_head n q keys (fst h)) (attended_head m q keys (fst h')))
      by (eapply vec_attended_head; eassumption).
    assert (Hw : forall k, rel (weight_of n (fst h) q k) (weight_of m (fst h') q k))
      by (intros; eapply Tables.rel_weight; eassumption).
    pose proof (related_value _ _ Hp) as Hv. destruct Hd as [Dq Dk Dv Db Ds Du].
    pose proof (both_most _ _ keys Dk) as []. pose proof (both_most _ _ keys Dv) as [].
    destruct (Dq q). split; [exact Hz|]. cbn [head_ball snd]. unfold shift, spread, over, number.
    rewrite Du. relate; auto using rel_units. apply rel_size. relate. apply Hv.
  Qed.

  (** Related models. *)
  Context {S : Type} (f : S -> T) (g : S -> U).
  Hypothesis entries : forall a, rel (f a) (g a).
  Variable w : weights S.
  Notation fw := (map_weights f w).
  Notation gw := (map_weights g w).

  Lemma pairs_map a : pairs (map_affine f a) (map_affine g a).
  Proof. split; [apply mat_map, entries|apply vec_map, entries]. Qed.
  Lemma scalings_map a : vec (fst (map_scaling f a)) (fst (map_scaling g a))
    /\ vec (snd (map_scaling f a)) (snd (map_scaling g a)).
  Proof. split; apply vec_map, entries. Qed.
  Lemma related_embedding t : balls (exactly n (embedding fw t)) (exactly m (embedding gw t)).
  Proof. apply related_exactly, vec_embedding, entries. Qed.

  Lemma related_doubts_of size_ source source' h : (forall t, balls (source t) (source' t)) ->
    related_doubts (doubts_of n s size_ source (map_head f h))
      (doubts_of m r size_ source' (map_head g h)).
  Proof.
    intros Hs. split; cbn [doubts_of of_query of_key of_value_ largest_bias scale score_units
      map_head query key_map value biases].
    1-3: intros t; rewrite !tabulate_eq; cbv zeta.
    1-3: match goal with |- both (_, snd ?b) (_, snd ?c) => assert (H : balls b c) by
      (apply related_affine; auto using related_known, pairs_map;
       eapply related_exactly, vec_zeros, pairs_map) end.
    1-3: split; [apply rel_reach, H|apply H].
    - rewrite !map_map. apply (rel_sum operations), Forall2_map_same. intros level. relate.
      apply rel_largest, vec_map, entries.
    - relate. exact (proj2 (pairs_map (query h))).
    - cbn. rewrite !map_length. reflexivity.
  Qed.

  Theorem related_margins c : vec (margins n s fw (knowledge_of n s fw) c)
    (margins m r gw (knowledge_of m r gw) c).
  Proof.
    destruct c as [[q keys] y]. set (k := knowledge_of n s fw). set (l := knowledge_of m r gw).
    assert (Hlogits : pairs (without_bias n (logits fw)) (without_bias m (logits gw)))
      by (split; [|eapply vec_zeros]; exact (mat_map _ _ entries (logits w))).
    assert (Hz : balls (heads_ball n s k q keys) (heads_ball m r l q keys)).
    { assert (H : Forall2 balls (map (head_ball n s q keys) (of_heads k))
        (map (head_ball m r q keys) (of_heads l))).
      { unfold k, l. cbn [knowledge_of of_heads heads map_weights tokens]. rewrite !map_length,
          !map_map.
        apply Forall2_map_same. intros h. apply related_head; cbn [fst snd];
          [apply (related_parts_of operations f g entries)|apply related_doubts_of]; intros t;
            rewrite !tabulate_eq.
        - apply (vec_source operations), entries.
        - apply related_norm; [apply scalings_map|apply related_embedding]. }
      split; cbn [heads_ball fst snd].
      - induction H as [|b c bs cs []]; cbn; auto using Forall2_app.
      - apply rel_size. eapply Forall2_map; [exact H|]. intros b c []. assumption. }
    assert (Hx : balls (attention_ball n fw k q (heads_ball n s k q keys))
      (attention_ball m gw l q (heads_ball m r l q keys)))
      by (apply related_affine; [apply pairs_map|apply related_known,
        pairs_map|exact Hz|apply related_embedding]).
    set (x := attention_ball n _ _ _ _) in *. set (x' := attention_ball m _ _ _ _) in *.
    assert (Hy : balls (hidden_ball n s fw k x) (hidden_ball m r gw l x')).
    { apply related_affine; [apply pairs_map|apply related_known, pairs_map| |exact Hx]. apply
        related_relu.
      apply related_affine; [apply pairs_map|apply related_known, pairs_map|
        apply related_norm; [apply scalings_map|exact Hx]|].
      eapply related_exactly, vec_zeros, pairs_map. }
    assert (Hlast : balls (norm_ball n s (before_logits fw) (hidden_ball n s fw k x))
      (norm_ball m r (before_logits gw) (hidden_ball m r gw l x')))
      by (apply related_norm; [apply scalings_map|exact Hy]).
    cbn [margins]. fold x x'. constructor; [apply (rel_of_Z operations)|]. apply Forall2_app.
    { apply Forall2_map_same. intros t. unfold k,
        l. cbn [knowledge_of of_source]. rewrite !tabulate_eq.
      apply rel_steadiness, related_embedding. }
    do 2 (constructor; [apply rel_steadiness; assumption|]).
    revert Hlast. generalize (norm_ball n s (before_logits fw) (hidden_ball n s fw k x)).
    generalize (norm_ball m r (before_logits gw) (hidden_ball m r gw l x')). intros z' z Hlast.
    pose proof (related_known _ _ Hlogits) as Hk. unfold leads.
    pose proof (ks_rows _ _ Hk _ _ (proj1 Hlast)) as Hrows. unfold k, l.
    cbn [knowledge_of of_logits distances]. cbv zeta. rewrite (Forall2_length _ _ _ Hrows).
    apply Forall2_map_same. intros v. destruct Hlast as [H1 H2]. destruct Hlogits as [H3 _].
    cbn [without_bias fst] in H3. relate.
    - apply rel_size. relate.
    - apply rel_roundings; [exact Hk|split; assumption|]. eapply related_exactly, vec_zeros, H3.
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
  Definition interval_tools : tools I.type := Tools I.type
    (fun W => let W := map (map sign) W in
              fun x => let x := map sign x in map (fun row => product p row x) W)
    (bound p (1, 24)%Z) (bound p (1, 126)%Z).

  (** Whether the due token leads in all float32 results, in a context. *)
  Definition leads32 (w : weights (Z * Z)) : context -> bool :=
    let v := map_weights (bound p) w in
    let k := knowledge_of (intervals p) interval_tools v in
    let even := forallb (fun row => length row =? length (hd [] (logits w))) (logits w) in
    fun c => even && (snd c <? length (logits w))
      && forallb positive (margins (intervals p) interval_tools v k c).
  Definition check32 (w : weights (Z * Z)) (contexts : list context) : bool :=
    forallb (leads32 w) contexts.

  Lemma all_positive l u : Forall2 holds l u -> forallb positive l = true -> Forall (Rlt 0) u.
  Proof.
    induction 1 as [|a x l u Ha _ IH]; cbn [forallb]; [constructor|]. rewrite andb_true_iff.
    intros [P H]. constructor; [exact (positive_holds a x Ha P)|apply IH, H].
  Qed.

  Theorem check32_correct t w : check32 w (contexts t) = true ->
    right32_by t (map_weights real w).
  Proof.
    unfold check32. rewrite forallb_forall. intros H q keys y l Hin. specialize (H _ Hin).
    unfold leads32 in H. cbv zeta in H. cbn [snd] in H.
    rewrite !andb_true_iff, Nat.ltb_lt in H. destruct H as [[same Hy] Hm].
    rewrite forallb_forall in same.
    apply margins_right; cbn [map_weights logits]; rewrite ?map_length; [|exact Hy|].
    - intros v Hv. rewrite (nth_map (map real) _ _ []), map_length by exact Hv.
      replace (length (hd [] _)) with (length (hd [] (logits w)))
        by (destruct (logits w); cbn; rewrite ?map_length; reflexivity).
      apply Nat.eqb_eq, same, nth_In, Hv.
    - assert (half : forall k, holds (bound p (1, k)%Z) (/ IZR (2 ^ k)))
        by (intros k; pose proof (holds_real p (1, k)%Z) as R; unfold real, Rdiv in R;
            cbn [fst snd] in R; rewrite Rmult_1_l in R; exact R).
      refine (all_positive _ _ _ Hm).
      apply (related_margins (operations p)); [|apply half|apply half|apply holds_real].
      intros W V x x' HW Hx. cbn [multiply interval_tools]. cbv zeta. rewrite map_map.
      eapply Forall2_map; [exact HW|]. intros row row' Hrow. apply holds_product; assumption.
  Qed.

  (** Contexts can be checked in parts, as [check_flat_map] says. *)
  Lemma check32_flat_map {A} w (f : A -> list context) l : check32 w (flat_map f l)
    = let leads := leads32 w in forallb (fun a => forallb leads (f a)) l.
  Proof.
    unfold check32. cbv zeta. induction l; cbn; [|rewrite forallb_app]; congruence.
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
