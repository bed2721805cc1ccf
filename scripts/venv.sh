# Sourced by demo.sh and test.sh: decides which interpreter is used and when `.venv` must be made or installed into.
# Knows nothing of what runs afterwards.
#
# Three files tell the state of `.venv`:
#   .venv/.fedap-installing  exists while pip works; found at the start, it means that the last install was cut
#                            short, and the environment is made anew
#   .venv/.fedap-stamp       written last: a hash of what was installed, then the extras that are in
#   .venv/.fedap-pip.log     pip's own words, shown when it fails

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$root/.venv"
venv_python="$venv/bin/python"
_stamp="$venv/.fedap-stamp"
_installing="$venv/.fedap-installing"
_pip_log="$venv/.fedap-pip.log"
_ticker=""

say() { printf 'fedap: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# Prints nothing when the interpreter $1 will do, otherwise the reason why not. The probe must run on any Python.
_why_not() {
    local answer
    answer="$("$1" -c '
import sys
series = "%d.%d" % sys.version_info[:2]
if sys.version_info < (3, 11):
    print("is Python " + series + ", and 3.11 or newer is needed")
else:
    try:
        import ensurepip, venv
    except ImportError:
        print("has no venv module; on Debian and Ubuntu: apt install python" + series + "-venv")
' 2>/dev/null </dev/null)" || answer="does not run"
    [[ -z "$answer" ]] || echo "$1 $answer"
}

# Prints the interpreter to build with: $PYTHON when set, otherwise the first on the PATH that will do.
_interpreter() {
    local reason first_reason="" candidate
    if [[ -n "${PYTHON:-}" ]]; then
        reason="$(_why_not "$PYTHON")"
        [[ -z "$reason" ]] || die "PYTHON=$reason."
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
        command -v "$candidate" >/dev/null || continue
        reason="$(_why_not "$candidate")"
        if [[ -z "$reason" ]]; then
            echo "$candidate"
            return
        fi
        first_reason="${first_reason:-$reason}"
    done
    die "${first_reason:-no python3 on the PATH}. Install Python 3.11 or newer, or name one: PYTHON=/path/to/python3.11 $0"
}

# Succeeds when .venv/bin/python really lives in .venv. Without its pyvenv.cfg the same link runs as the interpreter it
# was made from, and pip would then install into that one, for everybody on the machine.
_lives_in_venv() {
    "$venv_python" -I -c '
import os, sys
sys.exit(sys.prefix == sys.base_prefix or not os.path.samefile(sys.prefix, sys.argv[1]))' "$venv" 2>/dev/null </dev/null
}

# Succeeds when `.venv` can be used or installed into; otherwise says in $_rebuild_reason why it is made anew.
_venv_usable() {
    _rebuild_reason=""
    [[ -e "$venv" || -L "$venv" ]] || return 1
    if [[ -e "$_installing" ]]; then
        _rebuild_reason="the last installation was cut short"
    elif [[ -n "$(_why_not "$venv_python")" ]]; then
        _rebuild_reason="its interpreter has gone or is too old"
    elif ! _lives_in_venv; then
        _rebuild_reason="it is not whole"
    elif [[ -n "${PYTHON:-}" && "$(_series "$PYTHON")" != "$(_series "$venv_python")" ]]; then
        _rebuild_reason="PYTHON asks for another version of Python"
    else
        return 0
    fi
    return 1
}

_series() { "$1" -I -c 'import sys; print(sys.version_info[:2])' </dev/null; }

# The hash changes with the dependencies, the place of the repository and the interpreter.
_wanted_hash() {
    "$venv_python" -I -c '
import hashlib, pathlib, sys
parts = (pathlib.Path(sys.argv[1], "pyproject.toml").read_bytes(), sys.argv[1].encode(), sys.version.encode())
print(hashlib.sha256(b"\0".join(parts)).hexdigest())' "$root" </dev/null
}

# On a terminal: one line, rewritten every second, with the time gone by and what pip is doing.
_start_ticker() {
    [[ -t 2 ]] || return 0
    (
        trap 'exit 0' TERM
        begin=$SECONDS
        while kill -0 $$ 2>/dev/null; do
            doing="$(tail -n 1 "$_pip_log" 2>/dev/null | tr -cd '[:print:]' | sed 's/^ *//' | cut -c 1-60)"
            printf '\r\033[K  %ds  %s' $((SECONDS - begin)) "$doing" >&2
            sleep 1
        done
    ) &
    _ticker=$!
}

_stop_ticker() {
    [[ -n "$_ticker" ]] || return 0
    kill "$_ticker" 2>/dev/null
    wait "$_ticker" 2>/dev/null
    _ticker=""
    printf '\r\033[K' >&2
}

# _install EXTRAS WORKED_BEFORE: pip in the foreground, so that Ctrl-C reaches it.
_install() {
    local target="$root" interrupted=0 code=0
    [[ -z "$1" ]] || target="$root[$1]"
    _lives_in_venv || die "$venv is not an environment of its own; nothing was installed. Remove it and call again"
    export PIP_REQUIRE_VIRTUALENV=1  # pip's own guard against the same mistake
    : >"$_installing"
    : >"$_pip_log"
    trap 'interrupted=1' INT TERM
    _start_ticker
    "$venv_python" -m pip --version >/dev/null 2>&1 </dev/null ||  # some tools make environments without pip
        "$venv_python" -m ensurepip >"$_pip_log" 2>&1 </dev/null
    "$venv_python" -m pip install --disable-pip-version-check --no-input --progress-bar off -e "$target" \
        >>"$_pip_log" 2>&1 </dev/null || code=$?
    _stop_ticker
    trap - INT TERM
    if ((interrupted)); then
        say "interrupted; the next call starts the installation again"
        exit 130
    elif ((code)); then
        cat "$_pip_log" >&2
        # Without a network pip stops before it changes anything: an environment that worked goes on working.
        [[ -z "$2" ]] || rm -f "$_installing"
        die "pip could not install the project (exit code $code; its output is above)"
    fi
}

# ensure_venv [EXTRA]: afterwards $venv_python runs with the project, and the extra, installed.
ensure_venv() {
    local extra="${1:-}" interpreter have_hash="" have_extras="" want extras begin=$SECONDS
    if command -v flock >/dev/null; then  # two calls at once: the second waits instead of installing into the same place
        exec 9<"$root/scripts/venv.sh"
        flock -n 9 || { say "waiting for another call that is installing" && flock 9; }
    fi
    if ! _venv_usable; then
        interpreter="$(_interpreter)" || exit 1
        say "making .venv with $interpreter${_rebuild_reason:+ anew: $_rebuild_reason}"
        # The marker comes first and outlives the clearing: a kill in between must not leave what looks whole.
        [[ -d "$venv" ]] || rm -f "$venv"
        mkdir -p "$venv" && : >"$_installing" || die "cannot write to $venv"
        rm -f "$_stamp"
        find "$venv/" -mindepth 1 -maxdepth 1 ! -name "${_installing##*/}" -exec rm -rf {} +
        "$interpreter" -m venv "$venv" </dev/null || die "$interpreter could not make $venv (its output is above)"
    elif [[ -f "$_stamp" ]]; then
        { read -r have_hash && read -r have_extras; } <"$_stamp" || true
    fi
    want="$(_wanted_hash)" || die "cannot read $root/pyproject.toml"
    extras="$have_extras"
    [[ "$extra" != all || ",$extras," != *",test,"* ]] || extra=""  # test brings all
    [[ -z "$extra" || ",$extras," == *",$extra,"* ]] || extras="${extras:+$extras,}$extra"
    if [[ "$want" != "$have_hash" || "$extras" != "$have_extras" ]]; then
        if [[ "$want" == "$have_hash" ]]; then
            say "installing what the $extra extra adds"
        else
            say "installing the project and its libraries into .venv (minutes the first time)"
        fi
        _install "$extras" "$have_hash"
        printf '%s\n%s\n' "$want" "$extras" >"$_stamp.new"
        mv "$_stamp.new" "$_stamp"
        rm -f "$_installing"
        say "installed in $((SECONDS - begin)) s"
    fi
    if command -v flock >/dev/null; then
        exec 9<&-
    fi
}
