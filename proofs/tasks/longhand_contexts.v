(** All contexts of calculations in longhand: for each token, what it sees, and what follows. There
    are 475,795, of which two are alike. *)

From Coq Require Import List Arith ZArith Bool.
From Carry Require Import Decoding Windows Columns tasks.longhand_rows.
Import ListNotations.

Inductive operation := Sum | Difference | Product | Quotient.
Definition sign_token (o : operation) : token :=
  match o with Sum => PLUS | Difference => MINUS | Product => TIMES | Quotient => OVER end.

Definition value_of (x : option nat) : nat := match x with Some d => d | None => 0 end.
Definition is_some {A} (x : option A) : bool := match x with Some _ => true | None => false end.
Definition ten : list nat := seq 0 10.
Definition nine : list nat := seq 1 9.
Definition maybe {A} (l : list A) : list (option A) := None :: map Some l.

(** * Digits of rows *)

(** From the digits of the row before and of the fixed number at a place, and what the place below
    carries: the digit that is written, and what this place carries. *)
Definition effect := nat -> nat -> nat -> nat * nat.
Definition plus_ : effect := fun x y c => ((x + y + c) mod 10, (x + y + c) / 10).
Definition minus_ : effect := fun x y c => ((x + 20 - (y + c)) mod 10, if x <? y + c then 1 else 0).
Definition negate_ : effect := fun x _ c => minus_ 0 x c.
Definition move_ : effect := fun x _ c => (c, x).

(** A place of a row sees two digits of the row before (x, x'), and two of the fixed number
    (y, y'). *)
Record near := Near {
  x_ : option nat; x_next : option nat; y_ : option nat; y_next : option nat }.

Record rule := Rule {
  kind : Z;
  step : effect;
  carries_in : list nat;
  possible : bool -> near -> nat -> bool;  (* at the lowest place or another one, with a carry *)
  goes_on : near -> nat -> bool;  (* with what this place carries *)
  ends : nat -> token }.

(** A number without leading zeros. *)
Definition natural (lowest : bool) (x x' : option nat) : bool :=
  match x, x' with
  | None, _ => negb lowest && negb (is_some x')
  | Some d, None => lowest || (1 <=? d)
  | Some _, Some _ => true
  end.
Definition fixed_near (lowest : bool) (n : near) (c : nat) : bool :=
  natural lowest (y_ n) (y_next n) && (negb lowest || (c =? 0)).

Definition at_most (x y : option nat) : bool :=
  match x, y with None, _ => true | Some _, None => false | Some d, Some e => d <=? e end.
Definition is_zero (x : option nat) : bool := value_of x =? 0.
Definition longer_near (n : near) : bool :=
  is_some (x_ n) && eqb (is_some (x_next n)) (is_some (y_ n)).
Definition top (n : near) : option nat := if is_some (y_ n) then x_next n else x_ n.

(** A row is as long as the longer number; a sum may carry out. *)
Definition sum_rule (kind : Z) (effect : effect) (carries_out : bool)
    (possible : bool -> near -> nat -> bool) : rule := {|
  kind := kind;
  step := effect;
  carries_in := [0; 1];
  possible lowest n c := fixed_near lowest n c && possible lowest n c
    && (is_some (x_ n) || is_some (y_ n) || carries_out && (0 <? c));
  goes_on n c := is_some (x_next n) || is_some (y_next n) || carries_out && (0 <? c);
  ends c := if carries_out || (c =? 0) then PLUS else MINUS |}.
Definition natural_rule (effect : effect) (carries_out : bool) : rule :=
  sum_rule STEP effect carries_out (fun lowest n _ => natural lowest (x_ n) (x_next n)).

(** A difference below 0 is as long as the fixed number. Taken from 0 it is above 0, and not above
    the fixed number. *)
Definition negate_rule : rule := {|
  kind := REPAIR;
  step := negate_;
  carries_in := [0; 1];
  possible lowest n c := fixed_near lowest n c && is_some (x_ n)
    && eqb (is_some (x_ n)) (is_some (y_ n)) && eqb (is_some (x_next n)) (is_some (y_next n))
    && let d := fst (negate_ (value_of (x_ n)) 0 c) in
       (is_some (y_next n) || (d <=? value_of (y_ n)) && ((0 <? d) || (0 <? c)));
  goes_on n c := is_some (x_next n);
  ends _ := PLUS |}.

(** The first row is that of a shift without a row before. *)
Definition first_rule (longer : bool) : rule := {|
  kind := SHIFT;
  step := move_;
  carries_in := if longer then ten else [0];
  possible lowest n c := natural lowest (y_ n) (y_next n) && (lowest || (c =? 0))
    && negb (is_some (x_ n)) && negb (is_some (x_next n)) && (longer || is_some (y_ n));
  goes_on n _ := is_some (if longer then y_ n else y_next n);
  ends _ := PLUS |}.

(** In a product, the row before has zeros alone, as many as the fixed number has digits, or any
    number of them if this is 0. Or it has no leading zero, and is not shorter, nor smaller in the
    same top digit. *)
Definition product_near (lowest : bool) (n : near) (c : nat) : bool :=
  let '(Near x x' y y') := n in
  let as_long := eqb (is_some x) (is_some y) && eqb (is_some x') (is_some y') in
  let fixed_is_0 := (if lowest then is_zero y else negb (is_some y)) && negb (is_some y') in
  let zeros := is_zero x && is_zero x' && (c =? 0) && (as_long || fixed_is_0) in
  let top_is_0 := match x with Some 0 => negb lowest | _ => false end in
  (is_some x || negb lowest) && (is_some x || negb (is_some y)) && (is_some x' || negb (is_some y'))
  && (is_some x' || zeros || at_most y x && negb top_is_0).
Definition product_shift : rule := {|
  kind := SHIFT;
  step := move_;
  carries_in := ten;
  possible lowest n c := fixed_near lowest n c && product_near lowest n c;
  goes_on n _ := is_some (x_ n);
  ends _ := PLUS |}.

(** In a quotient, rows are one digit longer than the fixed number. Before a shift the row is
    smaller. After a repair it is not below 0, as the last carry and the 9 before show. *)
Definition quotient_shift : rule := {|
  kind := SHIFT;
  step := move_;
  carries_in := ten;
  possible lowest n c := natural lowest (y_ n) (y_next n) && longer_near n
    && (is_some (y_next n)
      || is_zero (top n) && (negb (is_some (y_ n)) || at_most (x_ n) (y_ n)));
  goes_on n _ := is_some (y_ n);
  ends _ := PLUS |}.
Definition quotient_step : rule := sum_rule STEP minus_ false (fun _ n _ =>
  longer_near n && (is_some (y_next n) || negb (is_some (y_ n)) || at_most (top n) (y_ n))).
Definition quotient_repair : rule := {|
  kind := REPAIR;
  step := plus_;
  carries_in := [0; 1];
  possible lowest n c := fixed_near lowest n c && longer_near n
    && (is_some (y_next n)
      || (value_of (top n) =? 9) && (10 <=? value_of (x_ n) + value_of (y_ n) + c));
  goes_on n _ := is_some (x_next n);
  ends _ := PLUS |}.

Definition rules_of (o : operation) : list rule :=
  match o with
  | Sum => [natural_rule plus_ true]
  | Difference => [natural_rule minus_ false; negate_rule]
  | Product => [first_rule false; product_shift; sum_rule STEP plus_ true product_near]
  | Quotient => [first_rule true; quotient_shift; quotient_step; quotient_repair]
  end.

Definition digit_context (o : operation) (r : rule) (n : near) (c : nat) : context :=
  let '(q, c') := step r (value_of (x_ n)) (value_of (y_ n)) c in
  let keys := digit_view (sign_token o) (kind r) (x_ n) (x_next n) (y_ n) (y_next n) q in
  let next := fst (step r (value_of (x_next n)) (value_of (y_next n)) c') in
  (q, keys, if goes_on r n c' then next else ends r c').

Definition near_pairs : list (option nat * option nat) :=
  (None, None) :: flat_map (fun d => map (pair (Some d)) (maybe ten)) ten.
Definition digit_contexts (o : operation) : list context :=
  flat_map (fun r => flat_map (fun xx => flat_map (fun yy =>
    let n := Near (fst xx) (snd xx) (fst yy) (snd yy) in
    flat_map (fun c =>
      if possible r true n c || possible r false n c then [digit_context o r n c] else [])
    (carries_in r)) near_pairs) near_pairs) (rules_of o).

(** * Counts of rows *)

Definition count_context (o : operation) (kind : Z) (x y before : option nat) (shifted : bool)
    (z z' : option nat) (q due : token) : context :=
  (q, count_view (sign_token o) kind x y before shifted z z' q, due).

(** The count [q] of a step or a repair. *)
Definition step_counts (o : operation) (effect : effect) (kind : Z) (before : option nat)
    (shifted : bool) (q : token) (fits : nat -> nat -> bool) : list context :=
  flat_map (fun x => flat_map (fun y =>
    let due := fst (effect x y 0) in
    if fits x y then [count_context o kind (Some x) (Some y) before shifted None None q due]
      else [])
  ten) ten.
Definition any (_ _ : nat) : bool := true.

(** The count of a shift sees two digits of the counted number. *)
Definition shift_counts (o : operation) (x y before : option nat) (shifted : bool)
    (fits : nat -> option nat -> bool) : list context :=
  flat_map (fun z => flat_map (fun z' =>
    let due := match o with Quotient => z | _ => 0 end in
    if fits z z' then [count_context o SHIFT x y before shifted (Some z) z' 0 due] else [])
  (maybe ten)) ten.
Definition leads_number (z : nat) (z' : option nat) : bool := (0 <? z) || negb (is_some z').

(** In a product, a row ends in the lowest digit of its last count times the fixed number. *)
Definition count_contexts (o : operation) : list context :=
  match o with
  | Sum => step_counts o plus_ STEP None false 1 any
  | Difference =>
    step_counts o minus_ STEP None false 1 any
    ++ step_counts o negate_ REPAIR (Some 1) false 0 any
  | Product =>
    flat_map (fun n => step_counts o plus_ STEP (Some (n - 1)) (n =? 1) n
      (fun x y => x =? (n - 1) * y mod 10)) nine
    ++ flat_map (fun y => shift_counts o None (Some y) None false leads_number
      ++ flat_map (fun n => shift_counts o (Some (n * y mod 10)) (Some y) (Some n) (n =? 0)
        (fun _ _ => true)) ten) ten
  | Quotient =>
    flat_map (fun n => step_counts o minus_ STEP (Some (n - 1)) (n =? 1) n any
      ++ step_counts o plus_ REPAIR (Some n) false (n - 1) any) nine
    ++ flat_map (fun y => shift_counts o None (Some y) None false leads_number
      ++ flat_map (fun n => flat_map (fun x => shift_counts o (Some x) (Some y) (Some n) false
        (fun _ _ => true)) ten) ten) ten
  end.

(** * Signs of rows *)

Definition sign_context (o : operation) (kind : Z) (before : option nat) (shifted : bool)
    (sign_before : token) (count : nat) (z z' : option nat) (q due : token) : context :=
  (q, sign_view (sign_token o) kind before shifted sign_before (Some count) z z' q, due).

Definition shift_or_end (z' : option nat) : token := if is_some z' then 0 else END.

Definition equals_context (o : operation) (z : option nat) (due : token) : context :=
  (EQUALS, glimpse windows_ (sign_token o, []) (counted_at 1 z) (EQUALS, sign_ids_ 0 0), due).

(** The last digit of a product may be 0; then no step follows. *)
Definition shift_signs (o : operation) (z : nat) (z' : option nat) : list context :=
  match o with
  | Product => map (fun n => sign_context o SHIFT (Some n) (n =? 0) PLUS 0 (Some z) z' PLUS
      (if 0 <? z then 1 else shift_or_end z')) ten
  | _ => flat_map (fun before => if is_some before || leads_number z z' then
      [sign_context o SHIFT before false PLUS 0 (Some z) z' PLUS 1] else []) (maybe ten)
  end.

Definition sign_contexts (o : operation) : list context :=
  let after_step n := sign_context o STEP (Some (n - 1)) (n =? 1) PLUS n in
  match o with
  | Sum => [equals_context o None 1;
            sign_context o STEP None false EQUALS 1 None None PLUS END]
  | Difference => [equals_context o None 1;
                   sign_context o STEP None false EQUALS 1 None None PLUS END;
                   sign_context o STEP None false EQUALS 1 None None MINUS 0;
                   sign_context o REPAIR (Some 1) false MINUS 0 None None PLUS END]
  | Product => map (fun z => equals_context o (Some z) 0) ten
    ++ flat_map (fun z => flat_map (fun z' => shift_signs o z z' ++ flat_map (fun n =>
      if n <=? z
      then [after_step n (Some z) z' PLUS (if n <? z then n + 1 else shift_or_end z')] else [])
    nine) (maybe ten)) ten
  | Quotient => map (fun z => equals_context o (Some z) 0) ten
    ++ flat_map (fun z => flat_map (fun z' => shift_signs o z z' ++ flat_map (fun n =>
      [after_step n (Some z) z' PLUS (if n <? 9 then n + 1 else shift_or_end z');
       after_step n (Some z) z' MINUS (n - 1);
       sign_context o REPAIR (Some n) false MINUS (n - 1) (Some z) z' PLUS (shift_or_end z')])
    nine) (maybe ten)) ten
  end.

Definition contexts_of (o : operation) : list context :=
  sign_contexts o ++ count_contexts o ++ digit_contexts o.
