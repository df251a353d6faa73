#!/usr/bin/env bash
# Train one row of the cpu profile undisturbed, then again with `kill -9` at ten random moments, and
# compare the weights by hash: `tests/kill.sh [ROW] [KILLS]`. Takes minutes; no part of `make test`.
set -euo pipefail
source "$(dirname "$0")/in_a_copy.sh"
row=${1:-addition_relative} kills=${2:-10} stage="train@${1:-addition_relative}"

hashes() { sha256sum data/cpu/runs/"$row"/*.safetensors; }
SECONDS=0
dvc repro -q "$stage"
hashes > ../undisturbed.$$
echo "undisturbed: ${SECONDS} s"
took=$SECONDS
# Not only the output but the memory of it: or DVC would bring the weights back without training.
forget() { rm -rf data/cpu/runs data/cpu/checkpoints dvc.lock .dvc/cache .dvc/tmp .site; }
forget

for ((kill = 1; kill <= kills; kill++)); do
  setsid dvc repro -q "$stage" &
  group=$!
  sleep $((RANDOM % (took / 3) + 4))
  # The whole group at once: dvc, the runner, its kernel and the processes that train.
  kill -KILL -- "-$group" 2> /dev/null || true
  pkill -KILL -f "$copy" || true
  { wait "$group" || true; } 2> /dev/null
  steps=$(python - << 'END'
import glob
from carry.training import checkpoint
print([checkpoint.load(path)[1]["step"] for path in sorted(glob.glob("data/cpu/checkpoints/*/*"))])
END
  )
  echo "kill $kill: checkpoints at steps $steps"
  # Where it had finished before the kill, the next one meets a training from the start.
  [[ ! -e data/cpu/runs/$row/run.json ]] || forget
done
dvc repro -q "$stage"
hashes | diff - ../undisturbed.$$ && echo "after $kills kills: the same weights"
rm -f ../undisturbed.$$
