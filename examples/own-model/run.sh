#!/usr/bin/env bash
# An initial model file of one's own model, and what would leave a hospital that trains it. Arguments: as in three-hospitals.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
folder="${1:-$(mktemp -d)}"
mkdir -p "$folder" && cd "$folder"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"

fedap-participant init --data synthetic --model my_model:small --out initial.safetensors
fedap-participant check --data synthetic --model-file initial.safetensors --trust-code my_model:small --algorithm fedap
