#!/usr/bin/env bash
# Sourced by the scripts that put a Debian or Ubuntu package under a folder, without root and without touching the system:
# packages are unpacked, not installed, and their programs run through the loader that came with them.
#
# begin_unpacking NAME PREFIX [SUITE]; then apt_knows and unpack; then wrap; then finish_unpacking. The caller has `die`.
set -euo pipefail

# Makes a folder beside the prefix with package lists of its own; SUITE replaces that of the machine's sources on Debian.
begin_unpacking() {
    local architecture mirror
    label=$1 prefix=$2 building="$2.building"
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "no apt to fetch packages with"
    rm -rf "$building" "$prefix"
    trap 'rm -rf "$building"' EXIT
    mkdir -p "$building"/{lists/partial,cache/archives/partial,debs,bin}
    : >"$building/status"
    architecture=$(dpkg --print-architecture)
    apt=(-o "Dir::State::Lists=$building/lists" -o "Dir::State::status=$building/status" -o "Dir::Cache=$building/cache"
        -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o "APT::Sandbox::User="
        -o "Acquire::Retries=3" -o "Debug::NoLocking=1")
    if [ -n "${3:-}" ] && grep -qE '^ID=debian' /etc/os-release; then
        # apt's own sources, with the suite replaced: whichever mirror this machine uses is the one that is asked.
        mirror=$(find /etc/apt -maxdepth 2 -type f \( -name '*.list' -o -name '*.sources' \) -exec cat {} + |
            grep -E '^(deb |URIs:)' | grep -v security | grep -oE '(https?|file|mirror\+file):[^ ]+' | head -n 1) ||
            die "apt has no source to fetch packages from"
        printf 'deb [signed-by=%s] %s %s main\n' /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$3" \
            >"$building/sources.list"
        apt+=(-o "Dir::Etc::SourceList=$building/sources.list" -o "Dir::Etc::SourceParts=/dev/null"
            -o "Dir::Etc::PreferencesParts=/dev/null" -o "Dir::Etc::Preferences=/dev/null")
    fi
    echo "$label: reading the package list"
    apt-get "${apt[@]}" -qq update || die "apt could not read the package list"
}

# The newest package whose name matches; nothing if there is none.
apt_knows() {
    apt-cache "${apt[@]}" search --names-only "$1" | cut -d ' ' -f 1 | sort -V | tail -n 1
}

# Packages with all that they depend on.
unpack() {
    local packages deb
    mapfile -t packages < <(apt-cache "${apt[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts \
        --no-breaks --no-replaces --no-enhances "$@" | grep -E '^[a-z0-9]' | grep -v perl | sort -u)
    echo "$label: fetching ${#packages[@]} packages"
    (cd "$building/debs" && apt-get "${apt[@]}" -qq download "${packages[@]}") || die "a package could not be fetched"
    for deb in "$building"/debs/*.deb; do dpkg -x "$deb" "$building"; done
}

# Makes the program NAME of the prefix, which runs an unpacked program with the libraries it was built against: by what is
# read from standard input, which knows `prefix`, `program` and `triplet` (where libraries are). It starts no other
# program: tests call these programs thousands of times.
wrap() {
    {
        cat <<'HEAD'
#!/usr/bin/env bash
# Runs the unpacked program with the libraries it was built against.
case "${BASH_SOURCE[0]}" in
/*) prefix=${BASH_SOURCE[0]%/*/*} ;;
*) prefix=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) ;;
esac
program=${BASH_SOURCE[0]##*/} triplet=$HOSTTYPE-linux-gnu
HEAD
        cat
    } >"$building/bin/$1"
    chmod +x "$building/bin/$1"
}

finish_unpacking() {
    rm -rf "$building"/{lists,cache,debs,status,sources.list}
    mv "$building" "$prefix"
}
