#!/bin/sh
# The benchmark with a real model on a real engine, on the CPU: 20 MovieLens users, three candidates (SmolLM2-135M through
# vLLM and two lexical ones), judged by the lexical judge, and once more with SmolLM2 as the judge.
# SmolLM2-135M is far too small to be good at this. It is here to show that every part works.
# Usage: MOVIELENS=ml-latest-small BIN=.venv/bin CACHE=.cache sh scripts/demo_llm.sh [OUTPUT]
set -eu
BIN=${BIN:-.venv/bin}
CACHE=${CACHE:-.cache}
OUTPUT=${1:-runs/demo-llm}
if [ ! -e "${MOVIELENS:?name a MovieLens folder or zip with MOVIELENS=...}" ]; then
  echo "There is no $MOVIELENS. Get MovieLens 'latest small' from https://grouplens.org/datasets/movielens/ and name it: make demo-llm MOVIELENS=ml-latest-small.zip" >&2
  exit 1
fi
MODEL=$("$BIN/python" scripts/smollm2.py --cache "$CACHE/models")
# A small model holds on to the point in short prompts, and needs the schema to write JSON at all.
CANDIDATE="vllm:$MODEL?dtype=float32&max_model_len=8192&max_num_seqs=32&structured=true&max_tokens=400"
JUDGE="vllm:$MODEL?dtype=float32&max_model_len=8192&max_num_seqs=32&max_tokens=128"

for judge in lexical/overlap "$JUDGE"; do
  case $judge in vllm:*) folder=$OUTPUT/judged-by-smollm2 ;; *) folder=$OUTPUT/judged-by-words ;; esac
  "$BIN/gistbench" run --output "$folder" --store "$OUTPUT/responses.sqlite" \
    --dataset movielens --source "$MOVIELENS" --min-engagements 100 --users 20 \
    --history-length 100 --chunk-size 25 --pool-size 100 --max-reasks 1 \
    --candidate "$CANDIDATE" --candidate lexical/hashtag --candidate lexical/phrase --judge "$judge"
done
"$BIN/gistbench" report "$OUTPUT/judged-by-words" "$OUTPUT/judged-by-smollm2" --out "$OUTPUT/report"
