#!/usr/bin/env bash
# Everything that must hold before a change is handed in: lint, format, types, documentation, tests. Every check runs, even after
# another has failed; the exit code is 0 only when all passed. `--slow` runs the tests marked slow instead of the
# default ones; other arguments go to pytest (paths count from the repository). The default tests run file by file in one
# process more than there are cores, because some of them wait, and types and documentation are checked at the same time;
# `-n 0` runs the tests in one process. PYTHON=... chooses the interpreter.
set -uo pipefail
# shellcheck source=scripts/venv.sh
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh" || exit 1
# shellcheck source=scripts/browser.sh
source "$(dirname "${BASH_SOURCE[0]}")/browser.sh" || exit 1

pytest_arguments=(-n auto --dist loadfile --no-loadscope-reorder)
long_check=check_beside
for argument in "$@"; do
    case "$argument" in
        --slow)
            pytest_arguments+=(-m slow -n 0)  # some measure memory and speed
            long_check=check
            ;;
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

# Tests start hundreds of processes, and each would compile all modules again.
unset PYTHONDONTWRITEBYTECODE

failed=()
beside=()
outputs="$(mktemp -d)" || die "cannot make a folder for the output of the checks"
trap 'rm -rf "$outputs"' EXIT
trap 'say "interrupted"; ((${#beside[@]} == 0)) || kill "${beside[@]%% *}" 2>/dev/null; exit 130' INT

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

# check_beside NAME COMMAND...: the same, in the background until `wait_for_checks`.
check_beside() {
    local name="$1"
    shift
    say "$name, beside what follows"
    "$@" >"$outputs/$name" 2>&1 </dev/null &
    beside+=("$! $name")
}

wait_for_checks() {
    local one name
    for one in ${beside[@]+"${beside[@]}"}; do
        name="${one#* }"
        if ! wait "${one%% *}"; then
            say "$name failed:"
            cat "$outputs/$name" >&2
            failed+=("$name")
        fi
    done
}

check "ruff check" "$venv_python" -m ruff check .
check "ruff format" "$venv_python" -m ruff format --check .
"$long_check" "mypy" "$venv_python" -m mypy --no-error-summary
"$long_check" "mkdocs" "$venv_python" -m mkdocs build --strict
say "pytest"
"$venv_python" -m pytest "${pytest_arguments[@]}" || failed+=("pytest")
wait_for_checks

if ((${#failed[@]})); then
    printf -v names '%s, ' "${failed[@]}"
    die "failed: ${names%, }"
fi
say "all checks passed"
