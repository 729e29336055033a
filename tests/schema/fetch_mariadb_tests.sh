#!/usr/bin/env bash
# Puts the test suite of the newest MariaDB under a folder, for mariadb_corpus.py.
#
# usage: fetch_mariadb_tests.sh FOLDER
set -euo pipefail

prefix=$(realpath -m "${1:?usage: fetch_mariadb_tests.sh FOLDER}")

die() {
    printf 'mariadb tests: %s\n' "$*" >&2
    exit 3
}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/unpack_packages.sh"
begin_unpacking 'mariadb tests' "$prefix" sid
unpack mariadb-test-data
finish_unpacking
echo "mariadb tests: in $prefix/usr/share/mariadb/mariadb-test"
