# Sourced by test.sh after venv.sh: sees to a Chromium for the tests that look at the report's page. Never fails: without
# one those tests skip, and say so.

_has_browser() {
    local name
    for name in chromium chromium-browser google-chrome chrome; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

_apt() { DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq -o Acquire::Retries=1 "$@" </dev/null; }

# ensure_browser: installs Debian's chromium where that is possible and nobody has to be asked.
ensure_browser() {
    local output
    _has_browser && return 0
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        say "no Chromium: the tests of the report's page skip"
        return 0
    fi
    say "installing Chromium for the tests of the report's page"
    if ! output="$({ _apt update && _apt install -y --no-install-recommends chromium; } 2>&1)" || ! _has_browser; then
        printf '%s\n' "$output" | tail -n 3 >&2
        say "Chromium could not be installed: the tests of the report's page skip"
    fi
}
