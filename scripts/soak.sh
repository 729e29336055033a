#!/usr/bin/env bash
# What takes long or draws by lot: kills of landings, a group of three servers, new examples of all properties, random
# DDL on a real server and what it makes of rows.
#
# usage: soak.sh MINUTES
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python
STRATA_KILLS=50 "$python" -m pytest -q tests/wire/test_landing.py tests/wire/test_landing_by_file.py \
    -k killed_and_resumed_many
STRATA_SOAK=1 "$python" -m pytest -q tests/wire/test_group.py
"$python" -m tests.properties --minutes "$(awk "BEGIN { print $1 / 3 }")"
"$python" -m tests.tables.test_effects_on_server --minutes "$(awk "BEGIN { print $1 / 3 }")"
"$python" -m tests.schema.soak --minutes "$(awk "BEGIN { print $1 / 3 }")"
