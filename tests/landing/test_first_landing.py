"""A first landing that begins with a snapshot: nothing from before it is copied, and nothing behind it is lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.config.settings import Source, SourceSettings, load_settings
from strata_cdc.errors import BinlogPurgedError, SourceSettingsError, Usage
from strata_cdc.landing.first_landing import allowed_begins
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.dump_source import dump_source
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from strata_cdc.tracking.track_schema import track_landed
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql
MODES = {"by_gtid": (), "by_file": ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")}


@pytest.fixture(scope="module", params=sorted(MODES))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_server(tmp_path_factory.mktemp(request.param), *MODES[request.param]) as running:
        running.run_sql("CREATE DATABASE shop; CREATE TABLE shop.items (id INT PRIMARY KEY, note TEXT)")
        yield running


@pytest.fixture
def source(server: MysqlServer, tmp_path: Path) -> Source:
    address = ServerAddress(server.host, server.port, server.user, server.password)
    settings = SourceSettings("mysql_shop", land_from="snapshot")
    return Source("shop", address, str(tmp_path / "lake"), f"sqlite:///{tmp_path}/store.db", settings)


def snapshot(source: Source) -> None:
    snapshot_schemas(source.address, open_store(source.store_url), source.name)


def write(server: MysqlServer, *statements: str) -> None:
    server.run_sql(";".join(statements), "shop")


def insert(server: MysqlServer, key: int) -> None:
    # Another text each time: the server logs nothing where a row stays as it is.
    write(server, f"REPLACE INTO items VALUES ({key}, CONCAT('note of {key} at ', SYSDATE(6)))")


def landed_keys(source: Source, server: MysqlServer) -> set[int]:
    """The keys of which a text is anywhere in what has landed."""
    land_binlog(source.address, lake=source.lake, source=source.name, begins=allowed_begins(source))
    stream = LandedStream.open(source.lake, source.name)
    folder = Path(source.lake, "landing", source.name)
    data = b"".join((folder / str(segment.name)).read_bytes() for segment in stream.segments)
    return {key for key in range(1, 10) if f"note of {key}".encode() in data}


def test_what_was_before_the_snapshot_is_left_out(server: MysqlServer, source: Source) -> None:
    insert(server, 1)
    write(server, "FLUSH BINARY LOGS")
    snapshot(source)
    insert(server, 2)
    assert landed_keys(source, server) == {2}
    # And from there on as always.
    insert(server, 3)
    assert landed_keys(source, server) == {2, 3}


def test_all_tables_are_known_from_the_first_transaction_on(server: MysqlServer, source: Source) -> None:
    insert(server, 1)
    write(server, "FLUSH BINARY LOGS")
    snapshot(source)
    insert(server, 2)
    landed_keys(source, server)
    engine = open_store(source.store_url)
    report = track_landed(source.lake, source.name, engine)
    assert report.drifts == 0
    entries = [entry for entry in SchemaStore(engine).all_entries(source.name) if str(entry.name) == "shop.items"]
    assert [(entry.seq, entry.origin.value) for entry in entries] == [(0, "reload")]


def test_it_begins_with_the_first_snapshot_though_a_later_one_is_there(server: MysqlServer, source: Source) -> None:
    """What was written between them would be nowhere: neither landed nor read."""
    write(server, "FLUSH BINARY LOGS")
    snapshot(source)
    insert(server, 4)
    snapshot(source)
    insert(server, 5)
    assert landed_keys(source, server) == {4, 5}


def test_a_snapshot_behind_which_the_server_purged_is_passed_over(server: MysqlServer, source: Source) -> None:
    snapshot(source)
    insert(server, 6)
    write(server, "FLUSH BINARY LOGS")
    write(server, f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    with pytest.raises(BinlogPurgedError, match="purged the transactions after") as caught:
        landed_keys(source, server)
    assert "strata snapshot" in (caught.value.remedy or "")
    snapshot(source)
    insert(server, 7)
    assert landed_keys(source, server) == {7}


def test_without_a_snapshot_it_is_refused_with_the_command(source: Source) -> None:
    with pytest.raises(SourceSettingsError, match="no snapshot yet") as caught:
        allowed_begins(source)
    assert "strata snapshot --source shop" in (caught.value.remedy or "")


def test_what_has_landed_is_gone_on_with_whatever_the_setting(server: MysqlServer, source: Source) -> None:
    insert(server, 8)
    land_binlog(source.address, lake=source.lake, source=source.name)
    assert allowed_begins(source) == ()
    insert(server, 9)
    assert {8, 9} <= landed_keys(source, server)


def test_a_dump_needs_no_transaction(server: MysqlServer, tmp_path: Path) -> None:
    (tmp_path / "strata.toml").write_text(
        f'lake = "{tmp_path}/lake"\nstore = "sqlite:///{tmp_path}/store.db"\n'
        '[sources.shop]\nconnection = "x"\nmirrors = ["shop.*"]\n'
    )
    settings = load_settings({"STRATA_SETTINGS": f"{tmp_path}/strata.toml", "AIRFLOW_CONN_X": server.url})
    insert(server, 8)
    write(server, "FLUSH BINARY LOGS")
    write(server, f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    if "by_file" in str(server.folder):
        with pytest.raises((Usage, SourceSettingsError), match=r"gtid_mode|GTIDs"):
            dump_source("shop", settings=settings)
        return
    (dumped,) = dump_source("shop", settings=settings).tables
    assert (dumped.table, dumped.rows > 0, dumped.seq) == ("shop.items", True, 0)
