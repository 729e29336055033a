"""The model's stream, written as a changefeed's folder and read from there: the same rows, and the model's table."""

from __future__ import annotations

from functools import reduce

import pytest
from msgspec.structs import replace

from tests.model.jobs import Kind
from tests.model.replay import stream_state
from tests.model.shortest import all_rules, reachable
from tests.model.sink import KEY, SinkDdl, SinkRow, applied, sink_changes, sink_columns, users_rows
from tests.ticdc import generator, reading

KINDS = (Kind.ADD_COLUMN, Kind.DROP_COLUMN, Kind.ADD_INDEX, Kind.DROP_INDEX, Kind.TRUNCATE_TABLE)
"""Those for which it is enough to know when a DDL was done, on a table without partitions."""
FORMS = {
    "csv": generator.FeedForm(old_value=True, terminator="\n"),
    "canal": generator.FeedForm(protocol="canal-json"),
}
STREAMS = 15
"""So many of the longest streams of each kind."""


def columns_of(columns):
    key = generator.SinkColumn(KEY, pk=True, nullable=False)
    defaults = {column.name: None if column.default is None else str(column.default) for column in columns}
    return (key, *(generator.SinkColumn(column.name, column.type, default=defaults[column.name]) for column in columns))


def write_folder(folder, form, first, changes):
    """Each row in the directory of the last DDL before it, as TiCDC writes it; some of them twice, as after a restart,
    and some first into a file that no index names."""
    feed = generator.Feed(folder, form)
    table = feed.table("t", columns_of(first))
    for number, change in enumerate(changes):
        if isinstance(change, SinkDdl):
            ts = generator.START + change.finished_ts
            feed.ddl(table, ts, change.action, change.query, columns_of(change.columns))
            continue
        row = generator.Row(generator.START + change.commit_ts, change.new, change.old)
        if number % 3 == 0:
            feed.write(table, [row], indexed=False)
        for _ in range(1 + number % 2):
            feed.write(table, [row])
    feed.checkpoint(generator.START + 1_000_000)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_of_a_stream_gives_the_table_of_the_model(tmp_path, kind, form):
    done = [cluster for cluster in reachable(all_rules(kind), stream_state) if cluster.stream.ddl()]
    done.sort(key=lambda cluster: len(cluster.stream.changes), reverse=True)
    assert len(done) >= STREAMS
    for number, cluster in enumerate(done[:STREAMS]):
        changes = list(sink_changes(cluster.stream))
        folder = tmp_path / str(number)
        write_folder(folder, FORMS[form], sink_columns(cluster.stream.first), changes)
        got = reading.read(folder)
        assert got.error is None
        assert not got.aside
        assert not got.holes
        written = [change.commit_ts for change in changes if isinstance(change, SinkRow)]
        assert [ts - generator.START for ts, *_ in got.rows] == written
        values = {ts - generator.START: after for ts, _, _, _, after in got.rows}
        read = [
            change if isinstance(change, SinkDdl) else replace(change, new=values[change.commit_ts])
            for change in changes
        ]
        assert reduce(applied, read, {}) == users_rows(cluster)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [Kind.MODIFY_COLUMN, Kind.MULTI_SCHEMA])
def test_what_a_stream_lacks_is_told(tmp_path, kind, form):
    """Users' values come before the DDL that makes their column known."""
    done = [cluster for cluster in reachable(all_rules(kind), stream_state) if cluster.stream.ddl()]
    done.sort(key=lambda cluster: len(cluster.stream.changes), reverse=True)
    for number, cluster in enumerate(done[:STREAMS]):
        folder = tmp_path / str(number)
        write_folder(folder, FORMS[form], sink_columns(cluster.stream.first), list(sink_changes(cluster.stream)))
        assert len(reading.read(folder).holes) == len(cluster.stream.ddl())
