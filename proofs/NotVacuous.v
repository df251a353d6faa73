(** Exact arithmetic is one of the passes that [float_pass] allows: its rules can be obeyed. *)

From Coq Require Import List Arith ZArith Reals Lia Lra.
From Carry Require Import Decoding Windows Transformer Float32 Lengths Margins Errors.
Import ListNotations.
Local Open Scope R_scope.

Lemma no_error x e : 0 <= e -> Rabs (x - x) <= e.
Proof. rewrite Rminus_eq_0, Rabs_R0. auto. Qed.

Lemma sums_exact l : sums l (total l).
Proof.
  induction l as [|x l IH]; [constructor|]. destruct l as [|y l].
  - replace (total [x]) with x by (unfold sum; cbn; lra). constructor.
  - apply (sums_two _ [x] (y :: l) x (total (y :: l))); try discriminate;
      [reflexivity|constructor|exact IH|apply near_exact].
Qed.
Lemma dots_exact row x terms : dots row x terms (total terms + dot reals row x).
Proof.
  exists (products row x). split.
  - induction (products row x); constructor; auto using near_exact.
  - change (dot reals row x) with (total (products row x)). rewrite <- total_app. apply sums_exact.
Qed.
Lemma affines_exact a x v : affines a x (each v) (map2 Rplus v (apply reals a x)).
Proof.
  destruct a as [W b]. unfold affines, each, apply, map2. cbn [fst snd]. revert b v.
  induction W as [|row W IH]; intros [|o b] [|e v]; try constructor; [|apply IH].
  cbn [fst snd]. pose proof (dots_exact row x [o; e]) as H.
  replace (e + add reals (dot reals row x) o) with (total [o; e] + dot reals row x)
    by (unfold sum; cbn; ring). exact H.
Qed.
Lemma affines_exact_alone a x : affines a x (nothing a) (apply reals a x).
Proof.
  destruct a as [W b]. unfold affines, nothing, apply, map2. cbn [fst snd]. revert b.
  induction W as [|row W IH]; intros [|o b]; try constructor; [|apply IH].
  cbn [fst snd]. pose proof (dots_exact row x [o]) as H.
  replace (add reals (dot reals row x) o) with (total [o] + dot reals row x)
    by (unfold sum; cbn; ring). exact H.
Qed.

Lemma mean_pos x : Forall (Rle 0) x -> 0 <= mean reals x.
Proof.
  intros H. apply Rmult_le_pos; [|apply inverse_pos, count_pos].
  unfold sum. induction H; cbn in *; lra.
Qed.

Lemma norms_exact s x : norms s x (norm reals s x).
Proof.
  destruct s as [w o]. set (m := mean reals x). set (d := deviation reals x).
  assert (0 <= mean reals (map Rabs x))
    by (apply mean_pos; induction x; constructor; auto with pos).
  assert (0 <= mean reals (products x x))
    by (apply mean_pos; unfold products, map2; clear; induction x; constructor; auto with pos).
  exists m, (mean reals (products (centred reals x) (centred reals x))), (1 / d).
  split; [apply no_error; pos|]. split; [apply no_error; pos|]. split.
  - replace (sqrt (mean reals (products (centred reals x) (centred reals x)) + 1 / 100000)) with d;
      [apply no_error; pos|].
    unfold d, deviation, mean, products, count, centred.
    rewrite length_map2, !map_length, Nat.min_id. reflexivity.
  - unfold norm, centred. fold m d. cbn [fst snd reals sub div]. clearbody m d. clear. revert w o.
    unfold map2. induction x as [|a x IH]; intros [|b w] [|c o]; try constructor; [|apply IH].
    cbn. replace (add reals _ c) with ((a - m) * (1 / d * b) + c) by (cbn; unfold Rdiv; ring).
    apply no_error. pos.
Qed.

Section Pass.
  Variables (w : weights R) (q : token) (keys : list key).
  Notation value_at h k i := (nth i (apply reals (value h) (source reals w (fst k))) 0).
  Definition datum_of (h : head R) (k : key) : datum :=
    Datum k (score reals w h q k) (exp (score reals w h q k))
      (apply reals (value h) (source reals w (fst k))).
  Definition attended_by (h : head R) : list R :=
    map (fun i => over reals keys (fun k => exp (score reals w h q k) * value_at h k i)
      / over reals keys (fun k => exp (score reals w h q k))) (seq 0 (length (snd (value h)))).

  Lemma computes_exact h k : In k keys ->
    computes w h (apply reals (query h) (source reals w q)) (map (datum_of h) keys) (datum_of h k).
  Proof.
    intros Hk. exists (source reals w (fst k)), (apply reals (key_map h) (source reals w (fst k))).
    split; [apply norms_exact|]. split; [apply affines_exact_alone|].
    split; [apply affines_exact_alone|].
    split.
    - cbv zeta. apply no_error. pos.
    - exists (datum_of h k), 0. split; [apply in_map, Hk|].
      split; [cbn; rewrite Rplus_0_r; reflexivity|].
      rewrite Rabs_R0. pos.
  Qed.

  Lemma attends_exact h : attends w q keys h (attended_by h).
  Proof.
    exists (source reals w q), (apply reals (query h) (source reals w q)), (map (datum_of h) keys).
    split; [apply norms_exact|]. split; [apply affines_exact_alone|].
    split; [rewrite map_map; apply map_id|]. split.
    { apply Forall_forall. intros x Hx. apply in_map_iff in Hx. destruct Hx as (k & <- & Hk).
      apply computes_exact, Hk. }
    assert (L : length (attended_by h) = length (snd (value h)))
      by (unfold attended_by; rewrite map_length; apply seq_length).
    split; [exact L|]. intros i Hi. rewrite L in Hi. cbv zeta.
    rewrite !map_map. cbn [datum_of d_weight d_value]. unfold attended_by.
    rewrite (nth_map _ _ _ 0%nat), seq_nth by (rewrite ?seq_length; exact Hi).
    assert (P : forall f : key -> R, (forall k, 0 <= f k) -> 0 <= total (map f keys))
      by (intros f Hf; apply (Sum_pos keys f); auto).
    assert (0 <= total (map (fun k => exp (score reals w h q k)) keys)) by (apply P; intros; pos).
    assert (0 <= total (map (fun k => exp (score reals w h q k) * Rabs (value_at h k i)) keys))
      by (apply P; intros; pos).
    assert (0 <= total (map (fun k => Rabs (value_at h k i)) keys)) by (apply P; intros; pos).
    apply no_error. assert (0 <= IZR (2 ^ 50)) by (apply IZR_le; discriminate). pos.
  Qed.

  Theorem exact_pass : float_pass w q keys (logits_in reals w q keys).
  Proof.
    set (zs := map attended_by (heads w)).
    assert (E : attended reals w (over reals keys) q = concat zs) by apply flat_map_concat_map.
    unfold logits_in. rewrite E. set (x := after_attention reals w q (concat zs)).
    set (n1 := norm reals (before_hidden w) x). set (u := apply reals (up w) n1).
    exists zs, x, n1, u, (after_hidden reals w x),
      (norm reals (before_logits w) (after_hidden reals w x)).
    split; [unfold zs; clear; induction (heads w); cbn [map]; auto using attends_exact|].
    split; [apply affines_exact|]. split; [apply norms_exact|]. split; [apply affines_exact_alone|].
    split; [apply affines_exact|]. split; [apply norms_exact|]. unfold logits_of. cbv zeta.
    induction (logits w) as [|row rows IH]; constructor; [|exact IH].
    pose proof (dots_exact row (norm reals (before_logits w) (after_hidden reals w x)) []) as H.
    replace (total []) with 0 in H by reflexivity. rewrite Rplus_0_l in H. exact H.
  Qed.
End Pass.
