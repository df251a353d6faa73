(** What the last token of a text sees, and why finitely many cases are enough. *)

From Coq Require Import List Arith ZArith Bool Permutation Lia.
From Carry Require Import Decoding.
Import ListNotations.

(** * Ids and windows *)

(** A token has an id at each level of ids; [None] where the level does not count it. *)
Definition ids := list (option Z).

(** A window (a, b) of a level shows the ids from a below to b above the query's id. *)
Definition window := (Z * Z)%type.

(** The ids of a query and a key at each level, with the level's window. *)
Definition levels (windows : list window) (query key : ids) : list (window * option Z * option Z) :=
  map (fun i => (nth i windows (0, 0)%Z, nth i query None, nth i key None))
    (seq 0 (length windows)).

(** The row of a level's biases: the query's id less the key's, clipped one beyond the wider side of the
    window in both directions; then an uncounted query, an uncounted key, and both. *)
Definition bias_row (l : window * option Z * option Z) : nat :=
  let '((below, above), query, key) := l in
  let clip := (1 + Z.max below above)%Z in
  Z.to_nat match query, key with
  | Some q, Some k => clip + Z.max (- clip) (Z.min clip (q - k))
  | None, Some _ => 2 * clip + 1
  | Some _, None => 2 * clip + 2
  | None, None => 2 * clip + 3
  end.

(** Whether the key's id is inside the window, if the level counts both tokens. *)
Definition inside (l : window * option Z * option Z) : option bool :=
  match l with
  | ((below, above), Some q, Some k) => Some ((q - below <=? k) && (k <=? q + above))%Z
  | _ => None
  end.

(** A key is visible if it is inside the windows of all levels that count both tokens, and there is
    such a level. *)
Definition visible (windows : list window) (query key : ids) : bool :=
  let decisions := map inside (levels windows query key) in
  existsb (fun d => match d with Some true => true | _ => false end) decisions
  && forallb (fun d => match d with Some false => false | _ => true end) decisions.

(** A key that is seen: its token, and the row of the biases at each level. *)
Definition key := (token * list nat)%type.

Definition show (windows : list window) (query : ids) (cell : token * ids) : key :=
  (fst cell, map bias_row (levels windows query (snd cell))).

(** The last token sees the first token, itself, and what is visible. *)
Definition sees (windows : list window) (size : nat) (query : ids) (p : nat * (token * ids))
    : bool :=
  let '(i, (_, key)) := p in (i =? 0) || (S i =? size) || visible windows query key.

Definition seen (windows : list window) (text : list (token * ids)) : list key :=
  let query := snd (last text (END, [])) in
  map (fun p => show windows query (snd p))
    (filter (sees windows (length text) query) (combine (seq 0 (length text)) text)).

(** * Tasks *)

(** The last token, what it sees, and the token that is due. *)
Definition context := (token * list key * token)%type.

(** A task: questions and their answers, less [END]; the ids of a text; the windows; and finitely
    many contexts. Each step of each problem is one of them: [covered]. *)
Record task := Task {
  problem : Type;
  question : problem -> list token;
  written : problem -> list token;
  ids_of : list token -> list ids;
  windows : list window;
  contexts : list context;
  ends_once : forall p, ~ In END (written p);
  covered : forall p k, k <= length (written p) ->
    let text := question p ++ firstn k (written p) in
    exists keys, In (last text END, keys, nth k (written p) END) contexts
      /\ Permutation keys (seen windows (combine text (ids_of text))) }.

Definition answer (t : task) (p : problem t) : list token := written t p ++ [END].

Definition seen_in (t : task) (text : list token) : list key :=
  seen (windows t) (combine text (ids_of t text)).

(** Decoding by [next] writes the answer of every problem, of any length. *)
Definition exact (t : task) (next : list token -> token) : Prop :=
  forall (p : problem t) (steps : nat), length (answer t p) <= steps ->
  decode next steps (question t p) = answer t p.

(** * Theorem: right in every context, so right at every length *)

Lemma right_steps_are_exact t next :
  (forall p k, k <= length (written t p) ->
     next (question t p ++ firstn k (written t p)) = nth k (written t p) END) ->
  exact t next.
Proof.
  intros right p steps enough. unfold answer in *. rewrite app_length in enough. cbn in enough.
  apply decode_written; [apply right|apply ends_once|lia].
Qed.

(** What is true of the due token in all contexts is true in each step of each problem, if it does
    not depend on the order of what is seen. *)
Lemma true_in_steps t (P : token -> list key -> token -> Prop) :
  (forall q c c' y, Permutation c c' -> P q c y -> P q c' y) ->
  (forall q c y, In (q, c, y) (contexts t) -> P q c y) ->
  forall p k, k <= length (written t p) ->
  let text := question t p ++ firstn k (written t p) in
  P (last text END) (seen_in t text) (nth k (written t p) END).
Proof.
  intros unordered right p k Hk text. destruct (covered t p k Hk) as (keys & Hin & Hperm).
  apply (unordered _ _ _ _ Hperm), right, Hin.
Qed.

Theorem every_length (t : task) (next : list token -> token) (step : token -> list key -> token) :
  (** The next token depends on the last token and on what it sees, in any order ... *)
  (forall text, next text = step (last text END) (seen_in t text)) ->
  (forall q c c', Permutation c c' -> step q c = step q c') ->
  (** ... and is the one that is due, in each of finitely many contexts. *)
  (forall q c y, In (q, c, y) (contexts t) -> step q c = y) ->
  exact t next.
Proof.
  intros local unordered right. apply right_steps_are_exact. intros p k Hk. rewrite local.
  apply (true_in_steps t (fun q c y => step q c = y)); [|exact right|exact Hk].
  intros q c c' y Hperm <-. symmetry. apply unordered, Hperm.
Qed.
