#!/bin/sh
# Installs the programs that the benchmark compares with rexd: OpenSSH, rsync, ripgrep, Codex and SWE-ReX.
# Idempotent; installed programs are left unchanged. Everything except Debian packages is installed in .bench/.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
place="${BENCH_HOME:-$here/.bench}"
codex_version="${CODEX_VERSION:-0.166.0}"
swerex_version="${SWEREX_VERSION:-1.4.0}"
mkdir -p "$place"

say() { printf 'bench setup: %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

debian_packages() {
    missing=""
    [ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
    [ -x /usr/lib/openssh/sftp-server ] || missing="$missing openssh-sftp-server"
    command -v ssh >/dev/null || missing="$missing openssh-client"
    command -v rg >/dev/null || missing="$missing ripgrep"
    command -v rsync >/dev/null || missing="$missing rsync"
    command -v npm >/dev/null || missing="$missing npm"
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3 python3-venv"
    if [ -z "$missing" ]; then say "Debian packages: present"; return; fi
    say "Debian packages: installing$missing"
    install_packages $missing || { as_root apt-get -qq update && install_packages $missing; }
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "$@" >"$place/apt.log" 2>&1 || return 1
}

codex() {
    if [ -x "$place/npm/node_modules/.bin/codex" ] &&
        grep -q "\"version\": \"$codex_version\"" "$place/npm/node_modules/@openai/codex/package.json"; then
        say "Codex $codex_version: present"; return
    fi
    say "Codex $codex_version: installing"
    mkdir -p "$place/npm"
    npm install --prefix "$place/npm" --no-audit --no-fund --loglevel=error \
        "@openai/codex@$codex_version" >"$place/npm.log" 2>&1 || { cat "$place/npm.log" >&2; return 1; }
}

swerex() {
    if [ -x "$place/venv/bin/swerex-remote" ] &&
        "$place/venv/bin/python" -c "import importlib.metadata as m, sys; sys.exit(m.version('swe-rex') != '$swerex_version')"; then
        say "SWE-ReX $swerex_version: present"; return
    fi
    say "SWE-ReX $swerex_version: installing"
    python=/usr/bin/python3
    "$python" -c 'import ensurepip' 2>/dev/null || python=python3
    "$python" -m venv "$place/venv"
    "$place/venv/bin/pip" install --quiet --disable-pip-version-check "swe-rex==$swerex_version" \
        >"$place/pip.log" 2>&1 || { cat "$place/pip.log" >&2; return 1; }
}

debian_packages
codex
swerex
say "done: $place"
