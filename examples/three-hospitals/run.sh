#!/usr/bin/env bash
# Three hospitals and a coordinator on one machine, with keys: data, initial model, run, personal models, predictions.
# The first argument is the folder to work in; without one, a temporary folder.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
folder="${1:-$(mktemp -d)}"
mkdir -p "$folder" && cd "$folder"

python "$here/make_data.py"
cp "$here/run.toml" .
fedap-participant init --data north.npz --model lenet5 --out initial.safetensors

fedap-coordinator keygen --out coordinator.key
mkdir members
for hospital in north south east; do
    fedap-participant keygen --name "$hospital"
    cp "keys/$hospital.pub" members
done

fedap-coordinator check --config run.toml
fedap-coordinator serve --config run.toml --log-file coordinator.log &
for hospital in north south east; do
    fedap-participant join --coordinator ipc://coordinator.sock --coordinator-key coordinator.pub --keys "keys/$hospital.key" \
        --name "$hospital" --data "$hospital.npz" --model-file initial.safetensors --state "$hospital-state" \
        --algorithm fedap --log-file "$hospital.log" &
done
wait

fedap-coordinator status three-hospitals
for hospital in north south east; do
    fedap-participant export --state "$hospital-state" --out "$hospital.safetensors"
    fedap-participant predict --model "$hospital.safetensors" --data "$hospital-new.npz" --out "$hospital.csv"
done
echo "everything is in $folder"
