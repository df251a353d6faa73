(** What float32 may compute: [float_pass w q keys l] says that l is a possible result of the pass. In
    linear maps sums are in any order and nesting, and products are rounded or fused. Norms, scores
    and the mean of the values have bounds that hold for all usual algorithms. That processors and
    kernels obey these rules is a premise. Hidden keys, whose weight is exactly 0, are left out.
    [NotVacuous.v] shows that exact arithmetic obeys them. *)

From Coq Require Import List Arith ZArith Reals Permutation Lia Lra.
From Carry Require Import Decoding Windows Transformer.
Import ListNotations.
Local Open Scope R_scope.

Definition unit32 : R := / IZR (2 ^ 24).  (* half the distance from 1 to the next number *)
Definition tiny : R := / IZR (2 ^ 126).  (* at most this is lost to underflow *)
Definition near (g x r : R) : Prop := Rabs (r - x) <= g * Rabs x + tiny.
Definition times (k : nat) : R := IZR (Z.of_nat k) * unit32.

Inductive sums : list R -> R -> Prop :=
| sums_none : sums [] 0
| sums_one x : sums [x] x
| sums_two k l m x y r : Permutation k (l ++ m) -> l <> [] -> m <> [] ->
    sums l x -> sums m y -> near unit32 (x + y) r -> sums k r.

Notation total := (sum reals).
Definition magnitude (l : list R) : R := total (map Rabs l).
Definition products : list R -> list R -> list R := map2 Rmult.

(** The sum of a row times x and of other terms. *)
Definition dots (row x terms : list R) (r : R) : Prop :=
  exists ps, Forall2 (near unit32) (products row x) ps /\ sums (terms ++ ps) r.

(** A linear map of x, plus the bias and what else is added to it. *)
Definition affines (a : affine R) (x : list R) (added : list (list R)) (y : list R) : Prop :=
  Forall2 (fun rows r => dots (fst (fst rows)) x (snd (fst rows) :: snd rows) r)
    (combine (combine (fst a) (snd a)) added) y.
Definition nothing (a : affine R) : list (list R) := map (fun _ => []) (snd a).
Definition each (x : list R) : list (list R) := map (fun e => [e]) x.

(** A norm. The mean and the variance may be computed in two passes, from squares, or by merging
    those of parts. *)
Definition norms (s : scaling R) (x y : list R) : Prop :=
  exists m v r : R,
  Rabs (m - mean reals x) <= times (length x + 48) * mean reals (map Rabs x) + tiny /\
  (let c := centred reals x in
   Rabs (v - mean reals (products c c))
   <= times (4 * length x + 96) * mean reals (products x x) + tiny) /\
  near (times 20) (1 / sqrt (v + 1 / 100000)) r /\
  Forall2 (fun awb b => let '(a, (w, o)) := awb in
     Rabs (b - ((a - m) * (r * w) + o))
     <= times 10 * ((Rabs a + Rabs m) * Rabs (r * w) + Rabs o) + tiny)
    (combine x (combine (fst s) (snd s))) y.

(** What one head computes for one key. *)
Record datum := Datum { d_key : key; d_score : R; d_weight : R; d_value : list R }.

Section Pass.
  Variable w : weights R.

  (** A score has any order of its products and biases. Programs subtract one score y from all, and may
      rescale; the mean does not depend on y, which enters the error alone. Here exp is accurate to
      32 units, and so is each of the rescalings, one for a key at most. *)
  Definition computes (h : head R) (q : list R) (data : list datum) (x : datum) : Prop :=
    exists s k,
    norms (before_attention w) (embedding w (fst (d_key x))) s /\
    affines (key_map h) s (nothing (key_map h)) k /\
    affines (value h) s (nothing (value h)) (d_value x) /\
    (let width := length (snd (query h)) in
     let ps := products q k in
     let biases := map (fun br => 8 * nth (snd br) (fst br) 0)
       (combine (biases h) (snd (d_key x))) in
     Rabs (d_score x - (total ps / sqrt (IZR (Z.of_nat width)) + total biases))
     <= times (4 * width * S (length biases) + 60)
        * (magnitude ps / sqrt (IZR (Z.of_nat width)) + magnitude biases) + tiny) /\
    exists y e, In y data /\ d_weight x = exp (d_score x + e) /\
    Rabs e <= times 16 * (Rabs (d_score x) + Rabs (d_score y)) + times (64 + 10 * length data).

  (** One head: the mean of the values by the weights. *)
  Definition attends (q : token) (keys : list key) (h : head R) (z : list R) : Prop :=
    exists s qv data,
    norms (before_attention w) (embedding w q) s /\
    affines (query h) s (nothing (query h)) qv /\
    map d_key data = keys /\ Forall (computes h qv data) data /\
    length z = length (snd (value h)) /\
    forall i, (i < length z)%nat ->
      let all := total (map d_weight data) in
      let value x := nth i (d_value x) 0 in
      Rabs (nth i z 0 - total (map (fun x => d_weight x * value x) data) / all)
      <= times (4 * length data + 24)
         * (total (map (fun x => d_weight x * Rabs (value x)) data) / all)
         + IZR (Z.of_nat (length data)) / IZR (2 ^ 50)
           * total (map (fun x => Rabs (value x)) data).

  Definition float_pass (q : token) (keys : list key) (l : list R) : Prop :=
    exists zs x n1 u y last,
    Forall2 (attends q keys) (heads w) zs /\
    affines (output w) (concat zs) (each (embedding w q)) x /\
    norms (before_hidden w) x n1 /\
    affines (up w) n1 (nothing (up w)) u /\
    affines (down w) (map (fun a => Rmax a 0) u) (each x) y /\
    norms (before_logits w) y last /\
    Forall2 (fun row r => dots row last [] r) (logits w) l.
End Pass.

(** * If every float32 result is right in every context, float32 is exact *)

Lemma Forall2_implies {A B} (P Q : A -> B -> Prop) l m :
  (forall a b, P a b -> Q a b) -> Forall2 P l m -> Forall2 Q l m.
Proof. induction 2; constructor; auto. Qed.

Lemma attends_unordered w q c c' h z : Permutation c c' -> attends w q c h z -> attends w q c' h z.
Proof.
  intros H (s & qv & data & Hs & Hq & Hkeys & Hdata & Hlen & Hz).
  apply Permutation_sym in H. rewrite <- Hkeys in H.
  apply Permutation_map_inv in H. destruct H as (data' & -> & Hp).
  exists s, qv, data'. repeat split; try assumption.
  - rewrite Forall_forall in *. intros x Hx. apply (Permutation_in _ (Permutation_sym Hp)) in Hx.
    destruct (Hdata x Hx) as (s' & k & H1 & H2 & H3 & H4 & y & e & Hy & He).
    exists s', k. repeat split; try assumption. exists y, e.
    rewrite <- (Permutation_length Hp). split; [exact (Permutation_in _ Hp Hy)|exact He].
  - intros i Hi. specialize (Hz i Hi). cbv zeta in *. rewrite <- (Permutation_length Hp).
    rewrite <- !(fun f => sum_permutation _ _ (Permutation_map f Hp)). exact Hz.
Qed.

Lemma float_pass_unordered w q c c' l : Permutation c c' -> float_pass w q c l -> float_pass w q c' l.
Proof.
  intros H (zs & x & n1 & u & y & last & Hz & rest). exists zs, x, n1, u, y, last.
  split; [|exact rest]. apply (Forall2_implies _ _ _ _ (fun h z => attends_unordered w q c c' h z H) Hz).
Qed.

Definition right32_by (t : task) (w : weights R) : Prop :=
  forall q keys y l, In (q, keys, y) (contexts t) -> float_pass w q keys l -> leads_by 0 l y.

(** What float32 computes in each step of each problem is a possible result. *)
Definition computes32 (t : task) (w : weights R) (computed : list token -> list R) : Prop :=
  forall p k, (k <= length (written t p))%nat ->
  let text := question t p ++ firstn k (written t p) in
  float_pass w (last text END) (seen_in t text) (computed text).

Theorem right_so_exact32 t w : right32_by t w ->
  forall computed, computes32 t w computed -> exact t (greedy computed).
Proof.
  intros right computed H. apply right_steps_are_exact. intros p k Hk. apply argmax_leads.
  pose proof (true_in_steps t (fun q c y => forall l, float_pass w q c l -> leads_by 0 l y)) as steps.
  cbv beta zeta in steps. apply steps; [| |exact Hk|exact (H p k Hk)].
  - intros q c c' y Hp Hc l Hl. apply Hc, (float_pass_unordered _ _ _ _ _ (Permutation_sym Hp) Hl).
  - intros q c y Hin l Hl. exact (right q c y l Hin Hl).
Qed.
