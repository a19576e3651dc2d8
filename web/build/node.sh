#!/bin/sh
# Prints the PATH with which the web tools run. Where the machine's Node is older than they need, npm's package `node`
# brings one below the target directory.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
place="${CARGO_TARGET_DIR:-$root/target}/web-node"
# Vite needs 20.19 or 22.12.
package="node@22.19.0"

is_new() {
    node -e 'const [a, b] = process.versions.node.split(".").map(Number);
process.exit((a === 20 && b >= 19) || (a === 22 && b >= 12) || a > 22 ? 0 : 1)' 2>/dev/null
}

if ! is_new; then
    if [ ! -f "$place/done" ] || [ "$(cat "$place/done")" != "$package" ]; then
        mkdir -p "$place"
        [ -f "$place/package.json" ] || echo '{"private":true}' >"$place/package.json"
        (cd "$place" && npm install --no-audit --no-fund --loglevel=error "$package") >&2
        printf %s "$package" >"$place/done"
    fi
    PATH="$place/node_modules/node/bin:$PATH"
fi
printf '%s\n' "$PATH"
