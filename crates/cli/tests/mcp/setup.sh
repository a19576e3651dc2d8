#!/bin/sh
# Installs the MCP clients that the tests of `rex mcp` use: the official SDKs of Python and TypeScript (of the latter both
# generations), the official conformance suite, the inspector, and the programs whose configuration `rex mcp install` writes.
# Idempotent; everything goes below the target directory.
set -eu

here=$(cd "$(dirname "$0")/../../../.." && pwd)
place="${CARGO_TARGET_DIR:-$here/target}/mcp-clients"
python_sdk="mcp==2.3.0"
# The inspector needs a newer Node than Debian's: npm's package of that name brings one.
npm_packages="@modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/ext-tasks@0.2.2
@modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0 node@22.19.0
@openai/codex@0.166.0 @anthropic-ai/claude-code@2.1.325 opencode-ai@1.18.33"
mkdir -p "$place"

is_done() { [ -f "$place/$1.done" ] && [ "$(cat "$place/$1.done")" = "$2" ]; }

python() {
    is_done python "$python_sdk" && return
    echo "installing $python_sdk"
    python3 -m venv --clear "$place/venv"
    "$place/venv/bin/pip" install --quiet --disable-pip-version-check "$python_sdk" >"$place/pip.log" 2>&1 ||
        { cat "$place/pip.log" >&2; return 1; }
    printf %s "$python_sdk" >"$place/python.done"
}

node() {
    is_done node "$npm_packages" && return
    echo "installing" $npm_packages
    mkdir -p "$place/npm"
    [ -f "$place/npm/package.json" ] || echo '{"private":true,"type":"module"}' >"$place/npm/package.json"
    # Not with --prefix: npm would look for the machine's own settings below it, and find none.
    (cd "$place/npm" && npm install --no-audit --no-fund --loglevel=error $npm_packages) >"$place/npm.log" 2>&1 ||
        { cat "$place/npm.log" >&2; return 1; }
    printf %s "$npm_packages" >"$place/node.done"
}

python
node
