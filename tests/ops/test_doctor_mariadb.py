"""What doctor says of MariaDB servers: each statement that it prints mends what it reports, on the server itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, connect
from strata_cdc.ops.doctor.check_grants import judge_grants
from strata_cdc.ops.doctor.check_settings import judge_settings
from strata_cdc.ops.doctor.check_source import _read_grants, _read_variables
from strata_cdc.ops.doctor.findings import Finding, FindingSeverity
from tests.mariadb_server import PREFIXES, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mariadb_server import MariadbServer

WORST = (
    "--binlog-format=MIXED",
    "--binlog-row-image=MINIMAL",
    "--binlog-checksum=NONE",
    "--binlog-expire-logs-seconds=60",
    "--gtid-strict-mode=OFF",
    "--old-mode=NO_PROGRESS_INFO",
)
SETTINGS = {
    "binlog_format",
    "binlog_row_image",
    "binlog_checksum",
    "binlog_expire_logs_seconds",
    "gtid_strict_mode",
    "old_mode",
}
GRANTS = {"REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT"}


@pytest.fixture(scope="module", params=PREFIXES)
def badly_set(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    with start_mariadb(tmp_path_factory.mktemp("doctor"), request.param, *WORST) as server:
        yield server


def faults(server: MariadbServer) -> dict[str, Finding]:
    with connect(ServerAddress.from_url(server.url)) as connection:
        findings = judge_settings(_read_variables(connection))
        user, grants = _read_grants(connection)
        findings += judge_grants(grants, user, None)
    return {finding.name: finding for finding in findings if finding.severity is not FindingSeverity.OK}


@pytest.mark.mysql
def test_each_statement_mends_what_it_is_for(badly_set: MariadbServer) -> None:
    badly_set.run_sql("CREATE OR REPLACE USER app@'127.0.0.1'")
    as_app = replace(badly_set, user="app")
    reported = faults(as_app)
    assert reported.keys() == SETTINGS | GRANTS
    for finding in reported.values():
        for statement in re.findall(r"(?:SET GLOBAL|GRANT) [^;]*;", finding.remedy or ""):
            badly_set.run_sql(statement)
    assert faults(as_app) == {}


@pytest.mark.mysql
@pytest.mark.parametrize("mode", ["", "NO_PROGRESS_INFO", "NO_PROGRESS_INFO,ZERO_DATE_TIME_CAST"])
def test_the_charset_utf8_of_new_sessions(badly_set: MariadbServer, mode: str) -> None:
    """The statement adds the mode to those that are set, and new sessions then make utf8mb3 of utf8."""
    badly_set.run_sql(f"SET GLOBAL old_mode = '{mode}'; CREATE OR REPLACE DATABASE doctor")
    for charset in ("utf8mb4", "utf8mb3"):
        finding = faults(badly_set).get("old_mode")
        assert (finding is None) == (charset == "utf8mb3")
        if finding is not None:
            assert finding.severity is FindingSeverity.WARNING
        with badly_set.connect("doctor") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE TABLE t (a CHAR(1) CHARSET utf8)")
            cursor.execute("SELECT character_set_name FROM information_schema.columns WHERE table_schema = 'doctor'")
            assert cursor.fetchall() == ((charset,),)
            if finding is not None:
                cursor.execute((finding.remedy or "").partition(";")[0])
                cursor.execute("SELECT @@GLOBAL.old_mode")
                assert set(cursor.fetchone()[0].split(",")) == {*filter(None, mode.split(",")), "UTF8_IS_UTF8MB3"}


@pytest.mark.mysql
def test_a_replica_that_does_not_log_what_it_applies(badly_set: MariadbServer) -> None:
    """A user that may see it gets an error, another one a warning."""
    badly_set.run_sql(
        "CREATE OR REPLACE USER blind@'127.0.0.1'; GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO"
        " blind@'127.0.0.1'; RESET MASTER;"
        " SET GLOBAL gtid_slave_pos = '0-7-5'; CHANGE MASTER TO MASTER_HOST = '127.0.0.1'"
    )
    assert faults(badly_set)["log_slave_updates"].severity is FindingSeverity.ERROR
    assert faults(replace(badly_set, user="blind"))["log_slave_updates"].severity is FindingSeverity.WARNING


def test_an_old_server_and_a_binlog_in_the_engine() -> None:
    found = judge_settings({"version": "10.5.8-MariaDB", "log_bin": "ON", "server_id": "1"})
    assert [finding.name for finding in found if finding.severity is FindingSeverity.ERROR] == ["version"]
    found = judge_settings({"version": "12.3.2-MariaDB", "binlog_storage_engine": "innodb", "log_bin": "ON"})
    assert "binlog_storage_engine" in [one.name for one in found if one.severity is FindingSeverity.WARNING]
