#!/usr/bin/env bash
# Opens MySQL's client on the fleet's private server; arguments go to the client.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
state=$(realpath -m "${STRATA_STATE:-.strata}")
client=.strata/mysql/bin/mysql
[ -x "$client" ] || client=mysql
# The password goes through the environment: it must not stand in the list of processes.
MYSQL_PWD=$(.venv/bin/python -c 'import json, sys; print(json.load(open(sys.argv[1]))["mysql-root"])' "$state/secrets.json")
export MYSQL_PWD
exec "$client" --no-defaults --user=root "--socket=$state/server/s" "$@"
