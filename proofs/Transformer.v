(** A transformer with one layer. The pass is written once, over any numbers: over the reals it is
    the model; over intervals it bounds the model. *)

From Coq Require Import List Arith ZArith Reals Bool Permutation Lia Lra.
From Carry Require Import Decoding Windows.
Import ListNotations.

(** * Numbers and weights *)

Record arithmetic (T : Type) := Arithmetic {
  of_Z : Z -> T; add : T -> T -> T; sub : T -> T -> T; mul : T -> T -> T; div : T -> T -> T;
  root : T -> T; expo : T -> T; larger : T -> T -> T }.
Arguments of_Z {T}. Arguments add {T}. Arguments sub {T}. Arguments mul {T}. Arguments div {T}.
Arguments root {T}. Arguments expo {T}. Arguments larger {T}.

Definition vector (T : Type) := list T.
Definition matrix (T : Type) := list (list T).
Definition affine (T : Type) := (matrix T * vector T)%type.  (* a weight and a bias *)
Definition scaling (T : Type) := (vector T * vector T)%type.  (* of a norm *)

Record head (T : Type) := Head {
  query : affine T; key_map : affine T; value : affine T;
  biases : list (list T) }.  (* of each level, and of each row of [bias_row] *)
Arguments query {T}. Arguments key_map {T}. Arguments value {T}. Arguments biases {T}.

Record weights (T : Type) := Weights {
  tokens : matrix T;  (* a row for each token *)
  before_attention : scaling T;
  heads : list (head T);
  output : affine T;
  before_hidden : scaling T;
  up : affine T;
  down : affine T;
  before_logits : scaling T;
  logits : matrix T }.
Arguments tokens {T}. Arguments before_attention {T}. Arguments heads {T}. Arguments output {T}.
Arguments before_hidden {T}. Arguments up {T}. Arguments down {T}. Arguments before_logits {T}.
Arguments logits {T}.

Section Map.
  Context {S T : Type} (f : S -> T).
  Definition map_affine (a : affine S) : affine T := (map (map f) (fst a), map f (snd a)).
  Definition map_scaling (s : scaling S) : scaling T := (map f (fst s), map f (snd s)).
  Definition map_head (h : head S) : head T :=
    Head T (map_affine (query h)) (map_affine (key_map h)) (map_affine (value h))
      (map (map f) (biases h)).
  Definition map_weights (w : weights S) : weights T :=
    Weights T (map (map f) (tokens w)) (map_scaling (before_attention w)) (map map_head (heads w))
      (map_affine (output w)) (map_scaling (before_hidden w)) (map_affine (up w))
      (map_affine (down w)) (map_scaling (before_logits w)) (map (map f) (logits w)).
End Map.

(** * The pass *)

Section Pass.
  Context {T : Type} (n : arithmetic T).

  Definition zero : T := of_Z n 0.
  Definition sum (l : list T) : T := fold_right (add n) zero l.
  Definition map2 (f : T -> T -> T) (u v : vector T) : vector T :=
    map (fun p => f (fst p) (snd p)) (combine u v).
  Definition dot (u v : vector T) : T := sum (map2 (mul n) u v).
  Definition apply (a : affine T) (x : vector T) : vector T :=
    map2 (add n) (map (fun row => dot row x) (fst a)) (snd a).

  Definition count {A} (l : list A) : T := of_Z n (Z.of_nat (length l)).
  Definition mean (x : vector T) : T := div n (sum x) (count x).
  Definition centred (x : vector T) : vector T := let m := mean x in map (fun y => sub n y m) x.
  (** The standard deviation, with 1/100000 added to the variance. *)
  Definition deviation (x : vector T) : T :=
    let c := centred x in
    root n (add n (div n (dot c c) (count x)) (div n (of_Z n 1) (of_Z n 100000))).
  Definition norm (s : scaling T) (x : vector T) : vector T :=
    let d := deviation x in
    map2 (add n) (map2 (mul n) (map (fun y => div n y d) (centred x)) (fst s)) (snd s).

  Variable w : weights T.

  Definition embedding (t : token) : vector T := nth t (tokens w) [].
  Definition source (t : token) : vector T := norm (before_attention w) (embedding t).

  (** Biases are stored divided by 8; the program multiplies them by 8, too. *)
  Definition bias (h : head T) (rows : list nat) : T :=
    sum (map (fun br => mul n (of_Z n 8) (nth (snd br) (fst br) zero)) (combine (biases h) rows)).
  Definition score (h : head T) (q : token) (k : key) : T :=
    add n
      (div n (dot (apply (query h) (source q)) (apply (key_map h) (source (fst k))))
        (root n (count (snd (query h)))))
      (bias h (snd k)).

  (** Attention of all heads. [total f] is the sum of [f k] over all keys k that the query sees. *)
  Definition attended (total : (key -> T) -> T) (q : token) : vector T :=
    flat_map (fun h =>
      let weight k := expo n (score h q k) in
      map (fun i => div n
          (total (fun k => mul n (weight k) (nth i (apply (value h) (source (fst k))) zero)))
          (total weight))
        (seq 0 (length (snd (value h)))))
      (heads w).

  Definition after_attention (q : token) (z : vector T) : vector T :=
    map2 (add n) (embedding q) (apply (output w) z).
  Definition after_hidden (x : vector T) : vector T :=
    let hidden := map (fun a => larger n a zero) (apply (up w) (norm (before_hidden w) x)) in
    map2 (add n) x (apply (down w) hidden).
  Definition logits_of (y : vector T) : vector T :=
    let last := norm (before_logits w) y in map (fun row => dot row last) (logits w).

  Definition over (keys : list key) (f : key -> T) : T := sum (map f keys).
  Definition logits_in (q : token) (keys : list key) : vector T :=
    logits_of (after_hidden (after_attention q (attended (over keys) q))).
End Pass.

(** * The model: over the reals, on a text of any length *)

Definition reals : arithmetic R := Arithmetic R IZR Rplus Rminus Rmult Rdiv sqrt exp Rmax.

(** (m, k), with k from 0 on, is m / 2^k: each float32 number is one. *)
Definition real (p : Z * Z) : R := (IZR (fst p) / IZR (2 ^ snd p))%R.

(** The sum over all tokens of a text, where hidden ones contribute 0. *)
Definition over_text (t : task) (text : list token) (f : key -> R) : R :=
  let cells := combine text (ids_of t text) in
  let query := snd (last cells (END, [])) in
  sum reals (map
    (fun p => if sees (windows t) (length cells) query p
              then f (show (windows t) query (snd p)) else 0%R)
    (combine (seq 0 (length cells)) cells)).

Definition model_logits (t : task) (w : weights R) (text : list token) : list R :=
  let q := last text END in
  logits_of reals w (after_hidden reals w
    (after_attention reals w q (attended reals w (over_text t text) q))).

(** The first of the largest numbers. *)
Fixpoint argmax_from (best : R) (at_ i : nat) (l : list R) : nat :=
  match l with
  | [] => at_
  | x :: l => if Rlt_dec best x then argmax_from x i (S i) l else argmax_from best at_ (S i) l
  end.
Definition argmax (l : list R) : nat := match l with [] => 0 | x :: l => argmax_from x 0 1 l end.

Definition greedy (f : list token -> list R) (text : list token) : token := argmax (f text).

(** * The model depends on what the last token sees *)

Lemma sum_filter {A} (p : A -> bool) (f : A -> R) l :
  sum reals (map (fun a => if p a then f a else 0%R) l) = sum reals (map f (filter p l)).
Proof.
  unfold sum. induction l as [|a l IH]; [reflexivity|].
  cbn [map filter fold_right reals add] in *. rewrite IH. destruct (p a); cbn; [reflexivity|lra].
Qed.

Lemma attended_ext w q total total' : (forall f, total f = total' f) ->
  attended reals w total q = attended reals w total' q.
Proof.
  intros H. unfold attended. apply flat_map_ext. intros h. apply map_ext. intros i.
  rewrite !H. reflexivity.
Qed.

Lemma model_logits_seen t w text :
  model_logits t w text = logits_in reals w (last text END) (seen_in t text).
Proof.
  unfold model_logits, logits_in. do 3 f_equal. apply attended_ext. intros f.
  unfold over_text, over, seen_in, seen. rewrite sum_filter, map_map. reflexivity.
Qed.

Lemma sum_permutation l m : Permutation l m -> sum reals l = sum reals m.
Proof.
  unfold sum. cbn. induction 1; cbn [fold_right]; [reflexivity|f_equal; assumption|lra|congruence].
Qed.

Lemma logits_unordered w q c c' : Permutation c c' -> logits_in reals w q c = logits_in reals w q c'.
Proof.
  intros H. unfold logits_in. do 3 f_equal. apply attended_ext. intros f.
  apply sum_permutation, Permutation_map, H.
Qed.

(** * Leads *)

Definition leads_by (margin : R) (l : list R) (y : token) : Prop :=
  y < length l /\ forall v, v < length l -> v <> y -> (margin < nth y l 0 - nth v l 0)%R.

Lemma argmax_stays best at_ i l :
  (forall v, v < length l -> (nth v l 0 < best)%R) -> argmax_from best at_ i l = at_.
Proof.
  revert i; induction l as [|x l IH]; intros i H; [reflexivity|]. cbn [argmax_from].
  pose proof (H 0 ltac:(cbn; lia)) as Hx. cbn in Hx. destruct (Rlt_dec best x) as [|_]; [lra|].
  apply IH. intros v Hv. apply (H (S v)). cbn. lia.
Qed.

Lemma argmax_moves l best at_ i y : y < length l -> (best < nth y l 0)%R ->
  (forall v, v < length l -> v <> y -> (nth v l 0 < nth y l 0)%R) ->
  argmax_from best at_ i l = i + y.
Proof.
  revert best at_ i y; induction l as [|x l IH]; intros best at_ i y Hy Hb Hv; [cbn in Hy; lia|].
  cbn [argmax_from]. destruct y as [|y]; cbn [nth length] in *.
  - destruct (Rlt_dec best x) as [_|]; [|contradiction]. rewrite Nat.add_0_r.
    apply argmax_stays. intros v H. apply (Hv (S v)); lia.
  - rewrite Nat.add_succ_r. pose proof (Hv 0 ltac:(lia) ltac:(lia)) as Hx. cbn in Hx.
    destruct (Rlt_dec best x); (rewrite IH with (y := y); [lia|lia|assumption|];
      intros v H Hne; apply (Hv (S v)); lia).
Qed.

Lemma argmax_leads l y : leads_by 0 l y -> argmax l = y.
Proof.
  intros [Hy H]. destruct l as [|x l]; [cbn in Hy; lia|].
  assert (lead : forall v, v < length (x :: l) -> v <> y -> (nth v (x :: l) 0 < nth y (x :: l) 0)%R)
    by (intros v Hv Hne; specialize (H v Hv Hne); lra).
  cbn [argmax length] in *. destruct y as [|y]; cbn [nth] in lead.
  - apply argmax_stays. intros v Hv. apply (lead (S v)); lia.
  - rewrite argmax_moves with (y := y); [reflexivity|lia|apply (lead 0); lia|].
    intros v Hv Hne. apply (lead (S v)); lia.
Qed.

(** * If the due token leads in every context, the model is exact *)

Definition right_by (t : task) (margin : R) (w : weights R) : Prop :=
  forall q keys y, In (q, keys, y) (contexts t) -> leads_by margin (logits_in reals w q keys) y.

Theorem right_so_exact t margin w : (0 <= margin)%R -> right_by t margin w ->
  exact t (greedy (model_logits t w)).
Proof.
  intros Hm right. apply (every_length t _ (fun q keys => argmax (logits_in reals w q keys))).
  - intros text. unfold greedy. rewrite model_logits_seen. reflexivity.
  - intros q c c' H. rewrite (logits_unordered w q c c' H). reflexivity.
  - intros q keys y H. apply argmax_leads. destruct (right q keys y H) as [Hy Hl].
    split; [exact Hy|]. intros v Hv Hne. specialize (Hl v Hv Hne). lra.
Qed.

(** The same for logits that are computed otherwise, if their leads are off by the margin at most. *)
Definition close_leads (margin : R) (t : task) (w : weights R) (computed : list token -> list R) :=
  forall p k, k <= length (written t p) ->
  let text := question t p ++ firstn k (written t p) in
  let y := nth k (written t p) END in
  let lead l v := (nth y l 0 - nth v l 0)%R in
  length (computed text) = length (model_logits t w text) /\
  forall v, v < length (computed text) ->
  (Rabs (lead (computed text) v - lead (model_logits t w text) v) <= margin)%R.

Theorem right_so_robust t margin w : right_by t margin w ->
  forall computed, close_leads margin t w computed -> exact t (greedy computed).
Proof.
  intros right computed close. apply right_steps_are_exact. intros p k Hk. apply argmax_leads.
  destruct (close p k Hk) as [Hlen He]. cbv zeta in *.
  pose proof (true_in_steps t (fun q c y => leads_by margin (logits_in reals w q c) y)) as steps.
  specialize (steps ltac:(cbv beta; intros q c c' y H; rewrite (logits_unordered w q c c' H); auto)
    right p k Hk).
  cbv beta zeta in steps. rewrite <- model_logits_seen in steps. destruct steps as [Hy Hl].
  rewrite <- Hlen in Hy, Hl. split; [exact Hy|]. intros v Hv Hne.
  specialize (He v Hv). specialize (Hl v Hv Hne). revert He. unfold Rabs.
  destruct (Rcase_abs _); lra.
Qed.
