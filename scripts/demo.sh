#!/usr/bin/env bash
# The whole system on this machine in one command: makes `.venv` on first use, then runs the demonstration.
# Arguments go to `fedap-lab demo`; `./scripts/demo.sh --help` lists them. PYTHON=... chooses the interpreter.
set -uo pipefail
# shellcheck source=scripts/venv.sh
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh" || exit 1

ensure_venv all
exec "$venv/bin/fedap-lab" demo "$@"
