(** How far float32 may be from the reals,
  by formulas. [margins] are the leads of the due token over
    the reals, each less its error. *)

From Coq Require Import List Arith ZArith.
From Carry Require Import Decoding Windows Transformer Related Tables Lengths.
Import ListNotations.

(** How a matrix is multiplied by a vector, the unit of rounding, and the least normal number. *)
Record tools (T : Type) := Tools {
  multiply : matrix T -> vector T -> vector T; unit : T; least : T }.
Arguments multiply {T}. Arguments unit {T}. Arguments least {T}.

(** A vector over the reals, and how far that of float32 may be from it. *)
Definition ball (T : Type) := (vector T * T)%type.

(** What is known of an affine map: the product with its matrix, by how much this stretches, the
    sizes of its weight and bias, and what roundings may do: relatively, and absolutely. *)
Record known (T : Type) := Known {
  k_rows : vector T -> vector T; k_stretch : T; k_size : T; k_bias : T; k_growth : T; k_lost : T }.
Arguments k_rows {T}. Arguments k_stretch {T}. Arguments k_size {T}. Arguments k_bias {T}.
Arguments k_growth {T}. Arguments k_lost {T}.

(** Of a head: the length at most, and the error, of the query, key and value of a token;
  the largest
    sum of absolute biases; the root of the width; and units of error of a score. *)
Record doubts (T : Type) := Doubts {
  of_query : token -> T * T; of_key : token -> T * T; of_value_ : token -> T * T;
  largest_bias : T; scale : T; score_units : nat }.
Arguments of_query {T}. Arguments of_key {T}. Arguments of_value_ {T}. Arguments largest_bias {T}.
Arguments scale {T}. Arguments score_units {T}.

(** Of a model: also, whether the norm of a token is safe, and the distances of rows of logits. *)
Record knowledge (T : Type) := Knowledge {
  of_heads : list (parts T * doubts T); of_source : token -> T; of_output : known T;
  of_up : known T; of_down : known T; of_logits : known T; distances : list (list T) }.
Arguments of_heads {T}. Arguments of_source {T}. Arguments of_output {T}. Arguments of_up {T}.
Arguments of_down {T}. Arguments of_logits {T}. Arguments distances {T}.

Section Formulas.
  Context {T : Type} (n : arithmetic T) (s : tools T).
  Local Infix "+" := (add n).
  Local Infix "-" := (sub n).
  Local Infix "*" := (mul n).
  Local Infix "/" := (div n).

  Definition number (k : nat) : T := of_Z n (Z.of_nat k).
  Definition units (k : nat) : T := number k * unit s.
  (** What a sum of k terms may lose, relatively, and to underflow. *)
  Definition growth (k : nat) : T := expo n (units k) - of_Z n 1.
  Definition lost (k : nat) : T := number (2 * k) * expo n (units k) * least s.

  Definition absolute (a : T) : T := larger n a (zero n - a).
  Definition largest (x : vector T) : T :=
    fold_right (fun a m => larger n (absolute a) m) (zero n) x.
  Definition reach (b : ball T) : T := size n (fst b) + snd b.
  Definition zeros {A} (l : list A) : vector T := map (fun _ => zero n) l.
  Definition exactly (x : vector T) : ball T := (x, zero n).

  (** Affine maps of x to which a vector is added. *)
  Definition known_of (a : affine T) : known T :=
    let terms := breadth (fst a) in
    Known T (multiply s (fst a)) (spectral n (fst a)) (frobenius n (fst a)) (size n (snd a))
      (growth (3 + terms)) (root n (count n (fst a)) * lost (2 + terms)).
  Definition roundings (k : known T) (x added : ball T) : T :=
    k_growth k * (k_size k * reach x + k_bias k + reach added) + k_lost k.
  Definition affine_ball (a : affine T) (k : known T) (x added : ball T) : ball T :=
    (map2 (add n) (fst added) (map2 (add n) (k_rows k (fst x)) (snd a)),
     k_stretch k * snd x + snd added + roundings k x added).
  Definition relu_ball (x : ball T) : ball T :=
    (map (fun a => larger n a (zero n)) (fst x), snd x).

  (** Norms: float32 has at least this deviation and this variance; and whether that is enough. *)
  Definition least_deviation (x : ball T) : T :=
    larger n (deviation n (fst x) - snd x / root n (count n (fst x))) (zero n).
  Definition square_error (x : ball T) : T :=
    units (4 * length (fst x) + 96) * (reach x * reach x / count n (fst x)) + least s.
  Definition least_variance (x : ball T) : T :=
    let d := least_deviation x in d * d - square_error x.
  Definition steadiness (x : ball T) : T := count n (fst x) * least_variance x.
  Definition norm_ball (w : scaling T) (x : ball T) : ball T :=
    let wide := root n (count n (fst x)) in let big := largest (fst w) in
    let low := least_deviation x in let variance := least_variance x in
    let deviation' := root n variance in
    let mean_error := units (length (fst x) + 48) * (reach x / wide) + least s in
    let factor := (of_Z n 1 + units 20) / deviation' + least s in
    let factor_error := units 20 / deviation' + least s
      + square_error x / (of_Z n 2 * variance * deviation') in
    (norm n w (fst x),
     big * (snd x / root n (deviation n (fst x) * low) + reach x * factor_error
       + wide * mean_error * factor)
     + units 10 * (big * factor * (of_Z n 2 * reach x + wide * mean_error) + size n (snd w))
     + wide * least s).

  (** Attention. *)
  Definition doubts_of (tokens : nat) (source : token -> ball T) (h : head T) : doubts T :=
    let through a := let k := known_of a in tabulate tokens (fun t =>
      let b := affine_ball a k (source t) (exactly (zeros (snd a))) in (reach b, snd b)) in
    Doubts T (through (query h)) (through (key_map h)) (through (value h))
      (sum n (map (fun level => of_Z n 8 * largest level) (biases h)))
      (root n (count n (snd (query h)))) (4 * length (snd (query h)) * S (length (biases h)) + 60).

  (** The largest length and error of some keys. *)
  Definition most (f : token -> T * T) (keys : list key) : T * T :=
    (largest (map (fun k => fst (f (fst k))) keys), largest (map (fun k => snd (f (fst k))) keys)).
  (** Weights are off by factors, at most exp of this. *)
  Definition shift (d : doubts T) (q : token) (keys : list key) : T :=
    let x := of_query d q in let y := most (of_key d) keys in
    let gross := fst x * fst y / scale d + largest_bias d in
    let score_error := units (score_units d) * gross + least s in
    (snd x * fst y + fst x * snd y) / scale d + score_error
    + units 16 * (of_Z n 2 * (gross + score_error)) + units (64 + 10 * length keys).
  (** The mean distance of values from z. *)
  Definition spread (p : parts T) (q : token) (keys : list key) (z : vector T) : T :=
    over n keys (fun k => weight_of n p q k * size n (map2 (sub n) (of_value p (fst k)) z))
    / over n keys (weight_of n p q).
  Definition head_ball (q : token) (keys : list key) (h : parts T * doubts T) : ball T :=
    let z := attended_head n q keys (fst h) in
    let factor := expo n (shift (snd h) q keys) in
    let y := most (of_value_ (snd h)) keys in let k := length keys in
    (z, factor * (factor - of_Z n 1) * spread (fst h) q keys z + snd y
        + (units (4 * k + 24) + number k / of_Z n (2 ^ 50) * number k) * fst y).

  Definition without_bias (W : matrix T) : affine T := (W, zeros W).
  Definition knowledge_of (w : weights T) : knowledge T :=
    let size_ := length (tokens w) in let source := tabulate size_ (source n w) in
    let ball t := exactly (embedding w t) in
    let balls := tabulate size_ (fun t => norm_ball (before_attention w) (ball t)) in
    Knowledge T
      (map (fun h => (parts_of n size_ source h, doubts_of size_ balls h)) (heads w))
      (tabulate size_ (fun t => steadiness (ball t)))
      (known_of (output w)) (known_of (up w)) (known_of (down w))
      (known_of (without_bias (logits w)))
      (map (fun a => map (fun b => size n (map2 (sub n) a b)) (logits w)) (logits w)).

  Variables (w : weights T) (k : knowledge T).

  Definition heads_ball (q : token) (keys : list key) : ball T :=
    let balls := map (head_ball q keys) (of_heads k) in
    (flat_map fst balls, size n (map snd balls)).
  Definition attention_ball (q : token) (z : ball T) : ball T :=
    affine_ball (output w) (of_output k) z (exactly (embedding w q)).
  Definition hidden_ball (x : ball T) : ball T :=
    let u := affine_ball (up w) (of_up k) (norm_ball (before_hidden w) x)
      (exactly (zeros (snd (up w)))) in
    affine_ball (down w) (of_down k) (relu_ball u) x.

  Definition leads (last : ball T) (y : token) : list T :=
    let l := k_rows (of_logits k) (fst last) in
    let e := roundings (of_logits k) last (exactly (zeros (logits w))) in
    map (fun v => nth y l (zero n) - nth v l (zero n)
        - (nth v (nth y (distances k) []) (zero n) * snd last + of_Z n 2 * e))
      (filter (fun v => negb (v =? y)) (seq 0 (length l))).

  (** All these are to be positive. *)
  Definition margins (c : context) : list T :=
    let '(q, keys, y) := c in
    let x := attention_ball q (heads_ball q keys) in let h := hidden_ball x in
    count n keys :: map (of_source k) (q :: map fst keys) ++ steadiness x :: steadiness h
    :: leads (norm_ball (before_logits w) h) y.
End Formulas.
