#!/usr/bin/env bash
# Puts the test suite of the newest MySQL or MariaDB under a folder, for server_suites.py.
#
# usage: fetch_server_suite.sh mysql|mariadb FOLDER
set -euo pipefail

family=${1:?usage: fetch_server_suite.sh mysql|mariadb FOLDER}
prefix=$(realpath -m "${2:?usage: fetch_server_suite.sh mysql|mariadb FOLDER}")

die() {
    printf '%s tests: %s\n' "$family" "$*" >&2
    exit 3
}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/unpack_packages.sh"
begin_unpacking "$family tests" "$prefix" sid
case $family in
mysql) unpack mysql-testsuite ;;
mariadb) unpack mariadb-test-data ;;
*) die "the family is mysql or mariadb, not $family" ;;
esac
finish_unpacking
echo "$family tests: in $prefix"
