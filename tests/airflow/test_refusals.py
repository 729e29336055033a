"""What a bad server gets: a run that fails at once, says what to run, and publishes nothing. What a bad form gets,
`test_live.py` has."""

from __future__ import annotations

import pytest

from tests.airflow.pipeline import PASSWORD, make_account
from tests.mysql_server import start_server

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.slow]


def assert_refused(pipeline, error: str, *words: str) -> None:
    said = pipeline.test_dag("ingest_binlog")
    assert "state=failed" in said.rsplit("DagRun Finished", 1)[-1], said[-6000:]
    assert error in said, said[-6000:]
    for word in words:
        assert word in said, said[-6000:]
    assert PASSWORD not in said
    assert "UP_FOR_RETRY" not in said
    assert pipeline.published() == []


def test_a_wrong_password(source_server, make_pipeline):
    url = make_account(source_server)
    pipeline = make_pipeline(url.replace(PASSWORD, "wrong-" + PASSWORD))
    assert_refused(pipeline, "AccessDeniedError", "shop")


def test_a_server_without_gtids_whose_ddl_may_not_be_kept_out(tmp_path_factory, make_pipeline):
    folder = tmp_path_factory.mktemp("no-gtids")
    with start_server(folder, "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF") as server:
        assert_refused(make_pipeline(make_account(server)), "SourceSettingsError", "BACKUP_ADMIN")


def test_a_server_that_logs_statements(tmp_path_factory, make_pipeline):
    with start_server(tmp_path_factory.mktemp("statements"), "--binlog-format=STATEMENT") as server:
        server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT); INSERT INTO shop.orders VALUES (1)")
        assert_refused(make_pipeline(make_account(server)), "SourceSettingsError", "binlog_format = ROW")


def test_an_account_without_the_grants(source_server, make_pipeline):
    # Other tests' store on this server knows another lake, which would be refused first.
    source_server.run_sql("DROP DATABASE IF EXISTS strata")
    url = make_account(source_server, "reader")
    source_server.run_sql("REVOKE REPLICATION SLAVE, REPLICATION CLIENT ON *.* FROM reader@localhost")
    assert_refused(make_pipeline(url), "AccessDeniedError", "REPLICATION SLAVE")


def test_a_binlog_that_was_purged_between_two_runs(tmp_path_factory, make_pipeline):
    with start_server(tmp_path_factory.mktemp("purged")) as server:
        pipeline = make_pipeline(make_account(server))
        pipeline.ingest()
        published = pipeline.published()
        server.run_sql("CREATE DATABASE a; FLUSH BINARY LOGS; CREATE DATABASE b; FLUSH BINARY LOGS;")
        server.run_sql("SET @last = (SELECT 1); PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY;")
        said = pipeline.test_dag("ingest_binlog")
        assert "state=failed" in said.rsplit("DagRun Finished", 1)[-1], said[-6000:]
        assert "BinlogPurgedError" in said
        assert pipeline.published() == published
