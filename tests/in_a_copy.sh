# Sourced by smoke.sh and kill.sh: go on in a copy of this checkout, with changes that are not
# committed yet and a DVC cache of its own, so that nothing of the user's is touched.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"; done |
  tar --create --null --files-from=- | tar --extract --directory "$copy"
cd "$copy"

# The copy's library before the installed one, also in the notebooks' kernels.
export PYTHONPATH="$copy/lib" CARRY_PROGRESS=off DVC_NO_ANALYTICS=1 DVC_SITE_CACHE_DIR="$copy/.site"
commit() { git add --all && git -c user.name=copy -c user.email=copy@localhost commit -qm "$1"; }
git init -q
printf '%s\n' .site/ >> .git/info/exclude
commit "before"  # DVC refuses a repository without a commit
