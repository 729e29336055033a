"""Servers that a service runs: what tells them from others, and how long they keep binlogs. Amazon's is a real MySQL in
a folder of the name that it has there, with the procedure that is there."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.mysql import program
from strata_cdc.binlog.protocol.connection import connect
from strata_cdc.binlog.protocol.hosting import RETENTION, HostingService, hosting_of
from strata_cdc.binlog.protocol.replication import ServerState
from strata_cdc.config.settings import load_settings
from strata_cdc.ops.doctor.check_hosting import judge_hosting, where_it_is_set
from strata_cdc.ops.doctor.check_settings import judge_settings
from strata_cdc.ops.doctor.check_source import check_replica, check_source
from strata_cdc.ops.doctor.findings import FindingSeverity
from strata_cdc.ops.metrics import metrics_of
from strata_cdc.pipeline import ingest
from strata_cdc.progress.status import source_status
from strata_cdc.store.database import open_store
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.config.settings import Settings
    from strata_cdc.ops.doctor.findings import Finding

PROCEDURE = """
CREATE TABLE mysql.retention (hours INT); INSERT INTO mysql.retention VALUES (NULL);
CREATE PROCEDURE mysql.rds_show_configuration()
  SELECT 'binlog retention hours' AS name, hours AS value, 'how long it keeps them' AS description FROM mysql.retention;
CREATE USER strata@'127.0.0.1'; GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO strata@'127.0.0.1';
"""


@pytest.mark.parametrize(
    ("variables", "host", "service"),
    [
        (
            {"version": "8.4.3", "basedir": "/rdsdbbin/mysql-8.4.3.R1/"},
            "db.abc.eu-west-1.rds.amazonaws.com",
            "Amazon RDS",
        ),
        ({"version": "8.0.39", "aurora_version": "3.08.0", "basedir": "/rdsdbbin/oscar-8.0/"}, "db", "Amazon Aurora"),
        ({"version": "8.0.37-google", "basedir": "/usr/"}, "10.0.0.3", "Google Cloud SQL"),
        ({"version": "8.0.40-azure"}, "db", "Azure Database for MySQL"),
        ({"version": "8.0.40"}, "shop.mysql.database.azure.com", "Azure Database for MySQL"),
        ({"version": "8.0.34-PlanetScale"}, "db", "PlanetScale"),
        ({"version": "8.0.34"}, "aws.connect.psdb.cloud", "PlanetScale"),
        ({"version": "9.7.4", "basedir": "/usr/", "version_comment": "MySQL Community Server - GPL"}, "db", None),
        ({"version": "11.8.9-MariaDB", "version_comment": "Debian"}, "db", None),
    ],
)
def test_which_service_it_is(variables: Mapping[str, str], host: str, service: str | None) -> None:
    assert hosting_of(variables, host) == service


@contextmanager
def hosted_by_amazon(folder: Path) -> Iterator[MysqlServer]:
    """A server whose programs lie where Amazon's do."""
    base, installed = folder / "rdsdbbin" / "mysql", Path(program("mysqld")).parents[1]
    base.mkdir(parents=True)
    # The server shows where the folder really is, so that a link to it would not do.
    for part in installed.iterdir():
        (base / part.name).symlink_to(part)
    with start_server(folder / "server", f"--basedir={base}", "--binlog-row-image=MINIMAL") as server:
        server.run_sql(PROCEDURE)
        yield server


@pytest.fixture(scope="module")
def amazon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with hosted_by_amazon(tmp_path_factory.mktemp("amazon")) as server:
        yield server


def settings(server: MysqlServer, folder: Path, *, replica: str = "", user: str = "strata") -> Settings:
    (folder / "strata.toml").write_text(
        f'lake = "{folder}/lake"\nstore = "sqlite:///{folder}/s.db"\n[sources.s]\nconnection = "x"\nreplicas = ["y"]\n'
    )
    url = f"mysql://{user}@127.0.0.1:{server.port}/"
    environment = {"STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_X": url, "AIRFLOW_CONN_Y": replica}
    return load_settings(environment)


def found(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


@pytest.mark.mysql
def test_how_long_amazon_keeps_binlogs(amazon: MysqlServer, tmp_path: Path) -> None:
    given = settings(amazon, tmp_path)
    source = given.source("s")
    amazon.run_sql("REVOKE EXECUTE ON *.* FROM strata@'127.0.0.1'; UPDATE mysql.retention SET hours = NULL;")
    findings = found(check_source(source))
    assert findings["hosting"].what == "Amazon RDS"
    assert findings[RETENTION].severity is FindingSeverity.WARNING, "the account may not ask"
    assert "binlog_expire_logs_seconds" not in findings
    assert findings["binlog_row_image"].remedy == "In the instance's parameter group: binlog_row_image = FULL."
    amazon.run_sql("GRANT EXECUTE ON PROCEDURE mysql.rds_show_configuration TO strata@'127.0.0.1'")
    for hours, severity in ((None, FindingSeverity.ERROR), (5, FindingSeverity.WARNING), (72, FindingSeverity.OK)):
        amazon.run_sql(f"UPDATE mysql.retention SET hours = {hours or 'NULL'}")
        assert found(check_source(source))[RETENTION].severity is severity
        with connect(source.address) as connection:
            assert ServerState.from_server(connection).expire_seconds == (hours or 0) * 3600
    ingest.land("s", settings=given)
    engine = open_store(source.store_url)
    status = source_status(source, engine, now=0)
    assert status.landing is not None
    now = status.landing.at
    distance = metrics_of(source, source_status(source, engine, now=now), now=now).purge_distance_seconds
    assert distance == pytest.approx(72 * 3600, abs=60)


@pytest.mark.mysql
def test_whether_landing_could_continue_with_a_replica(
    server: MysqlServer, amazon: MysqlServer, tmp_path: Path
) -> None:
    """With the same server under another name; not with one that lacks what has landed; not with none."""
    server.run_sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS r; CREATE DATABASE r")
    given = settings(server, tmp_path, replica=server.url, user="root")
    ingest.land("s", settings=given)
    same = check_replica(given.replica("s", "y"), "y")
    assert (same.severity, same.name) == (FindingSeverity.OK, "replica y"), same
    assert "could continue" in same.what
    for replica, reason in ((amazon.url, "landed: "), ("mysql://root@127.0.0.1:1/", "connection: ")):
        given = settings(server, tmp_path, replica=replica, user="root")
        other = check_replica(given.replica("s", "y"), "y")
        assert other.severity is FindingSeverity.WARNING
        assert "could not continue" in other.what
        assert reason in other.what


def test_readers_and_services_without_binlogs() -> None:
    reader = list(judge_hosting(HostingService.AURORA, {"innodb_read_only": "ON"}, 24))
    assert [finding.severity for finding in reader] == [
        FindingSeverity.OK,
        FindingSeverity.ERROR,
        FindingSeverity.OK,
    ]
    none = list(judge_hosting(HostingService.PLANETSCALE, {}, None))
    assert none[-1].severity is FindingSeverity.ERROR


@pytest.mark.parametrize("service", HostingService)
def test_nobody_is_told_to_set_what_the_service_sets(service: HostingService) -> None:
    findings = judge_settings({"version": "8.4.0", "log_bin": "ON", "binlog_format": "MIXED", "gtid_mode": "OFF"})
    for finding in where_it_is_set(service, findings):
        assert service is HostingService.PLANETSCALE or "SET PERSIST" not in (finding.remedy or "")
