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
command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "no mysqld on PATH, and no apt to fetch one with"

building="$prefix.building"
rm -rf "$building" "$prefix"
trap 'rm -rf "$building"' EXIT
mkdir -p "$building"/{lists/partial,cache/archives/partial,debs,bin}
: >"$building/status"
architecture=$(dpkg --print-architecture)
apt=(-o "Dir::State::Lists=$building/lists" -o "Dir::State::status=$building/status" -o "Dir::Cache=$building/cache"
    -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o "APT::Sandbox::User="
    -o "Acquire::Retries=3" -o "Debug::NoLocking=1")
if grep -qE '^ID=debian' /etc/os-release; then
    # apt's own sources, with the suite replaced: whichever mirror this machine uses is the one that is asked.
    mirror=$(find /etc/apt -maxdepth 2 -type f \( -name '*.list' -o -name '*.sources' \) -exec cat {} + |
        grep -E '^(deb |URIs:)' | grep -v security | grep -oE '(https?|file|mirror\+file):[^ ]+' | head -n 1) ||
        die "apt has no source to fetch packages from"
    printf 'deb [signed-by=%s] %s sid main\n' /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" >"$building/sources.list"
    apt+=(-o "Dir::Etc::SourceList=$building/sources.list" -o "Dir::Etc::SourceParts=/dev/null"
        -o "Dir::Etc::PreferencesParts=/dev/null" -o "Dir::Etc::Preferences=/dev/null")
fi
echo "mysql: reading the package list"
apt-get "${apt[@]}" -qq update || die "apt could not read the package list"
# Debian names the package without a version, Ubuntu with one.
server=$(apt-cache "${apt[@]}" search --names-only '^mysql-server-core(-[0-9.]+)?$' | cut -d ' ' -f 1 | sort -V | tail -n 1)
[ -n "$server" ] || die "apt knows no mysql-server-core package"
mapfile -t packages < <(apt-cache "${apt[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$server" "${server/server/client}" | grep -E '^[a-z0-9]' | grep -v perl | sort -u)
echo "mysql: fetching ${#packages[@]} packages"
(cd "$building/debs" && apt-get "${apt[@]}" -qq download "${packages[@]}") || die "a package could not be fetched"
for deb in "$building"/debs/*.deb; do dpkg -x "$deb" "$building"; done

for program in mysqld mysql mysqlbinlog mysqldump mysqladmin; do
    cat >"$building/bin/$program" <<'WRAPPER'
#!/usr/bin/env bash
# Runs the unpacked program with the libraries it was built against.
prefix=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$(basename "${BASH_SOURCE[0]}")
libraries="$prefix/usr/lib/$(uname -m)-linux-gnu"
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
    chmod +x "$building/bin/$program"
done
"$building/bin/mysqld" --no-defaults --version >/dev/null || die "the unpacked mysqld does not run on this machine"
rm -rf "$building"/{lists,cache,debs,status,sources.list}
mv "$building" "$prefix"
echo "mysql: $("$prefix/bin/mysqld" --no-defaults --version | sed 's/.*Ver/version/')"
