#!/usr/bin/env bash
# Builds the driver mysqlclient under a folder, which has no wheels: against a client library that is unpacked beside it,
# without root and without touching the system. One test asks it for tokens.
#
# usage: install_mysqlclient.sh PREFIX
set -euo pipefail

wanted=$(realpath -m "${1:?usage: install_mysqlclient.sh PREFIX}")
[ -d "$wanted/python/MySQLdb" ] && exit 0

die() {
    printf 'mysqlclient: %s\n' "$*" >&2
    exit 3
}
command -v cc >/dev/null || die "there is no compiler (cc)"
. "$(dirname "${BASH_SOURCE[0]}")/unpack_packages.sh"
begin_unpacking mysqlclient "$wanted"
# Its own dependencies (TLS, zlib) are those of the machine's Python.
(cd "$building/debs" && apt-get "${apt[@]}" -qq download libmariadb3 libmariadb-dev) || die "a package could not be fetched"
for deb in "$building"/debs/*.deb; do dpkg -x "$deb" "$building"; done
# Without the cache, where a build against another folder may lie.
libraries="usr/lib/$(uname -m)-linux-gnu"
MYSQLCLIENT_CFLAGS="-I$building/usr/include/mariadb" \
    MYSQLCLIENT_LDFLAGS="-L$building/$libraries -lmariadb -Wl,-rpath,$prefix/$libraries" \
    .venv/bin/pip install -qq --disable-pip-version-check --require-hashes --no-deps --no-binary :all: --no-cache-dir \
    --target "$building/python" -r scripts/mysqlclient.txt || die "it could not be built"
finish_unpacking
echo "mysqlclient: $(ls "$prefix/python" | grep -m 1 dist-info)"
