"""What a bad server gets: a run that fails at once, reports what to run, and publishes nothing, beside a source that is
good. What a bad form gets, `test_live.py` has."""

from __future__ import annotations

import re

import pytest

from tests.airflow.pipeline import PASSWORD, make_account
from tests.mysql_server import start_server

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.slow, pytest.mark.soak]

REFUSED = {
    "wrong": "AccessDeniedError: the store at .* refuses the user: Access denied for user 'strata'",
    "poor": r"AccessDeniedError: .* REPLICATION SLAVE is missing \(source poor\)",
    "unnumbered": "SourceSettingsError: gtid_mode is not ON, .* Grant BACKUP_ADMIN",
    "statements": r"SourceSettingsError: .* \(source statements\)\. Run SET PERSIST binlog_format = ROW",
}
"""A wrong password, an account without the grants, a server without GTIDs whose DDL may not be kept out, one that logs
statements; and what the run reports of each."""


def test_bad_servers_beside_a_good_one_whose_binlog_is_then_purged(source_server, tmp_path_factory, make_pipeline):
    source_server.run_sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS strata")
    url, poor = make_account(source_server), make_account(source_server, "reader")
    source_server.run_sql("REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM reader@localhost")
    folder = tmp_path_factory.mktemp("refused")
    with (
        start_server(folder / "a", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF") as unnumbered,
        start_server(folder / "b", "--binlog-format=STATEMENT") as statements,
    ):
        statements.run_sql(
            "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT); INSERT INTO shop.orders VALUES (1)"
        )
        urls = {
            "wrong": url.replace(PASSWORD, f"wrong-{PASSWORD}"),
            "poor": poor,
            "unnumbered": make_account(unnumbered),
            "statements": make_account(statements),
        }
        pipeline = make_pipeline(url, **{f"AIRFLOW_CONN_{name.upper()}": its for name, its in urls.items()})
        settings = pipeline.state.settings_file
        sources = [f'[sources.{name}]\nconnection = "{name}"\n' for name in urls]
        settings.write_text("".join([settings.read_text(), *sources]))
        reported = failed_run(pipeline)
    for name, message in REFUSED.items():
        assert re.search(message, reported), (name, reported[-6000:])
    segments = pipeline.state.lake.glob("landing/shop/*.binlog")
    assert list(segments), "the good one goes on"
    source_server.run_sql("CREATE DATABASE a; FLUSH BINARY LOGS; CREATE DATABASE b; FLUSH BINARY LOGS;")
    source_server.run_sql("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY; DROP DATABASE a; DROP DATABASE b")
    assert "BinlogPurgedError" in failed_run(pipeline, source="shop")


def failed_run(pipeline, **conf) -> str:
    """What a run printed that fails at once, publishes nothing and shows no password."""
    reported = pipeline.test_dag("ingest_binlog", conf)
    assert "state=failed" in reported.rsplit("DagRun Finished", 1)[-1], reported[-6000:]
    assert PASSWORD not in reported
    assert "UP_FOR_RETRY" not in reported
    assert pipeline.published() == []
    return reported
