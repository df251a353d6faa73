#!/usr/bin/env bash
# Run the smoke profile twice from an empty cache. The first time runs every stage; the second must
# run none and change no file (an exit code proves nothing: dvc succeeds in both cases).
set -euo pipefail
source "$(dirname "$0")/in_a_copy.sh"

SECONDS=0
dvc repro profiles/smoke/dvc.yaml
commit "first run"
echo "smoke: the first run took ${SECONDS} s"

SECONDS=0
second=$(dvc repro profiles/smoke/dvc.yaml 2>&1) || { echo "$second"; exit 1; }
if grep "Running stage" <<< "$second"; then
  echo "smoke: the second run should run no stage" >&2
  exit 1
fi
changed=$(git status --porcelain)
if [[ -n $changed ]]; then
  printf 'smoke: the second run changed files\n%s\n' "$changed" >&2
  exit 1
fi
echo "smoke: the second run took ${SECONDS} s and ran no stage"
