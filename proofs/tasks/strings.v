(** Strings of digits, lowest first: copying, and the parity of each prefix. *)

From Coq Require Import List Arith ZArith Bool Lia.
From Carry Require Import Decoding Windows Columns tasks.sums.
Import ListNotations.

Record string (base : nat) := String {
  symbols : list nat; nonempty : symbols <> []; below : Forall (fun d => d < base) symbols }.
Arguments symbols {base}. Arguments nonempty {base}. Arguments below {base}.

Section Strings.
  Variable base : nat.
  Hypothesis base_10 : base <= 10.

  (** What a string can have at a place and at the next one. *)
  Definition ends : list (option nat) := None :: map Some (seq 0 base).
  Definition string_near : list (column * column) :=
    flat_map (fun d => map (fun e => ([Some d], [e])) ends) (seq 0 base).

  (** A task on one string: [step] gives the next state and what is written. *)
  Definition string_rules (states : list nat) (step : nat -> nat -> nat) : rules := {|
    form := {| first := at_begin false; label := []; others := []; answer_segment := at_sign EQUALS |};
    more_windows := [];
    write d := d;
    state := nat;
    initial := 0;
    after c col := match col with [Some d] => step c d | _ => c end;
    out c col := match col with [Some d] => Some (step c d) | _ => None end;
    starts := map (fun d => [Some d]) (seq 0 base);
    lowest := string_near;
    later := flat_map (fun c => map (fun cc => (c, fst cc, snd cc)) string_near) states |}.

  Section Problem.
    Variables (states : list nat) (step : nat -> nat -> nat) (s : list nat).
    Hypothesis some : s <> [].
    Hypothesis small : Forall (fun d => d < base) s.
    Hypothesis closed : forall c d, d < base -> In (step c d) states.
    Let r := string_rules states step.

    Fixpoint steps (c : nat) (l : list nat) : list nat :=
      match l with [] => [] | d :: l => step c d :: steps (step c d) l end.

    Lemma digit_at_place k : k < length s -> exists d, nth_error s k = Some d /\ d < base.
    Proof.
      intros H. destruct (nth_error s k) as [d|] eqn:E; [|apply nth_error_None in E; lia].
      exists d. split; [reflexivity|]. rewrite Forall_forall in small.
      apply small, (nth_error_In _ _ E).
    Qed.

    Lemma state_in k : 0 < k <= length s -> In (state_at r [s] k) states.
    Proof.
      destruct k as [|k]; [lia|]. intros Hk. cbn [state_at column_of map]. unfold column_of. cbn [map].
      destruct (digit_at_place k ltac:(lia)) as (d & -> & Hd). apply closed, Hd.
    Qed.

    Lemma nth_steps k : k <= length s ->
      nth_error (steps 0 s) k = out r (state_at r [s] k) (column_of [s] k).
    Proof.
      cbn [r string_rules out]. unfold column_of. cbn [map].
      assert (H : forall l c, nth_error (steps c l) k
        = match nth_error l k with
          | Some d => Some (step (fold_left step (firstn k l) c) d) | None => None end).
      { clear. induction k as [|k IH]; intros [|d l] c; cbn; try reflexivity. apply IH. }
      intros Hk. rewrite H. destruct (nth_error s k) as [d|]; [|reflexivity]. do 2 f_equal.
      clear H d. induction k as [|k IH]; [reflexivity|].
      destruct (digit_at_place k ltac:(lia)) as (d & E & _).
      rewrite (firstn_snoc _ _ _ E), fold_left_app. cbn [fold_left]. rewrite IH by lia.
      cbn [state_at]. unfold column_of. cbn [map]. rewrite E. reflexivity.
    Qed.

    Lemma length_steps c l : length (steps c l) = length l.
    Proof. revert c; induction l; cbn; auto. Qed.

    Lemma string_follows : follows r [s] (steps 0 s).
    Proof.
      assert (near : forall k, k < length s -> In (column_of [s] k, column_of [s] (S k)) string_near).
      { intros k Hk. unfold column_of. cbn [map]. destruct (digit_at_place k Hk) as (d & -> & Hd).
        apply in_flat_map. exists d. split; [apply in_seq; lia|].
        apply in_map_iff. eexists. split; [reflexivity|].
        destruct (nth_error s (S k)) as [e|] eqn:E; [|left; reflexivity]. right. apply in_map, in_seq.
        rewrite Forall_forall in small. apply nth_error_In, small in E. lia. }
      split.
      - reflexivity.
      - intros n d sg [<-|[]] Hd [<-|[]]. rewrite Forall_forall in small. apply small in Hd.
        cbn. unfold EQUALS. lia.
      - intros k Hk. rewrite length_steps in Hk. apply nth_steps, Hk.
      - assert (0 < length s) as Hs by (destruct s; [congruence|cbn; lia]).
        unfold column_of. cbn [map]. destruct (digit_at_place 0 Hs) as (d & -> & Hd).
        apply in_map_iff. exists d. split; [reflexivity|]. apply in_seq. lia.
      - intros k Hk. rewrite length_steps in Hk. destruct k as [|k]; cbn [Nat.eqb]; [apply near, Hk|].
        apply in_flat_map. exists (state_at r [s] (S k)). split; [apply state_in; lia|].
        apply in_map_iff. eexists. split; [|apply near, Hk]. reflexivity.
    Qed.
  End Problem.

  Lemma steps_no_end step c l : (forall c d, d < base -> step c d < 10) ->
    Forall (fun d => d < base) l -> ~ In END (steps step c l).
  Proof.
    intros H Hl. revert c; induction Hl as [|d l Hd _ IH]; intros c; cbn; [tauto|].
    intros [E|E]; [pose proof (H c d Hd); unfold END in E; lia|exact (IH _ E)].
  Qed.

  Definition string_task (states : list nat) (step : nat -> nat -> nat)
      (closed : forall c d, d < base -> In (step c d) states)
      (digit : forall c d, d < base -> step c d < 10) : task :=
    columns_task (string_rules states step) (string base) (fun s => [symbols s])
      (fun s => steps step 0 (symbols s)) ltac:(constructor; [exact I|constructor]) eq_refl
      (fun s => steps_no_end step 0 _ digit (below s))
      (fun s => string_follows states step (symbols s) (nonempty s) (below s) closed).
End Strings.

(** The string itself: [^21=21$]. *)
Definition copying : task.
Proof.
  refine (string_task 10 (le_n 10) (seq 0 10) (fun _ d => d) _ _); intros c d H; [apply in_seq; lia|exact H].
Defined.

Lemma copying_writes (s : string 10) : written copying s = symbols s.
Proof.
  assert (H : forall l c, steps (fun _ d => d) c l = l); [|apply H].
  induction l as [|d l IH]; intros c; cbn; [reflexivity|]. f_equal. apply IH.
Qed.

(** The parity of each prefix: [^1101=1001$]. *)
Definition parity : task.
Proof.
  refine (string_task 2 _ [0; 1] (fun c d => (c + d) mod 2) _ _); [lia| |]; intros c d _;
    pose proof (Nat.mod_upper_bound (c + d) 2 ltac:(lia)); cbn [In]; lia.
Defined.

Lemma parity_writes (s : string 2) k : k < length (symbols s) ->
  nth_error (written parity s) k = Some (list_sum (firstn (S k) (symbols s)) mod 2).
Proof.
  change (written parity s) with (steps (fun c d => (c + d) mod 2) 0 (symbols s)).
  generalize (symbols s). intros l Hk. rewrite <- (Nat.add_0_l (list_sum _)).
  assert (H : forall c, nth_error (steps (fun c d => (c + d) mod 2) c l) k
    = Some ((c + list_sum (firstn (S k) l)) mod 2)); [|apply H].
  revert k Hk; induction l as [|d l IH]; intros [|k] Hk c; cbn [length] in Hk; try lia.
  - cbn. rewrite Nat.add_0_r. reflexivity.
  - cbn [steps nth_error]. rewrite IH by lia. f_equal.
    change (list_sum (firstn (S (S k)) (d :: l))) with (d + list_sum (firstn (S k) l)).
    rewrite Nat.add_mod_idemp_l, Nat.add_assoc by lia. reflexivity.
Qed.
