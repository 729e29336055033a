"""MariaDB logs the second of a statement's beginning with a transaction's first event, and that of the commit with its
last: rows have the time that positions, streams and moments have, landed or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.landing.landed import LandedStream
from strata_cdc.schema.model.definition import TableName
from strata_cdc.streams.decoding import StreamBatch
from strata_cdc.tables.read import read_changes
from tests.mariadb_server import start_mariadb
from tests.storm.source import NAME, StormSource
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
TABLE = TableName("shop", "t")
LARGE = "INSERT INTO t SELECT {} + seq, NULL, REPEAT('x', 10000) FROM seq_1_to_150; DO SLEEP(1.1);"
LIFE = f"""
INSERT INTO t SELECT 1, SLEEP(2.1), '';
BEGIN; INSERT INTO t VALUES (2, 0, ''); DO SLEEP(1.1); UPDATE t SET n = 1 WHERE id = 2; DO SLEEP(1.1); COMMIT;
INSERT INTO t VALUES (3, 0, '');
BEGIN; {LARGE.format(1000)} {LARGE.format(2000)} {LARGE.format(3000)} COMMIT;
XA START 'a'; INSERT INTO t VALUES (4, 0, ''); XA END 'a'; XA PREPARE 'a'; DO SLEEP(1.1); XA COMMIT 'a';
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[MysqlServer]:
    """Of which nothing has landed."""
    with start_mariadb(tmp_path / "server", "11.8") as running:
        yield running


def times_of(columns: Any) -> set[tuple[int, int]]:
    """Ordinals of transactions, and the times that rows have."""
    times = (columns.column(name).cast("int64").to_pylist() for name in ("_seq", "_committed_at"))
    return set(zip(*times, strict=True))


def test_rows_have_the_time_of_their_commit(
    own_server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TransactionScanner.__init__.__kwdefaults__, "split_bytes", 1 << 20)
    own_server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, n INT, pad TEXT)")
    world, readers = StormSource(own_server, tmp_path), World(own_server, tmp_path)
    with (tmp_path / "strata.toml").open("a") as settings:
        settings.write("slice_mb = 1\n")
    world.run()
    own_server.run_sql(LIFE, "shop")
    live = streamed(readers)
    world.run()
    plans = [json.loads(path.read_text()) for path in tmp_path.glob("lake/runs/s/*/plan.json")]
    assert max(len(plan["slices"]) for plan in plans) > 3, "some of them begin inside the large transaction"
    stream = LandedStream.open(world.lake, NAME)
    changed = [record for _, record in stream.records() if record.tables]
    expected = {(record.seq, record.committed_at) for record in changed if record.mark is None}
    expected |= {(record.seq, record.committed_at) for _, record in stream.records() if _commits(record)}
    assert len(expected) == 5
    assert times_of(read_changes(world.lake, NAME, TABLE, columns=["_seq", "_committed_at"])) == expected
    assert live == expected == streamed(readers)


def _commits(record: Any) -> bool:
    return record.mark is not None and record.mark.step.name == "COMMIT"


def streamed(readers: World) -> set[tuple[int, int]]:
    """The times of the rows of a stream, which are those of its transactions."""
    found: set[tuple[int, int]] = set()
    for span in readers.stream().spans():
        if isinstance(span, StreamBatch):
            for _, rows in span.rows:
                times = times_of(rows)
                assert times == {(seq, span.transactions[seq].record.committed_at) for seq, _ in times}
                found |= times
    return found
