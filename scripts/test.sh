#!/usr/bin/env bash
# Everything that must hold before a change is handed in: lint, format, types, documentation, tests. Every check runs, even after
# another has failed; the exit code is 0 only when all passed. `--slow` runs the tests marked slow instead of the
# default ones; other arguments go to pytest (paths count from the repository). The default tests run in as many
# processes as there are cores, file by file; `-n 0` runs them in one. PYTHON=... chooses the interpreter.
set -uo pipefail
# shellcheck source=scripts/venv.sh
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh" || exit 1
# shellcheck source=scripts/browser.sh
source "$(dirname "${BASH_SOURCE[0]}")/browser.sh" || exit 1

pytest_arguments=(-n auto --dist loadfile --no-loadscope-reorder)
for argument in "$@"; do
    case "$argument" in
        --slow) pytest_arguments+=(-m slow -n 0) ;;  # some measure memory and speed
        *) pytest_arguments+=("$argument") ;;
    esac
done

ensure_venv test
ensure_browser
cd "$root" || exit 1
# Tests on real data skip without it.
if [[ -z "${FEDAP_DATA+set}" && -d "$root/../shared/data" ]]; then
    FEDAP_DATA="$(cd "$root/../shared/data" && pwd -P)"
    export FEDAP_DATA
fi

failed=()
trap 'say "interrupted"; exit 130' INT

# check NAME COMMAND...: silent when it passes, its own words when it does not.
check() {
    local name="$1" output
    shift
    say "$name"
    if ! output="$("$@" 2>&1 </dev/null)"; then
        printf '%s\n' "$output" >&2
        failed+=("$name")
    fi
}

check "ruff check" "$venv_python" -m ruff check .
check "ruff format" "$venv_python" -m ruff format --check .
check "mypy" "$venv_python" -m mypy --no-error-summary
check "mkdocs" "$venv_python" -m mkdocs build --quiet --strict
say "pytest"
"$venv_python" -m pytest "${pytest_arguments[@]}" || failed+=("pytest")

if ((${#failed[@]})); then
    printf -v names '%s, ' "${failed[@]}"
    die "failed: ${names%, }"
fi
say "all checks passed"
