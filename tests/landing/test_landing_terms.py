"""As which replica, how fast, and with which password a server's binlog is read."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, connect, printed_password
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import AccessDeniedError, SettingsError
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.land_source import land_source, landing_terms
from strata_cdc.landing.landing_terms import LandingTerms, LandingThrottle
from tests.interposed import interposed
from tests.landing.landing import address_of, assert_is_the_servers, following

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.mysql_server import MysqlServer


class Machine:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, []

    def monotonic(self, _real: Callable[[], float]) -> float:
        return self.now

    def sleep(self, _real: Callable[[float], None], seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_the_pauses_hold_the_rate_and_make_up_for_nothing() -> None:
    machine = Machine()
    with interposed(machine.monotonic, (time, "monotonic")), interposed(machine.sleep, (time, "sleep")):
        throttle = LandingThrottle(1_000_000)
        for _ in range(20):
            throttle.pause(500_000)
        assert sum(machine.slept) == pytest.approx(10.0)
        machine.now += 3600.0
        throttle.pause(500_000)
        throttle.pause(500_000)
        assert sum(machine.slept[-2:]) == pytest.approx(1.0), "an idle hour allows no burst"
        throttle.pause(80_000_000)
        assert machine.slept[-1] == pytest.approx(5.0), "the server is never kept waiting for long"
        LandingThrottle(None).pause(1 << 40)
        assert machine.slept[-1] == pytest.approx(5.0)


@pytest.mark.mysql
def test_a_throttled_landing_has_everything(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(
        "RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS d; CREATE DATABASE d; CREATE TABLE d.t (v LONGTEXT)"
    )
    for _ in range(6):
        server.run_sql("INSERT INTO d.t VALUES (REPEAT('x', 1000000))")
    machine = Machine()
    lake = tmp_path / "lake"
    with interposed(machine.sleep, (time, "sleep")):
        terms = LandingTerms(bytes_per_second=1_000_000)
        land_binlog(address_of(server), lake=str(lake), source="s", terms=terms)
    assert sum(machine.slept) > 3
    assert_is_the_servers(server, lake)


@pytest.mark.mysql
def test_a_fixed_number_as_a_replica(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("RESET BINARY LOGS AND GTIDS; CREATE DATABASE IF NOT EXISTS d")
    shown = r"^(\d+)\t"
    with following(server, tmp_path / "lake", terms=LandingTerms(server_id=4_242)) as follower:
        follower.wait_for(lambda: "4242" in re.findall(shown, server.run_sql("SHOW REPLICAS"), re.MULTILINE))
    with following(server, tmp_path / "other") as follower:
        # What was connected before may be shown for a moment.
        follower.wait_for(
            lambda: any(
                int(number) >= 1 << 30 for number in re.findall(shown, server.run_sql("SHOW REPLICAS"), re.MULTILINE)
            )
        )


def settings(folder: Path, url: str, *lines: str) -> Any:
    (folder / "strata.toml").write_text(
        "\n".join([f'lake = "{folder}/lake"', "[sources.s]", 'connection = "x"', *lines])
    )
    return load_settings({"STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_X": url})


def test_the_settings_of_a_source(tmp_path: Path) -> None:
    found = settings(tmp_path, "mysql://u@h/", "server_id = 7", "land_mb_per_second = 20").source("s")
    assert landing_terms(found) == LandingTerms(7, 20_000_000)
    assert landing_terms(settings(tmp_path, "mysql://u@h/").source("s")) == LandingTerms()
    for wrong in ("server_id = 0", "server_id = 4294967296", "land_mb_per_second = 0", 'password_command = "x"'):
        with pytest.raises(SettingsError, match=wrong.split()[0]):
            settings(tmp_path, "mysql://u@h/", wrong)


@pytest.mark.mysql
def test_a_password_that_is_new_for_each_connection(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(
        "RESET BINARY LOGS AND GTIDS; CREATE USER token@'127.0.0.1' IDENTIFIED BY 'first secret';"
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO token@'127.0.0.1'"
    )
    token = tmp_path / "a token"
    store = f'store = "sqlite:///{tmp_path}/s.db"'
    command = f"password_command = \"cat '{token}'\""
    given = settings(tmp_path, f"mysql://token:old@127.0.0.1:{server.port}/", command, store)
    try:
        for secret in ("first secret", "second\\secret'"):
            server.run_sql(
                "ALTER USER token@'127.0.0.1' IDENTIFIED BY '{}'".format(
                    secret.replace("\\", "\\\\").replace("'", "''")
                )
            )
            token.write_text(f"{secret}\n")
            land_source(given.source("s"))
        token.write_text("another secret\n")
        with pytest.raises(AccessDeniedError) as refused:
            land_source(given.source("s"))
        assert "secret" not in f"{refused.value}{given!r}{given.source('s')!r}"
    finally:
        server.run_sql("DROP USER token@'127.0.0.1'")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such/secret-program", "cannot be run"),
        ("sh -c 'echo secret >&2; exit 3'", r"password_command \(sh\) ended with 3"),
        ("true", "printed nothing"),
        ("echo 'secret", "quote without an end"),
        ("  ", "is empty"),
    ],
)
def test_a_command_that_prints_no_password(command: str, message: str) -> None:
    address = ServerAddress("127.0.0.1", 1, password_command=command)
    with pytest.raises(SettingsError, match=message) as failed:
        connect(address)
    assert "secret " not in str(failed.value)


def test_the_command_knows_for_which_server_it_is() -> None:
    command = """sh -c 'echo "$STRATA_USER at $STRATA_HOST:$STRATA_PORT"'"""
    assert printed_password(command, host="h", port="3306", user="u") == b"u at h:3306"


def test_only_the_end_of_the_line_is_no_part_of_a_password() -> None:
    assert printed_password("printf ' a b \\r\\n'") == b" a b "
