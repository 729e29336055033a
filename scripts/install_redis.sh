#!/usr/bin/env bash
# Puts a private Redis or Valkey server under a folder, as install_mysql.sh does MySQL; the tests of caches start it.
#
# usage: install_redis.sh PREFIX redis|valkey
#
# Nothing is done where PATH has that server in version 7 or newer. Debian's stable suites have no Valkey, its sid has.
set -euo pipefail

usage='usage: install_redis.sh PREFIX redis|valkey'
wanted=$(realpath -m "${1:?$usage}")
kind=${2:?$usage}
[ -x "$wanted/bin/$kind-server" ] && exit 0
if version=$("$kind-server" --version 2>/dev/null) && [[ "$version" =~ v=([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge 7 ]; then
    exit 0
fi

die() {
    printf '%s: %s\n%s: %s\n' "$kind" "$*" "$kind" "put a $kind-server of version 7 or newer on PATH" >&2
    exit 3
}
. "$(dirname "${BASH_SOURCE[0]}")/unpack_packages.sh"
suite=
[ "$kind" = redis ] || suite=sid
begin_unpacking "$kind" "$wanted" "$suite"
[ -n "$(apt_knows "^$kind-server\$")" ] || die "apt knows no $kind-server"
# The program itself is in the tools; the server's package has what starts it with the system.
unpack "$kind-tools"
# Of what it depends on, only libraries are of use here.
rm -rf "$building"/{bin,sbin,etc,var,usr/sbin,usr/share}
mkdir "$building/bin"
find "$building/usr/bin" -mindepth 1 ! -name "$kind-*" -delete
# The server is the same file as its tools.
wrap "$kind-server" <<'WRAPPER'
libraries="$prefix/usr/lib/$triplet:$prefix/lib/$triplet"
for loader in "$prefix"/{usr/lib,lib}{,/*}/ld-linux-*.so.*; do [ -e "$loader" ] && break; done
exec "$loader" --argv0 "$program" --library-path "$libraries" "$prefix/usr/bin/${program%-server}-check-rdb" "$@"
WRAPPER
"$building/bin/$kind-server" --version >/dev/null || die "the unpacked $kind-server does not run on this machine"
finish_unpacking
echo "$kind: $("$prefix/bin/$kind-server" --version | sed -E 's/.* (v=[^ ]+).*/\1/')"
