#!/usr/bin/env bash
# Run the smoke profile twice from an empty cache. The first time runs every stage; the second must
# run none and change no file (an exit code proves nothing: dvc succeeds in both cases). A fresh
# clone has none of the outputs, and nothing else may have changed there.
set -euo pipefail
source "$(dirname "$0")/in_a_copy.sh"
pipeline=profiles/smoke/dvc.yaml lock=profiles/smoke/dvc.lock

fail() { printf 'smoke: %s\n' "$@" >&2; exit 1; }

SECONDS=0
dvc repro "$pipeline"
git add --force "$pipeline" "$lock"
commit "first run"
echo "smoke: the first run took ${SECONDS} s"

SECONDS=0
before=$(sha256sum "$lock")
second=$(dvc repro "$pipeline" 2>&1) || fail "$second"
! grep "Running stage" <<< "$second" || fail "the second run should run no stage"
[[ $(sha256sum "$lock") == "$before" ]] || fail "the second run changed $lock"
changed=$(git status --porcelain)
[[ -z $changed ]] || fail "the second run changed files" "$changed"
echo "smoke: the second run took ${SECONDS} s and ran no stage"

git clone --quiet . fresh
status=$(cd fresh && dvc status "$pipeline")
grep --quiet "deleted:" <<< "$status" || fail "a fresh clone should lack all outputs" "$status"
! grep -E "modified:|new:|changed command" <<< "$status" || fail "a fresh clone differs" "$status"
echo "smoke: a fresh clone lacks the outputs, and is otherwise as it was"
