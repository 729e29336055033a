"""Histories of the model as tables of a changefeed's folder, and what a reader of the folder makes of them.
Not here: the model's stream (`sink.py`), the files (`tests/ticdc/generator.py`)."""

from __future__ import annotations

from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tests.model.jobs import Kind
from tests.model.replay import stream_state
from tests.model.shortest import all_rules, reachable
from tests.model.sink import KEY, SinkDdl, SinkRow, applied, sink_changes, sink_columns
from tests.ticdc import generator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.model.cluster import Cluster
    from tests.model.sink import Rows, SinkColumn, Values
    from tests.ticdc.generator import Feed

EXACT = (Kind.ADD_COLUMN, Kind.DROP_COLUMN, Kind.ADD_INDEX, Kind.DROP_INDEX, Kind.TRUNCATE_TABLE)
"""Those for which it is enough to know when a DDL was done, on a table without partitions."""
LACKING = (Kind.MODIFY_COLUMN, Kind.MULTI_SCHEMA)
"""Those whose rows a folder may lack: users' values come before the DDL that makes their column known."""


def longest_histories(kind: Kind, count: int) -> list[Cluster]:
    """Histories in which a DDL was done, the longest first."""
    done = [cluster for cluster in reachable(all_rules(kind), stream_state) if cluster.stream.ddl()]
    done.sort(key=lambda cluster: len(cluster.stream.changes), reverse=True)
    assert len(done) >= count
    return list(islice(done, count))


def write_table(feed: Feed, name: str, history: Cluster) -> list[SinkDdl | SinkRow]:
    """Each row in the directory of the last DDL before it, as TiCDC writes it; some of them twice, as after a restart,
    and some first into a file that no index names. Gives what was written."""
    changes = list(sink_changes(history.stream))
    table = feed.table(name, _columns(sink_columns(history.stream.first)))
    for number, change in enumerate(changes):
        if isinstance(change, SinkDdl):
            ts = generator.START + change.finished_ts
            query = change.query.replace("TABLE t", f"TABLE {name}")
            feed.ddl(table, ts, change.action, query, _columns(change.columns))
            continue
        row = generator.Row(generator.START + change.commit_ts, change.new, change.old)
        if number % 3 == 0:
            feed.write(table, [row], indexed=False)
        for _ in range(1 + number % 2):
            feed.write(table, [row])
    return changes


def _columns(columns: Iterable[SinkColumn]) -> tuple[generator.SinkColumn, ...]:
    key = generator.SinkColumn(KEY, pk=True, nullable=False)
    defaults = {column.name: None if column.default is None else str(column.default) for column in columns}
    return (key, *(generator.SinkColumn(column.name, column.type, default=defaults[column.name]) for column in columns))


def table_of(changes: Iterable[SinkDdl | SinkRow], values: Mapping[int, Values | None]) -> Rows:
    """The table that a reader makes of its rows: their values after each change, by commit-ts."""
    read = [
        change if isinstance(change, SinkDdl) else replace(change, new=values[change.commit_ts]) for change in changes
    ]
    return reduce(applied, read, {})
