#!/bin/sh
# Rebuilds everything that ships with tinylm: corpora, weights, activation scales, rollouts and K_train's captures.
#   reproduce.sh PATH/TO/tinylm [all|data]     `data` keeps the weights and remakes what follows from them
# Needs python3-torch, python3-numpy and libopenblas0-pthread; takes about 10 minutes on an idle machine.
set -eu
tinylm=$1
what=${2:-all}
here=$(cd "$(dirname "$0")" && pwd)
work=${TINYLM_WORK:-$(mktemp -d)}
data=$here/data
captures=$data/captures
# OpenBLAS's threads sleep instead of spinning, and malloc keeps large blocks instead of returning them.
export OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0 PYTHONDONTWRITEBYTECODE=1
export MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296
mkdir -p "$captures"
if [ "$what" = all ]; then
  /usr/bin/python3 "$here/make_corpus.py" --text-root "$work/text" --train-out "$work/train.json.gz" --data "$data"
  /usr/bin/python3 "$here/train.py" train --text "$work/train.json.gz" --model "$here/model"
fi
"$tinylm" calibrate --model "$here/model" --corpus "$data/calibration.jsonl" \
  --out "$here/int8-static/activation_scales.safetensors"
"$tinylm" rollout --model "$here/model" --kernel bf16 --prompts "$data/rollout_prompts.jsonl" --max-tokens 16 --seed 1 \
  --out "$data/rollouts_bf16.jsonl"
for corpus in numeric slice rollouts_bf16; do
  /usr/bin/python3 "$here/capture.py" --model "$here/model" --corpus "$data/$corpus.jsonl" --positions 16 \
    --out "$captures/${corpus}_train.safetensors"
done
# K_train's noise floor: the numeric corpus again, eight sequences at a time.
/usr/bin/python3 "$here/capture.py" --model "$here/model" --corpus "$data/numeric.jsonl" --positions 16 --batch 8 \
  --out "$captures/numeric_train_batch8.safetensors"
