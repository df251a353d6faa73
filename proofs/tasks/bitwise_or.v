(** Bitwise or of a vector with a single 1 and one of zeros, at least as long: [^01|000=010$]. *)

From Coq Require Import List Arith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns tasks.sums.
Import ListNotations.

Definition OR : token := 16.

(** [zeros_below] zeros, the 1, [zeros_above] zeros; the other vector is [longer] tokens longer. *)
Record vectors := Vectors { zeros_below : nat; zeros_above : nat; longer : nat }.
Definition one_hot (below above : nat) : list nat := repeat 0 below ++ 1 :: repeat 0 above.
Definition vectors_of (v : vectors) : list (list nat) :=
  [one_hot (zeros_below v) (zeros_above v); repeat 0 (zeros_below v + 1 + zeros_above v + longer v)].
Definition or_written (v : vectors) : list token := one_hot (zeros_below v) (zeros_above v + longer v).

(** At a place and the next one: bits of the first vector, and whether the second one goes on. *)
Definition or_near (lowest : bool) : list (column * column) :=
  let bits := [None; Some 0; Some 1] in
  flat_map (fun x => flat_map (fun x' => flat_map (fun y' =>
    if match x, x' with
       | None, Some _ | Some 1, Some 1 => false
       | None, None => negb lowest
       | Some 0, None => negb lowest
       | _, _ => true end
       && match x', y' with Some _, None => false | _, _ => true end
    then [([x; Some 0], [x'; y'])] else []) [None; Some 0]) bits) bits.

Definition or_rules : rules := {|
  form := {| first := at_begin true; label := []; others := [at_sign OR]; answer_segment := at_sign EQUALS |};
  more_windows := [];
  write d := d;
  state := unit;
  initial := tt;
  after _ _ := tt;
  out _ col := match col with
    | [x; Some y] => Some (match x with Some x => Nat.max x y | None => y end) | _ => None end;
  starts := [[Some 0; Some 0]; [Some 1; Some 0]];
  lowest := or_near true;
  later := map (fun cc => (tt, fst cc, snd cc)) (or_near false) |}.

Lemma nth_zeros k n : nth_error (repeat 0 n) k = if k <? n then Some 0 else None.
Proof. revert k; induction n as [|n IH]; intros [|k]; cbn; try reflexivity. apply IH. Qed.

Lemma nth_one_hot k n m : nth_error (one_hot n m) k
  = if k <? n then Some 0 else if k =? n then Some 1 else if k <? n + 1 + m then Some 0 else None.
Proof.
  unfold one_hot. destruct (Nat.ltb_spec k n) as [H|H].
  - rewrite nth_error_app1, nth_zeros by (rewrite repeat_length; exact H).
    destruct (Nat.ltb_spec k n); [reflexivity|lia].
  - rewrite nth_error_app2, repeat_length by (rewrite repeat_length; exact H).
    destruct (Nat.eqb_spec k n) as [->|]; [rewrite Nat.sub_diag; reflexivity|].
    replace (k - n) with (S (k - n - 1)) by lia. cbn [nth_error]. rewrite nth_zeros.
    destruct (Nat.ltb_spec (k - n - 1) m), (Nat.ltb_spec k (n + 1 + m)); lia || reflexivity.
Qed.

Lemma or_follows v : follows or_rules (vectors_of v) (or_written v).
Proof.
  destruct v as [n m l].
  assert (Hl : length (one_hot n (m + l)) = n + 1 + m + l)
    by (unfold one_hot; rewrite app_length; cbn; rewrite !repeat_length; lia).
  assert (near : forall k, k < n + 1 + m + l ->
    In (column_of (vectors_of (Vectors n m l)) k, column_of (vectors_of (Vectors n m l)) (S k)) (or_near (k =? 0))).
  { intros k Hk. unfold column_of, vectors_of. cbn [map zeros_below zeros_above longer].
    rewrite !nth_one_hot, !nth_zeros.
    repeat match goal with
    | |- context [?a <? ?b] => destruct (Nat.ltb_spec a b); try lia
    | |- context [?a =? ?b] => destruct (Nat.eqb_spec a b); try lia end; cbn; tauto. }
  split.
  - reflexivity.
  - intros w d s Hw Hd Hs. enough (d <= 1) by (destruct Hs as [<-|[<-|[]]]; cbn; unfold OR, EQUALS; lia).
    destruct Hw as [<-|[<-|[]]]; [|apply repeat_spec in Hd; lia].
    apply in_app_or in Hd. destruct Hd as [Hd|[<-|Hd]]; [apply repeat_spec in Hd|..|apply repeat_spec in Hd]; lia.
  - intros k _. unfold column_of, vectors_of, or_written. cbn [map or_rules out zeros_below zeros_above longer]. rewrite !nth_one_hot, nth_zeros.
    repeat match goal with
    | |- context [?a <? ?b] => destruct (Nat.ltb_spec a b); try lia
    | |- context [?a =? ?b] => destruct (Nat.eqb_spec a b); try lia end; reflexivity.
  - unfold column_of, vectors_of. cbn [map zeros_below zeros_above longer]. rewrite nth_one_hot, nth_zeros.
    destruct n as [|n]; cbn; tauto.
  - intros k Hk. change (k < length (one_hot n (m + l))) in Hk. rewrite Hl in Hk. specialize (near k Hk). destruct k as [|k]; [exact near|].
    cbn [Nat.eqb or_rules later]. apply in_map_iff. eexists. split; [|exact near]. reflexivity.
Qed.

Definition bitwise_or : task.
Proof.
  refine (columns_task or_rules vectors vectors_of or_written _ eq_refl _ or_follows).
  - repeat constructor; cbn; lia.
  - intros v H. apply in_app_or in H. unfold END in H.
    destruct H as [H|[H|H]]; [apply repeat_spec in H|..|apply repeat_spec in H]; lia.
Defined.
