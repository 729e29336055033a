"""Fills a store and a lake as years of runs leave them: segments and versions by landing and tracking, intervals and
what is published of them by rows of the store.
Not here: what is measured (`years.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from strata_cdc.config.settings import load_settings
from strata_cdc.files.storage import Folder
from strata_cdc.landing.land_files import land_files
from strata_cdc.landing.landed import LandedStream
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.store.json_columns import to_column
from strata_cdc.store.ledgers import PublishedDetails
from strata_cdc.store.tables import closed_interval, published_interval, table_interval, verdict
from strata_cdc.store.verdicts import VerdictDetails
from strata_cdc.tables.layout import table_url
from strata_cdc.tracking.track_schema import track_landed
from tests.binlog.binlogs import SERVER, Binlog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.config.settings import Settings

END_SECONDS = 1_795_000_000
"""Commit time of the last transaction, seconds since 1970."""
STEP_SECONDS = 300
_CHUNK = 20_000
_COLUMNS = ", ".join(f"c{number} varchar(20)" for number in range(9))


@dataclass(frozen=True)
class Sizes:
    """What a source has behind it."""

    intervals: int
    segments: int
    tables: int
    versions: int

    @property
    def transactions(self) -> int:
        """Two of each interval at least, and one for each version."""
        return max(self.versions + 1, 2 * self.intervals)


SMALL = Sizes(intervals=100, segments=20, tables=10, versions=200)
LARGE = Sizes(intervals=100_000, segments=20_000, tables=10_000, versions=200_000)


def settings_of(folder: Path, *, server: str, store: str | None = None) -> Settings:
    """The settings of a world.

    Args:
        folder: Of the world.
        server: URL of the server.
        store: URL of the store; SQLite in the folder by default.
    """
    path = folder / "strata.toml"
    url = store or f"sqlite:///{folder}/s.db"
    path.write_text(f'lake = "{folder}/lake"\nstore = "{url}"\n[sources.shop]\nconnection = "x"\n')
    return load_settings({"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_X": server})


def fill(folder: Path, sizes: Sizes, settings: Settings) -> None:
    """Makes the history, in a folder that is empty."""
    source = settings.source("shop")
    _write_binlogs(folder / "archive", sizes)
    land_files(str(folder / "archive"), lake=source.lake, source="shop")
    engine = open_store(source.store_url)
    track_landed(source.lake, "shop", engine)
    stream = LandedStream.open(source.lake, "shop")
    for chunk in _chunks(_rows(sizes, stream.last_seq)):
        with engine.begin() as connection:
            for table, rows in chunk.items():
                connection.execute(table.insert(), rows)
    _write_logs(source.lake, sizes)
    with engine.begin() as connection:
        connection.execute(sa.text("ANALYZE" if engine.dialect.name == "sqlite" else "SELECT 1"))


def executed(sizes: Sizes) -> str:
    """What the server must have executed."""
    return f"{SERVER}:1-{sizes.transactions}"


def _statements(sizes: Sizes) -> Iterator[tuple[str, str]]:
    """Database and text: tables of ten columns, then columns that come and go, then what is no DDL of a table."""
    yield "d", "CREATE DATABASE d"
    for number in range(sizes.tables):
        yield "d", f"CREATE TABLE t{number} (id int PRIMARY KEY, {_COLUMNS})"
    for number in range(sizes.versions - sizes.tables):
        table, turn = number % sizes.tables, number // sizes.tables
        yield "d", f"ALTER TABLE t{table} " + (f"ADD x{turn} int" if turn % 2 == 0 else f"DROP COLUMN x{turn - 1}")


def _write_binlogs(folder: Path, sizes: Sizes) -> None:
    folder.mkdir(parents=True)
    statements = list(_statements(sizes))
    each = -(-sizes.transactions // sizes.segments)
    for file, first in enumerate(range(0, sizes.transactions, each), start=1):
        binlog = Binlog()
        binlog.previous(f"{SERVER}:1-{first}" if first else "")
        for at in range(first, min(first + each, sizes.transactions)):
            micros = _committed(at + 1, sizes)
            binlog.gtid(at + 1, micros=micros)
            database, text = statements[at] if at < len(statements) else ("d", "DROP TABLE IF EXISTS nothing")
            binlog.query(text, database=database, seconds=micros // 1_000_000)
        binlog.event(4, (4).to_bytes(8, "little") + f"binlog.{file + 1:06}".encode())
        (folder / f"binlog.{file:06}").write_bytes(bytes(binlog.data))


def _committed(seq: int, sizes: Sizes) -> int:
    """Commit time of a transaction, microseconds UTC: the last is at the end, all are evenly before it."""
    span = sizes.intervals * STEP_SECONDS * 1_000_000
    return END_SECONDS * 1_000_000 - span + seq * span // sizes.transactions - 1


def _rows(sizes: Sizes, last: int) -> Iterator[tuple[sa.Table, dict[str, Any]]]:
    """Closed intervals, each with a table's rows, published."""
    step = STEP_SECONDS * 1_000_000
    begin = END_SECONDS * 1_000_000 - sizes.intervals * step
    per = last / sizes.intervals
    for number in range(sizes.intervals):
        start = begin + number * step
        seqs = {"first_seq": round(number * per), "last_seq": round((number + 1) * per)}
        gtids = f"{SERVER}:1-{seqs['last_seq']}"
        key = {"source": "shop", "start_at": start}
        yield closed_interval, {**key, **seqs, "end_at": start + step, "gtid_executed": gtids, "closed_at": start}
        name = f"t{number % sizes.tables}"
        common = {"rows": 10, "reason": None, "changed_at": start + step, "run": "r", "published_rows": 10}
        whole = {"database_name": "", "table_name": "", "state": "counted", "history": 0}
        one = {"database_name": "d", "table_name": name, "state": "published", "history": sizes.versions}
        yield table_interval, {**key, **common, **whole}
        yield table_interval, {**key, **common, **one}
        details = PublishedDetails(gtids, "r", (1 + number % sizes.tables,))
        note = {"table_name": f"d.{name}", "delta_version": number // sizes.tables, "rows": 10}
        yield published_interval, {**key, **note, "published_at": start + step, "details": to_column(details)}
        checked = to_column(VerdictDetails("r", (1,), 10, 5))
        yield verdict, {**key, "table_name": f"d.{name}", "outcome": "passed", "judged_at": start, "details": checked}


def _chunks(rows: Iterator[tuple[sa.Table, dict[str, Any]]]) -> Iterator[dict[sa.Table, list[dict[str, Any]]]]:
    chunk: dict[sa.Table, list[dict[str, Any]]] = {}
    for number, (table, row) in enumerate(rows, start=1):
        chunk.setdefault(table, []).append(row)
        if number % _CHUNK == 0:
            yield chunk
            chunk = {}
    if chunk:
        yield chunk


def _write_logs(lake: str, sizes: Sizes) -> None:
    """The newest commit of each change table, empty: only whether it is there is looked for."""
    for table in range(min(sizes.tables, sizes.intervals)):
        newest = (sizes.intervals - 1 - table) // sizes.tables
        url = table_url(lake, "shop", TableName("d", f"t{table}"))
        Folder.open(url).folder("_delta_log").write(f"{newest:020d}.json", b"{}")
