#!/usr/bin/env bash
# Three hospitals and a coordinator on one machine, with keys: files of three kinds, initial model, run with a live page,
# the coordinator killed and started again, personal models, predictions, ONNX and a MONAI bundle.
# The first argument is the folder to work in; without one, a temporary folder.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
folder="${1:-$(mktemp -d)}"
mkdir -p "$folder" && cd "$folder"

python "$here/make_data.py"
cp "$here/run.toml" .
north=(--data north --data-option 'group=(P[0-9]+)_')
south=(--data south --data-option labels=south-labels.csv)
east=(--data east.npz)
fedap-participant init "${north[@]}" --data-option size=32 --model lenet5 --classes abscess,benign,cyst --out initial.safetensors

fedap-coordinator keygen --out coordinator.key
mkdir members
for hospital in north south east; do
    fedap-participant keygen --name "$hospital"
    cp "keys/$hospital.pub" members
done

fedap-coordinator check --config run.toml
serve=(fedap-coordinator serve --config run.toml --page "127.0.0.1:${PAGE_PORT:-8600}" --log-file coordinator.log)
"${serve[@]}" &
coordinator=$!
for hospital in north south east; do
    declare -n data="$hospital"
    fedap-participant join --coordinator ipc://coordinator.sock --coordinator-key coordinator.pub --keys "keys/$hospital.key" \
        --name "$hospital" "${data[@]}" --model-file initial.safetensors --state "$hospital-state" \
        --algorithm fedap --log-file "$hospital.log" > "$hospital.txt" &
done

until grep -q '"round.closed"' coordinator.log 2> /dev/null; do sleep 0.2; done
kill -9 "$coordinator"
wait "$coordinator" || echo "killed the coordinator; the same command resumes the run"
"${serve[@]}" &
wait

fedap-coordinator status three-hospitals
for hospital in north south east; do
    echo "--- $hospital"
    cat "$hospital.txt"
    fedap-participant export --state "$hospital-state" --out "$hospital.safetensors" > "$hospital-export.txt"
done
fedap-participant predict --model north.safetensors --data north-new --out north.csv
fedap-participant predict --model south.safetensors --data south-new --out south.csv
fedap-participant predict --model east.safetensors --data east-new.npz --out east.csv

fedap-participant export --state north-state --out north.onnx
fedap-participant export --state north-state --out north-bundle --format monai
python "$here/use_elsewhere.py"
echo "everything is in $folder"
