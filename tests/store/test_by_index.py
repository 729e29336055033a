"""What a run, status and pages ask of the store is found by an index, however many years there are.
Not here: what the answers are."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import IntervalLedger, PublishedLedger
from strata_cdc.store.merges import MergeLedger
from strata_cdc.store.rows_in_time import newest_intervals, waiting_rows
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.store.tables import METADATA
from strata_cdc.store.verdicts import VerdictLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.mysql_server import MysqlServer

INTERVALS, TABLES, STEP = 3000, 50, 300_000_000
OPEN = (IntervalState.PENDING, IntervalState.FAILED, IntervalState.BLOCKED)
T = TableName("d", "t7")

QUERIES: dict[str, Callable[[sa.Engine], Any]] = {
    "plan: the intervals of what is open": lambda e: IntervalLedger(e).starting("s", [STEP, 2 * STEP]),
    "plan: the intervals of a span": lambda e: IntervalLedger(e).overlapping("s", STEP, 2 * STEP),
    "plan: what is open": lambda e: TableIntervalLedger(e).select("s", OPEN),
    "plan: the tables of an interval": lambda e: TableIntervalLedger(e).of_interval("s", STEP),
    "plan: the newest version": lambda e: SchemaStore(e).newest_version("s"),
    "plan: the newest version of a table": lambda e: SchemaStore(e).newest_version("s", T),
    "plan: removals of rows": lambda e: SchemaStore(e).row_removals("s", 10, 20),
    "plan: statements that were logged": lambda e: SchemaStore(e).statement_changes("s", 10, 20),
    "track: the position": lambda e: SchemaStore(e).position("s"),
    "track: snapshots that wait": lambda e: SchemaStore(e).pending_snapshots("s"),
    "decode: the timeline of a table": lambda e: SchemaStore(e).timeline("s", [T]),
    "publish: one table of an interval": lambda e: TableIntervalLedger(e).get("s", STEP, "d", "t7"),
    "publish: the note of one table": lambda e: PublishedLedger(e).get("s", STEP, "d.t7"),
    "publish: the verdicts of an interval": lambda e: VerdictLedger(e).select("s", [STEP]),
    "run's end: the newest commit of each table": lambda e: PublishedLedger(e).newest("s"),
    "status: the newest interval": lambda e: IntervalLedger(e).last("s"),
    "status: the newest version of each table": lambda e: list(History(SchemaStore(e), "s").names(AtSeq(INTERVALS))),
    "housekeep: files to be merged": lambda e: MergeLedger(e).pending("s"),
    "page: rows that wait": lambda e: waiting_rows(e, "s"),
    "page: the newest intervals of a table": lambda e: newest_intervals(e, "s", ("d", "t7")),
    "page: the newest verdicts": lambda e: VerdictLedger(e).outcomes("s", limit=20),
    "page: the interval of a time": lambda e: IntervalLedger(e).get("s", STEP),
}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("mysql", marks=pytest.mark.mysql)])
def engine(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """A store with a year in small, of two sources."""
    url = "sqlite://"
    if request.param == "mysql":
        server: MysqlServer = request.getfixturevalue("mysql_server")
        server.run_sql("DROP DATABASE IF EXISTS by_index")
        url = f"{server.url}by_index"
    engine = open_store(url)
    with engine.begin() as connection:
        for source in ("s", "other"):
            for table, rows in _rows(source).items():
                connection.execute(METADATA.tables[table].insert(), rows)
    with engine.begin() as connection:
        for table in METADATA.tables if request.param == "mysql" else ():
            connection.execute(sa.text(f"ANALYZE TABLE {table}"))
    yield engine
    engine.dispose()


def _rows(source: str) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    first_id = 1 if source == "s" else INTERVALS + 1

    def add(table: str, **values: Any) -> None:
        rows.setdefault(table, []).append({"source": source, **values})

    for number in range(INTERVALS):
        start, name = number * STEP, f"t{number % TABLES}"
        marks = {"first_seq": number, "last_seq": number + 1, "gtid_executed": "", "closed_at": 0}
        add("closed_interval", start_at=start, end_at=start + STEP, **marks)
        entry = {"rows": 1, "published_rows": 1, "history": 1, "changed_at": start}
        add("table_interval", start_at=start, database_name="", table_name="", state="counted", **entry)
        add("table_interval", start_at=start, database_name="d", table_name=name, state="published", **entry)
        note = {"delta_version": number // TABLES, "rows": 1, "published_at": start, "details": "{}"}
        add("published_interval", start_at=start, table_name=f"d.{name}", **note)
        details = '{"run":"r"}'
        add("verdict", start_at=start, table_name=f"d.{name}", outcome="passed", judged_at=start, details=details)
        version = {"id": first_id + number, "seq": number, "statement_no": 1, "gtid": f"x:{number}"}
        add("schema_version", **version, gtid_executed="", committed_at=start, origin="ddl", ddl="ALTER")
        entry = {"database_name": "d", "table_name": name, "fingerprint": "f", "column_ids": "1", "effect": ""}
        add("table_version", version_id=version["id"], **entry)
        add("statement_change", seq=number, binlog_pos=4, binlog_file="b", tables="[]", statement="x")
        add("row_removal", seq=number, binlog_pos=4, tables="[]", statement="x", effects="[]")
        add("file_merge", start_at=start, database_name="d", table_name=name, end_at=start + STEP, merged_at=1)
        if number < 500:
            snapshot = {"gtid_before": "", "gtid_executed": "", "taken_at": 1, "server_version": 80400}
            add("snapshot", **snapshot, lower_case_table_names=0, state="applied", tables=1)
    position = {"revision": 1, "seq": INTERVALS, "gtid_executed": "", "committed_at": INTERVALS * STEP}
    add("tracked_position", **position, server_version=80400, lower_case_table_names=0, last_column_id=1)
    return rows


@contextmanager
def asked(engine: sa.Engine) -> Iterator[list[tuple[str, Any]]]:
    """The statements that a block sends, with their parameters."""
    found: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found.append((statement, parameters))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def scans(engine: sa.Engine, statement: str, parameters: Any) -> list[str]:
    """The tables of a query that the database reads as a whole, without an index."""
    with engine.connect() as connection:
        cursor = connection.connection.cursor()
        is_sqlite = engine.dialect.name == "sqlite"
        cursor.execute(f"EXPLAIN {'QUERY PLAN' if is_sqlite else 'FORMAT=TRADITIONAL'} {statement}", parameters)
        names = [column[0] for column in cursor.description]
        lines = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if is_sqlite:
        steps = [str(line["detail"]).split() for line in lines]
        return [step[1] for step in steps if step[0] == "SCAN" and step[1] in METADATA.tables and "INDEX" not in step]
    return [str(line["table"]) for line in lines if line["type"] == "ALL" and line["table"] in METADATA.tables]


@pytest.mark.parametrize("name", QUERIES)
def test_it_is_found_by_an_index(engine: sa.Engine, name: str) -> None:
    with asked(engine) as statements:
        QUERIES[name](engine)
    read = [one for one in statements if one[0].lstrip().startswith("SELECT")]
    assert read, "nothing was asked"
    assert {statement: found for statement, given in read if (found := scans(engine, statement, given))} == {}


def test_a_query_without_an_index_is_noticed(engine: sa.Engine) -> None:
    table = METADATA.tables["table_interval"]
    with asked(engine) as statements, engine.connect() as connection:
        connection.execute(sa.select(table.c.rows).where(table.c.changed_at == 5))
    assert scans(engine, *statements[-1]) == ["table_interval"]
