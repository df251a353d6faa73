#!/usr/bin/env bash
# Train one row of the cpu profile undisturbed, then again with `kill -9` at ten random moments, and
# compare the hashes of the weights: `tests/kill.sh [ROW] [KILLS]`. It takes minutes, and is not a
# part of `make test`, where tests/test_kill.py kills a training at every file operation.
set -euo pipefail
source "$(dirname "$0")/in_a_copy.sh"
row=${1:-addition_relative} kills=${2:-10} stage="train@${1:-addition_relative}"

hashes() { sha256sum data/cpu/runs/"$row"/*.safetensors; }
SECONDS=0
dvc repro -q "$stage"
hashes > ../undisturbed.$$
echo "undisturbed: ${SECONDS} s"
took=$SECONDS
# DVC's cache too: DVC would restore the weights from it without training.
forget() { rm -rf data/cpu/runs data/cpu/checkpoints dvc.lock .dvc/cache .dvc/tmp .site; }
forget

for ((kill = 1; kill <= kills; kill++)); do
  setsid dvc repro -q "$stage" &
  group=$!
  sleep $((RANDOM % (took / 3) + 4))
  # All processes of the group at once: dvc, the runner, its kernel and the workers.
  kill -KILL -- "-$group" 2> /dev/null || true
  pkill -KILL -f "$copy" || true
  { wait "$group" || true; } 2> /dev/null
  steps=$(python - << 'END'
from pathlib import Path
from carry.training import checkpoint
paths = sorted(Path("data/cpu/checkpoints").glob("*/*/seed_?.safetensors"))
print([checkpoint.load_note(path)["step"] for path in paths])
END
  )
  echo "kill $kill: checkpoints at steps $steps"
  # A training that finished before the kill starts again.
  [[ ! -e data/cpu/runs/$row/run.json ]] || forget
done
dvc repro -q "$stage"
hashes | diff - ../undisturbed.$$ && echo "after $kills kills: the same weights"
rm -f ../undisturbed.$$
