#!/usr/bin/env bash
# Run the pipeline at the scale `smoke`, twice, from an empty cache. The first time runs every stage;
# the second must run none and change no file (an exit code proves nothing: dvc succeeds in both
# cases). A comment in the library makes stages start, and trains nothing. A fresh clone has none of
# the outputs, and nothing else may have changed there.
set -euo pipefail
cd "$(dirname "$0")/.."

# Go on in a copy of this checkout, with changes that are not committed yet and a DVC cache of its
# own, so that nothing of the user's is touched.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"; done |
  tar -c --null -T - -f - | tar -x -f - -C "$copy"
cd "$copy"
# The copy's library before the installed one, also in the notebooks' kernels.
export PYTHONPATH="$copy/lib" CARRY_PROGRESS=off DVC_NO_ANALYTICS=1 DVC_SITE_CACHE_DIR="$copy/.site"
commit() { git add --all && git -c user.name=copy -c user.email=copy@localhost commit -qm "$1"; }
git init -q
printf '%s\n' .site/ >> .git/info/exclude
commit "before"  # DVC refuses a repository without a commit

fail() { printf 'smoke: %s\n' "$@" >&2; exit 1; }

# `nbval` runs the notebooks of all works; here those of one, and the site without the others.
targets=(certify figures@overview claims readme)
SECONDS=0
dvc exp run --quiet "${targets[@]}" -S scale=smoke -S '~train.headlines' \
  -S train.addition_schemes=all -S +train.small_models=all -S +train.multi_operand_schemes=all \
  -S +train.majority_halving=all -S +train.equal_formats=all
dvc repro --quiet --single-item site
commit "first run"
echo "smoke: the first run took ${SECONDS} s"

SECONDS=0
second=$(dvc repro "${targets[@]}" 2>&1) || fail "$second"
! grep "Running stage" <<< "$second" || fail "the second run should run no stage"
changed=$(git status --porcelain)
[[ -z $changed ]] || fail "the second run changed files" "$changed"
echo "smoke: the second run took ${SECONDS} s and ran no stage"

git clone --quiet . fresh
status=$(cd fresh && dvc status --with-deps "${targets[@]}")
grep --quiet "deleted:" <<< "$status" || fail "a fresh clone should lack all outputs" "$status"
! grep -E "modified:|new:|changed command" <<< "$status" || fail "a fresh clone differs" "$status"
echo "smoke: a fresh clone lacks the outputs, and is otherwise as it was"

SECONDS=0
kept=$(find data/store -name done.json | wc -l)
printf '# A comment.\n' >> lib/carry/training/loop.py
dvc repro --quiet "${targets[@]}"
[[ $(find data/store -name done.json | wc -l) == "$kept" ]] || fail "a comment did work again"
echo "smoke: a comment took ${SECONDS} s and trained nothing"
