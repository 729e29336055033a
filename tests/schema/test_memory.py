"""The store of one process against the one that stays: the same stream, the same answers. Their histories are compared
in `test_history.py`, too."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strata_cdc.errors import AlreadyRunningError
from strata_cdc.schema.history.memory_store import MemoryStore
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import Before, TrackedPosition, VersionBatch
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from tests.schema.streams import SECOND, Stream, track

_KEPT = SchemaStore(open_store("sqlite://"))
_SOURCES = (f"source {number}" for number in count())
_STATEMENTS = (
    "create database d", "create database e", "drop database e", "alter database d charset latin1",
    "create table d.t (a int)", "create table d.u like d.t", "alter table d.t add b int", "drop table d.t",
    "rename table d.t to e.t", "create table d.u (c int)", "create view d.v as select 1", "drop view d.v",
    "create table 'unterminated", "create temporary table d.t (z int)", "",
)  # fmt: skip


def _bounds(last: int) -> list[Before]:
    bounds = [Before(), *(Before(seq=seq) for seq in range(last + 1))]
    for seq in range(last + 1):
        bounds += [
            Before(committed_at=(1_700_000_000 + seq) * SECOND),
            Before(first_seq=1, last_seq=last, binlog_file="binlog.000001", binlog_pos=157 + 100 * seq),
            Before(first_seq=seq, last_seq=seq, binlog_file="binlog.000001", binlog_pos=157 + 100 * seq),
        ]
    return bounds


def _everything(store, source: str, last: int) -> dict[str, object]:
    entries = store.all_entries(source)
    ids = {one: at for at, one in enumerate(sorted({entry.version_id for entry in entries}))}
    return {
        "position": store.position(source),
        "temporary": store.temporary_tables(source),
        "entries": [replace(entry, version_id=ids[entry.version_id]) for entry in entries],
        "ddl": [store.ddl(entry.version_id) for entry in entries],
        "definitions": [store.definition(entry.fingerprint) for entry in entries if entry.fingerprint],
        "timeline": [e.name for e in store.timeline(source, {TableName("d", "t"), TableName("", "")})],
        "names": [sorted(store.names(source, name), key=str) for name in ("d", "e", "f")],
        "in doubt": store.names_in_doubt(source),
        "databases": [store.database(source, name) for name in ("d", "e", "f", "")],
        "views": [sorted(store.views(source, name), key=str) for name in ("d", "e")],
        "files": [store.files(source), store.files(source, "binlog.000001"), store.files(source, "other")],
        "newest": [store.newest_position(source, before) for before in _bounds(last)],
    }


@given(st.lists(st.lists(st.sampled_from(_STATEMENTS), max_size=8), min_size=1, max_size=3))
@settings(max_examples=100)
def test_the_same_stream_gives_the_same_answers(runs):
    memory, source = MemoryStore(), next(_SOURCES)
    for store in (memory, _KEPT):
        stream = Stream()
        for at, run in enumerate(runs):
            track(store, stream, *run, source=source, file=f"binlog.{at + 1:06d}")
    last = sum(map(len, runs))
    assert _everything(memory, source, last) == _everything(_KEPT, source, last)


@pytest.mark.parametrize("store", [MemoryStore(), SchemaStore(open_store("sqlite://"))])
def test_two_trackers_cannot_both_win(store):
    position = store.append(VersionBatch(TrackedPosition("s")))
    store.append(VersionBatch(position))
    with pytest.raises(AlreadyRunningError):
        store.append(VersionBatch(position))
    with pytest.raises(AlreadyRunningError):
        store.append(VersionBatch(TrackedPosition("s")))
