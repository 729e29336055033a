#!/usr/bin/env bash
# Puts a private MySQL server and its clients under a folder, without root and without touching the system.
#
# usage: install_mysql.sh PREFIX
#
# Nothing is done where PATH has MySQL 8.0 or newer (MariaDB is another server). Debian carries no MySQL server, its sid
# suite does, built against a newer libc; Ubuntu's archive has one. The packages are unpacked, not installed, and each
# program runs through the prefix' own loader: see the wrappers in PREFIX/bin.
set -euo pipefail

prefix=$(realpath -m "${1:?usage: install_mysql.sh PREFIX}")
[ -x "$prefix/bin/mysqld" ] && exit 0
if version=$(mysqld --no-defaults --version 2>/dev/null) && [[ "$version" != *MariaDB* ]] &&
    [[ "$version" =~ Ver\ ([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge 8 ]; then
    exit 0
fi

die() {
    printf 'mysql: %s\nmysql: %s\n' "$*" \
        "put a MySQL 8.0 or newer on PATH, or name a server in STRATA_DEMO_MYSQL_URL=mysql://user:password@host:port/" >&2
    exit 3
}
. "$(dirname "${BASH_SOURCE[0]}")/unpack_packages.sh"
begin_unpacking mysql "$prefix" sid
# Debian names the package without a version, Ubuntu with one.
server=$(apt_knows '^mysql-server-core(-[0-9.]+)?$')
[ -n "$server" ] || die "apt knows no mysql-server-core package"
unpack "$server" "${server/server/client}"

for program in mysqld mysql mysqlbinlog mysqldump mysqladmin; do
    wrap "$program" <<'WRAPPER'
libraries="$prefix/usr/lib/$triplet"
binary="$prefix/usr/bin/$program"
own=()
if [ "$program" = mysqld ]; then
    binary="$prefix/usr/sbin/mysqld"
    own=("--basedir=$prefix/usr" "--lc-messages-dir=$prefix/usr/share/mysql"
        "--character-sets-dir=$prefix/usr/share/mysql/charsets" "--plugin-dir=$prefix/usr/lib/mysql/plugin")
elif [ "$program" != mysqladmin ]; then
    own=("--character-sets-dir=$prefix/usr/share/mysql/charsets")
fi
# An option for defaults must come first, or the program refuses it.
defaults=()
if [[ "${1:-}" == --no-defaults || "${1:-}" == --defaults* ]]; then defaults=("$1"); shift; fi
exec "$libraries"/ld-linux-*.so.* --library-path "$libraries" "$binary" "${defaults[@]}" "${own[@]}" "$@"
WRAPPER
done
"$building/bin/mysqld" --no-defaults --version >/dev/null || die "the unpacked mysqld does not run on this machine"
finish_unpacking
echo "mysql: $("$prefix/bin/mysqld" --no-defaults --version | sed 's/.*Ver/version/')"
