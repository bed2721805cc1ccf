#!/usr/bin/env bash
# One's own algorithm beside FedAvg and FedBN on the same clients. Arguments: the folder, then options for compare.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
folder="${1:-$(mktemp -d)}"
mkdir -p "$folder" && cd "$folder"
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"

fedap-lab compare --data watch --algorithms fedavg,fedbn,my_algorithm:Half,my_algorithm:Half:own=0.8 --rounds 10 \
    --out runs "${@:2}"
