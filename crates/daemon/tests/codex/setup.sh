#!/bin/sh
# Installs the released Codex programs that the tests of `rexd exec-server` use as real clients and as servers to compare
# with, and links the native program of each to codex-VERSION. Idempotent; everything goes below the target directory.
set -eu

here=$(cd "$(dirname "$0")/../../../.." && pwd)
place="${CARGO_TARGET_DIR:-$here/target}/codex-clients"
versions="0.131.0 0.166.0"
mkdir -p "$place/npm"

[ -f "$place/done" ] && [ "$(cat "$place/done")" = "$versions" ] && exit

packages=""
for version in $versions; do packages="$packages codex-$version@npm:@openai/codex@$version"; done
echo "installing$packages"
[ -f "$place/npm/package.json" ] || echo '{"private":true}' >"$place/npm/package.json"
# Not with --prefix: npm would look for the machine's own settings below it, and find none.
(cd "$place/npm" && npm install --no-audit --no-fund --loglevel=error $packages) >"$place/npm.log" 2>&1 ||
    { cat "$place/npm.log" >&2; exit 1; }

# The package for this kind of machine lies beside its version or, for one of them, a level higher.
for version in $versions; do
    program=""
    for found in "$place/npm/node_modules/codex-$version/node_modules/@openai" "$place/npm/node_modules/@openai"; do
        [ -n "$program" ] || program=$(find "$found" -type f -name codex -path '*/vendor/*' 2>/dev/null | head -n 1)
    done
    [ -n "$program" ] || { echo "no program in codex $version: see $place/npm.log" >&2; exit 1; }
    ln -sfn "$program" "$place/codex-$version"
    "$place/codex-$version" --version | grep -qF "$version" || { echo "$program is not $version" >&2; exit 1; }
done
printf %s "$versions" >"$place/done"
