"""Random changes, written with TiCDC's faults, are read exactly once and in order, by any form of folder."""

from __future__ import annotations

import base64
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.position.commit_ts import CommitStep
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.encodings import BinaryForm
from strata_cdc.ticdc.folder import FolderState
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.reading import read

COLUMNS = (
    SinkColumn("id", pk=True, nullable=False),
    SinkColumn("name", "VARCHAR", precision="40"),
    SinkColumn("raw", "VARBINARY", precision="20"),
)
ADDED = SinkColumn("extra", "BIGINT", default="7")
FORMS = {
    "csv": FeedForm(),
    "old values": FeedForm(old_value=True, terminator="\n", date="none", digits=6),
    "backslashes": FeedForm(quote="", delimiter="|", binary="hex", date="month"),
    "delimiter": FeedForm(delimiter="||", header=True, null="NULL", date="year"),
    "no quote, long delimiter": FeedForm(quote="", delimiter="$^$", old_value=True),
    "canal": FeedForm(protocol="canal-json", digits=12),
    "table ids": FeedForm(protocol="canal-json", table_ids=True, only_updated=True, terminator="\n"),
}
texts = st.none() | st.text(st.sampled_from('a",\\|\r\nN$^é\x1f null:{}'), max_size=6)
images = st.fixed_dictionaries({"name": texts, "raw": st.none() | st.binary(max_size=5)})
operations = st.tuples(st.sampled_from("IUD"), images, images)
transactions = st.lists(
    st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(1, 3)), operations, min_size=1, max_size=4),
    min_size=1,
    max_size=12,
)
faults = st.lists(
    st.tuples(
        st.integers(0, 11), st.integers(0, 11), st.sampled_from(["file", "directory", "dispatcher", "unindexed"])
    ),
    max_size=4,
)


def rows_of(drawn: Any, table: str, with_extra: bool) -> list[Row]:
    """The rows of one table in one transaction: deletes first, as TiCDC sorts them."""
    extra = {"extra": 5} if with_extra else {}
    rows = []
    for (name, key), (op, new, old) in drawn[1].items():
        if name == table:
            one, other = ({"id": key, **image, **extra} for image in (new, old))
            rows.append(Row(drawn[0], None if op == "D" else one, None if op == "I" else other))
    return sorted(rows, key=lambda row: row.op != "D")


def as_read(row: Row, table: str, form: FeedForm) -> tuple[Any, ...]:
    def shown(image: Any) -> Any:
        return image and tuple(sorted(image.items()))

    old = () if row.op == "U" and form.protocol == "csv" and not form.old_value else shown(row.old)
    return row.ts, f"shop.{table}", row.op, old, shown(row.new)


def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    def shown(image: Any) -> Any:
        decoded = image and {
            name: base64.b64decode(value) if name == "raw" and value is not None else value
            for name, value in image.items()
        }
        return decoded if decoded is None else tuple(sorted(decoded.items()))

    ts, table, op, before, after = row
    return ts, table, op[0].upper(), shown(before), shown(after)


class World:
    """A feed that writes drawn transactions, and what has to be read of it."""

    def __init__(self, folder: Path, form: FeedForm, drawn: Any, ddl_at: int | None) -> None:
        self.feed = Feed(folder, form)
        self.form = form
        self.tables = {name: self.feed.table(name, COLUMNS, id=100 + at) for at, name in enumerate("ab")}
        self.drawn = [(START + 10 * at, one) for at, one in enumerate(drawn, start=1)]
        self.ddl_at = None if ddl_at is None else START + 10 * ddl_at + 5
        self.expected: Counter[Any] = Counter()
        self.moved = 0

    def versions(self, name: str, ts: int) -> int:
        table = self.tables[name]
        return max(version for version in table.versions if version < ts)

    def write(self, begin: int, end: int, kind: str = "file") -> None:
        """Some transactions of each table, as one file for each version."""
        for name, table in self.tables.items():
            for version in sorted(table.versions):
                rows = [
                    row
                    for one in self.drawn[begin:end]
                    if self.versions(name, one[0]) == version
                    for row in rows_of(one, name, ADDED in table.versions[version])
                ]
                if rows:
                    self.write_rows(table, rows, version, kind)

    def write_rows(self, table: Any, rows: list[Row], version: int, kind: str) -> None:
        if kind == "directory" and version == max(table.versions) and rows[0].ts > version + 1:
            # The table has moved: its state is written again, as a version of its own.
            moved = rows[0].ts - 1 - self.moved % 2
            self.moved += 1
            if moved not in table.versions and moved > version:
                self.feed.ddl(table, moved, 0, "")
                version = moved
        dispatcher = f"d_{self.moved}" if kind == "dispatcher" else ""
        self.feed.write(table, rows, version, dispatcher, indexed=kind != "unindexed")

    def alter(self) -> None:
        if self.ddl_at is not None:
            query = "ALTER TABLE a ADD COLUMN extra BIGINT DEFAULT 7"
            self.feed.ddl(self.tables["a"], self.ddl_at, 5, query, (*COLUMNS, ADDED))

    def write_until(self, begin: int, end: int, again: list[tuple[int, int, Any]]) -> int:
        """Transactions and what is written twice of all before `end`; gives the checkpoint after them."""
        self.write(begin, end)
        for first, length, kind in again:
            if first + length <= end:
                self.write(first, first + length, kind)
        checkpoint = START + 10 * end + 3 if end < len(self.drawn) else START + 10_000
        self.feed.checkpoint(checkpoint)
        return checkpoint

    def expect(self, below: int, above: int = 0) -> Counter[Any]:
        return Counter(
            as_read(row, name, self.form)
            for one in self.drawn
            for name in self.tables
            for row in rows_of(one, name, name == "a" and self.ddl_at is not None and one[0] > self.ddl_at)
            if above < row.ts < below
        )


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25)
@given(drawn=transactions, again=faults, cut=st.integers(0, 12), ddl_at=st.none() | st.integers(0, 11))
def test_changes_are_read_once(form: str, drawn: Any, again: Any, cut: int, ddl_at: int | None) -> None:
    settings_ = CsvSettings(FORMS[form].null, BinaryForm(FORMS[form].binary), "UTC")
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name) / "sink", FORMS[form], drawn, ddl_at)
        world.alter()
        world.write(0, cut)
        world.write(cut, len(drawn))
        for begin, length, kind in again:
            world.write(begin, begin + length, kind)
        checkpoint = START + 10 * cut + 3
        world.feed.checkpoint(checkpoint)
        first = read(world.feed.folder, settings_)
        world.feed.checkpoint(START + 10_000)
        rest = read(world.feed.folder, settings_, first.end, first.state)
        for got, expected in ((first, world.expect(checkpoint)), (rest, world.expect(START + 10_000, checkpoint - 1))):
            assert got.error is None
            assert not got.aside
            assert Counter(map(plain, got.rows)) == expected
            assert max([*expected.values(), 0]) <= 1 or not expected
            order = sorted(zip(got.seqs, got.rows, strict=True))
            assert len(set(got.seqs)) == len(got.seqs)
            stamps = [row[0] for _, row in order]
            assert stamps == sorted(stamps)
        assert len(first.ddl) + len(rest.ddl) == (ddl_at is not None)
        assert read(world.feed.folder, settings_, rest.end, rest.state).rows == []


def test_deletes_of_a_transaction_come_first(tmp_path: Path) -> None:
    """A transaction that two nodes wrote: its deletes and inserts are in the files of both."""
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    rows = [{"id": key, "name": None, "raw": None} for key in (1, 2)]
    feed.write(table, [Row(START + 1, old=rows[1]), Row(START + 1, new=rows[0])], dispatcher="y")
    feed.write(table, [Row(START + 1, old=rows[0]), Row(START + 1, new=rows[1])], dispatcher="x")
    feed.checkpoint(START + 2)
    got = read(tmp_path)
    in_order = [row for _, row in sorted(zip(got.seqs, got.rows, strict=True), key=lambda one: one[0])]
    assert [row[2] for row in in_order] == ["delete", "delete", "insert", "insert"]


def test_a_repeat_with_other_values_is_an_error(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    row = Row(START + 5, {"id": 1, "name": "a", "raw": None})
    feed.write(table, [Row(START + 1, {"id": 1, "name": "x", "raw": None}), row])
    feed.write(table, [replace(row, new={"id": 1, "name": "b", "raw": None})])
    feed.checkpoint(START + 9)
    got = read(tmp_path)
    assert "has other values" in str(got.error)
    assert "row 2" in str(got.error)


@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
def test_tables_without_a_key(tmp_path: Path, protocol: str) -> None:
    """A row cannot be told from its repeat, unless it has TiKV's key."""
    feed = Feed(tmp_path, FeedForm(protocol=protocol))
    keyed = feed.table("k", COLUMNS)
    table = feed.table("t", (SinkColumn("n"),))
    feed.write(keyed, [Row(START + 1, {"id": 1, "name": None, "raw": None})])
    feed.write(keyed, [Row(START + 9, {"id": 1, "name": None, "raw": None})])
    feed.write(table, [Row(START + 5, {"n": 1}, key=b"r1"), Row(START + 5, {"n": 1}, key=b"r2")])
    feed.write(table, [Row(START + 5, {"n": 1}, key=b"r1")])
    feed.checkpoint(START + 10)
    got = read(tmp_path)
    if protocol == "csv":
        assert "no primary key" in str(got.error)
        assert "row 1" in str(got.error)
        assert [row[1] for row in got.rows] == ["shop.k"]
    else:
        assert [row[1] for row in got.rows] == ["shop.k", "shop.t", "shop.t", "shop.k"]
    assert len(read(tmp_path, wanted=lambda name: name.table == "k").rows) == 2
    assert CommitStep(1) < CommitStep(1, is_ddl=True)
    assert FolderState() == FolderState()
