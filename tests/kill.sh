#!/usr/bin/env bash
# Train two seeds of a row undisturbed, then again with `kill -9` at random moments, and compare the
# hashes of the weights: `tests/kill.sh [ROW] [KILLS] [SCALE]`. It takes minutes, and is not a part of
# `make test`, where tests/test_kill.py kills a training at every file operation.
set -euo pipefail
source "$(dirname "$0")/in_a_copy.sh"
row=${1:-addition_relative} kills=${2:-10} scale=${3:-laptop}

run() { exec carry run "$row" --scale "$scale" --seed 0 --seed 1; }
hashes() { (cd data/store/train && sha256sum ./*/*.safetensors); }
forget() { rm -rf data/store reports/results; }  # what has results in git is not trained
forget
SECONDS=0
(run)
hashes > ../undisturbed.$$
echo "undisturbed: ${SECONDS} s"
took=$SECONDS
forget

for ((kill = 1; kill <= kills; kill++)); do
  setsid bash -c "$(declare -f run); row=$row scale=$scale run" &
  group=$!
  sleep $((RANDOM % (took / 3 + 1) + 4))
  kill -KILL -- "-$group" 2> /dev/null || true  # all processes of the group at once
  { wait "$group" || true; } 2> /dev/null
  steps=$(python - << 'END'
from pathlib import Path
from carry.training import checkpoint
paths = sorted(Path("data/store/train").rglob("checkpoints/**/*.safetensors"))
notes = [checkpoint.load_note(path) for path in paths]
print([note["step"] for note in notes if "step" in note])  # snapshots have none
END
  )
  echo "kill $kill: checkpoints at steps $steps"
  # Trainings that ended before the kill start again.
  (($(find data/store -name done.json 2> /dev/null | wc -l) < 2)) || forget
done
(run)
hashes | diff - ../undisturbed.$$ && echo "after $kills kills: the same weights"
rm -f ../undisturbed.$$
