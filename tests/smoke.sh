#!/usr/bin/env bash
# Run the pipeline at the scale `smoke`, twice, from an empty cache. The first time runs every stage;
# the second must run none and change no file (an exit code proves nothing: dvc succeeds in both
# cases). A comment in the library makes stages start, and trains nothing. A fresh clone has none of
# the outputs, and nothing else may have changed there.
set -euo pipefail
source "$(dirname "$0")/in_a_copy.sh"

fail() { printf 'smoke: %s\n' "$@" >&2; exit 1; }

SECONDS=0
dvc exp run --quiet -S scale=smoke -S '~train.headlines' -S train.addition_schemes=all \
  -S +train.small_models=all -S +train.multi_operand_schemes=all -S +train.majority_halving=all \
  -S +train.equal_formats=all
commit "first run"
echo "smoke: the first run took ${SECONDS} s"

SECONDS=0
before=$(sha256sum dvc.lock)
second=$(dvc repro 2>&1) || fail "$second"
! grep "Running stage" <<< "$second" || fail "the second run should run no stage"
[[ $(sha256sum dvc.lock) == "$before" ]] || fail "the second run changed dvc.lock"
changed=$(git status --porcelain)
[[ -z $changed ]] || fail "the second run changed files" "$changed"
echo "smoke: the second run took ${SECONDS} s and ran no stage"

git clone --quiet . fresh
status=$(cd fresh && dvc status)
grep --quiet "deleted:" <<< "$status" || fail "a fresh clone should lack all outputs" "$status"
! grep -E "modified:|new:|changed command" <<< "$status" || fail "a fresh clone differs" "$status"
echo "smoke: a fresh clone lacks the outputs, and is otherwise as it was"

SECONDS=0
kept=$(find data/store -name done.json | wc -l)
printf '# A comment.\n' >> lib/carry/training/loop.py
dvc repro --quiet
[[ $(find data/store -name done.json | wc -l) == "$kept" ]] || fail "a comment did work again"
echo "smoke: a comment took ${SECONDS} s and trained nothing"
