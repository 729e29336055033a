#!/usr/bin/env bash
# Puts a private MariaDB server and its clients under a folder, as install_mysql.sh does MySQL; the tests start it.
#
# usage: install_mariadb.sh PREFIX SUITE
#
# SUITE is the suite of Debian whose packages are unpacked: sid has the newest long-term release, bookworm has 10.11.
set -euo pipefail

usage='usage: install_mariadb.sh PREFIX SUITE'
prefix=$(realpath -m "${1:?$usage}")
suite=${2:?$usage}
# mariadb-binlog and mariadb-dump came later than the rest.
[ -x "$prefix/bin/mariadbd" ] && [ -x "$prefix/usr/bin/mariadb-binlog" ] && exit 0

die() {
    printf 'mariadb: %s\n' "$*" >&2
    exit 3
}
. "$(dirname "${BASH_SOURCE[0]}")/unpack_packages.sh"
begin_unpacking mariadb "$prefix" "$suite"
unpack mariadb-server-core mariadb-client-core mariadb-client

for program in mariadbd mariadb mariadb-binlog mariadb-dump; do
    wrap "$program" <<'WRAPPER'
libraries="$prefix/usr/lib/$triplet:$prefix/lib/$triplet"
for loader in "$prefix"/{usr/lib,lib,lib64}{,/*}/ld-linux-*.so.*; do [ -e "$loader" ] && break; done
binary="$prefix/usr/bin/$program"
for share in "$prefix"/usr/share/*/charsets; do share=${share%/*}; done
own=("--character-sets-dir=$share/charsets")
if [ "$program" = mariadbd ]; then
    binary="$prefix/usr/sbin/mariadbd"
    own+=("--basedir=$prefix/usr" "--lc-messages-dir=$share" "--plugin-dir=$prefix/usr/lib/mysql/plugin")
fi
# An option for defaults must come first, or the program refuses it.
defaults=()
if [[ "${1:-}" == --no-defaults || "${1:-}" == --defaults* ]]; then defaults=("$1"); shift; fi
exec "$loader" --library-path "$libraries" "$binary" "${defaults[@]}" "${own[@]}" "$@"
WRAPPER
done
"$building/bin/mariadbd" --no-defaults --version >/dev/null || die "the unpacked mariadbd does not run on this machine"
finish_unpacking
echo "mariadb: $("$prefix/bin/mariadbd" --no-defaults --version | sed -E 's/.*Ver ([^ ]+) .*/version \1/')"
