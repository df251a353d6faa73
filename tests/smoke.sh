#!/usr/bin/env bash
# Run the smoke profile twice in a copy of this checkout, with changes that are not committed yet and
# a DVC cache of its own. The first time runs every stage; the second must run none and change no
# file (an exit code proves nothing: dvc succeeds in both cases).
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"; done |
  tar --create --null --files-from=- | tar --extract --directory "$copy"
cd "$copy"
rm -f profiles/smoke/dvc.lock
cp dvc.yaml profiles/smoke/dvc.yaml

# The copy's library before the installed one, also in the notebooks' kernels.
export PYTHONPATH="$copy/lib" CARRY_PROGRESS=off DVC_NO_ANALYTICS=1 DVC_SITE_CACHE_DIR="$copy/.site"
commit() { git add --all && git -c user.name=smoke -c user.email=smoke@localhost commit -qm "$1"; }
git init -q
printf '%s\n' .site/ >> .git/info/exclude
commit "before"  # DVC and DVCLive refuse a repository without a commit

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
