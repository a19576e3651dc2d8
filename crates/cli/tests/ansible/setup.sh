#!/bin/sh
# Installs the Ansible that the tests of `rex exec` use as a program over ssh. Idempotent; everything goes below the target directory.
set -eu

here=$(cd "$(dirname "$0")/../../../.." && pwd)
place="${CARGO_TARGET_DIR:-$here/target}/ansible"
package="ansible-core==2.19.14"
mkdir -p "$place"

[ -f "$place/done" ] && [ "$(cat "$place/done")" = "$package" ] && exit

echo "installing $package"
python3 -m venv --clear "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check "$package" >"$place/pip.log" 2>&1 ||
    { cat "$place/pip.log" >&2; exit 1; }
printf %s "$package" >"$place/done"
