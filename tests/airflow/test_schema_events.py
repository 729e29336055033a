"""An event of `strata://SOURCE/schema` for each schema version, once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from strata.jobs import ingest
from tests.airflow.pipeline import make_account

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.slow]


def told(pipeline):
    """The versions of the events, and their statements."""
    with closing(sqlite3.connect(pipeline.state.airflow_home / "airflow.db", timeout=30)) as database:
        rows = database.execute(
            "SELECT e.extra FROM asset_event e JOIN asset a ON a.id = e.asset_id WHERE a.uri = 'strata://shop/schema'"
        ).fetchall()
    found = [json.loads(extra) for (extra,) in rows]
    return sorted((one["version"], one["statement"]) for one in found)


def test_each_version_is_told_of_once_also_those_of_a_task_that_died(source_server, make_pipeline):
    pipeline = make_pipeline(make_account(source_server))
    source_server.run_sql(
        "RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS strata; DROP DATABASE IF EXISTS shop;"
        "CREATE DATABASE shop; USE shop; CREATE TABLE t (a INT); ALTER TABLE t ADD b INT"
    )
    pipeline.ingest()
    first = told(pipeline)
    assert [text for _, text in first[-2:]] == ["CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT"]
    source_server.run_sql("ALTER TABLE t ADD c INT", "shop")
    # A task that was killed when the versions were stored: nobody was told.
    ingest.land("shop", settings=pipeline.settings)
    ingest.track("shop", settings=pipeline.settings)
    source_server.run_sql("ALTER TABLE t ADD d INT", "shop")
    pipeline.ingest()
    second = told(pipeline)
    assert second[: len(first)] == first
    assert [text for _, text in second[len(first) :]] == ["ALTER TABLE t ADD c INT", "ALTER TABLE t ADD d INT"]
    assert len({version for version, _ in second}) == len(second)
