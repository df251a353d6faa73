#!/usr/bin/env bash
# Train one row of the cpu profile undisturbed, then again with `kill -9` at ten random moments, and
# compare the hashes of the weights: `tests/kill.sh [ROW] [KILLS]`. It takes minutes, and is not a
# part of `make test`, where tests/test_kill.py kills a training at every file operation.
set -euo pipefail
source "$(dirname "$0")/in_a_copy.sh"
row=${1:-addition_relative} kills=${2:-10}

hashes() { sha256sum data/cpu/runs/*/"$row"/*.safetensors; }
SECONDS=0
carry train "$row"
hashes > ../undisturbed.$$
echo "undisturbed: ${SECONDS} s"
took=$SECONDS
forget() { rm -rf data/cpu/runs data/cpu/jobs; }
forget

for ((kill = 1; kill <= kills; kill++)); do
  setsid carry train "$row" &
  group=$!
  sleep $((RANDOM % (took / 3) + 4))
  # All processes of the group at once.
  kill -KILL -- "-$group" 2> /dev/null || true
  pkill -KILL -f "$copy" || true
  { wait "$group" || true; } 2> /dev/null
  steps=$(python - << 'END'
from pathlib import Path
from carry.training import checkpoint
paths = sorted(Path("data/cpu/jobs/train").rglob("checkpoints/**/*.safetensors"))
print([checkpoint.load_note(path)["step"] for path in paths])
END
  )
  echo "kill $kill: checkpoints at steps $steps"
  # A training that finished before the kill starts again.
  [[ -z $(ls -d data/cpu/runs/*/"$row" 2> /dev/null) ]] || forget
done
carry train "$row"
hashes | diff - ../undisturbed.$$ && echo "after $kills kills: the same weights"
rm -f ../undisturbed.$$
