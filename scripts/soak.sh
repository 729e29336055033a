#!/usr/bin/env bash
# What takes long or draws by lot: tests marked `soak` (an Airflow whose parts are killed, Spark on clusters, the wheel
# from nothing and in older Airflows, older servers), JSON that a server makes, kills of landings and of works on
# mirrors, random lives of mirrored tables, hops between servers, ten servers that are killed and whose clocks are set,
# caches among foreign traffic and before a replica that lags, storms at whose end everything equals everything,
# queries, histories and undo of random changes, a dump under load, the model of schema states, new examples of all
# properties, random DDL on a real server and what it makes of rows.
#
# usage: soak.sh MINUTES
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python
"$python" -m pytest -q -m soak
STRATA_KILLS=50 "$python" -m pytest -q tests/landing/test_landing.py tests/landing/test_landing_by_file.py \
    -k killed_and_resumed_many
STRATA_KILLS=2 "$python" -m pytest -q tests/landing/test_landing.py -k s3
STRATA_S3=swift "$python" -m pytest -q tests/landing tests/past/test_versions.py -k s3
STRATA_HISTORIES=40 "$python" -m pytest -q tests/landing/test_went_back.py tests/cli/test_other_lake.py
STRATA_JSON_DOCUMENTS=5000 "$python" -m pytest -q tests/changes/test_random_json.py
STRATA_MIRROR_KILLS=50 "$python" -m pytest -q tests/mirrors/test_mirror_kills.py
STRATA_HOPS=12 "$python" -m pytest -q tests/groups/test_random_switchovers.py
STRATA_CUTS=40 "$python" -m pytest -q tests/groups/test_cut_clocks.py
STRATA_ROUGH=60 "$python" -m pytest -q tests/groups/test_rough_life.py
STRATA_MIRROR_LIVES=25 "$python" -m pytest -q tests/mirrors/test_random_lives.py tests/mirrors/test_partitions.py \
    tests/mirrors/test_older_tables.py
STRATA_MIRROR_LIVES=8 "$python" -m pytest -q tests/mirrors/test_exact_lives.py
STRATA_SEEDS=20 "$python" -m pytest -q tests/tokens/test_snapshots.py tests/cache/test_keys.py \
    tests/cache/test_foreign_traffic.py tests/cache/test_lagging_replica.py
STRATA_MIRROR_LIVES=12 "$python" -m pytest -q tests/mirrors/test_readers_behind_ddl.py
STRATA_VIEW_LIVES=12 "$python" -m pytest -q tests/views/test_view_laws.py
STRATA_VIEW_LIVES=6 "$python" -m pytest -q tests/views/test_changing_keys.py tests/views/test_mariadb_views.py
STRATA_SEEDS=10 "$python" -m pytest -q tests/storm
STRATA_SEEDS=10 "$python" -m pytest -q tests/past/test_random_queries.py tests/past/test_random_rows.py \
    tests/past/test_random_versions.py tests/past/undo/test_random_undo.py tests/past/undo/test_random_schema_undo.py
STRATA_SEEDS=1 "$python" -m pytest -q tests/past/undo
STRATA_SEEDS=3 STRATA_PAST_SPARK=1000 "$python" -m pytest -q tests/past/test_engines.py
STRATA_LOAD=20 "$python" -m pytest -q tests/mirrors/test_dump_load.py
STRATA_DUMPS_BESIDE_RENAMES=60 STRATA_DUMPS_UNNUMBERED=20 STRATA_ODD_TABLES=5 "$python" -m pytest -q \
    tests/mirrors/test_dump_beside_renames.py tests/mirrors/test_dump_unnumbered.py tests/quality/test_odd_tables.py
STRATA_MODEL_STEPS=100000 "$python" -m pytest -q tests/model
"$python" -m tests.properties --minutes "$(awk "BEGIN { print $1 / 3 }")"
"$python" -m tests.tables.test_effects_on_server --minutes "$(awk "BEGIN { print $1 / 3 }")"
"$python" -m tests.schema.soak --minutes "$(awk "BEGIN { print $1 / 3 }")"
