"""Rows of one version that were committed while another version was valid: each kind of DDL, both ways. Never a wrong
value: a row is exact, or it is set aside with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.schema.model.quadrants import DdlKind, Quadrant
from strata_cdc.ticdc.quadrants import TREATMENTS
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn, with_ids
from tests.ticdc.reading import read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PLAIN = FeedForm()
ID = SinkColumn("id", pk=True, nullable=False)
A = SinkColumn("a", "VARCHAR", precision="10")
DDL = START + 100
LATE, EARLY = DDL + 5, DDL - 5
"""Committed after the DDL in the directory of the old version, and before it in that of the new one."""


def image(columns: Iterable[SinkColumn], **given: Any) -> dict[str, Any]:
    values = {"id": 1, "a": "x", "n": 5, "b": "y", "e": None}
    return {column.name: given.get(column.name, values.get(column.name)) for column in columns}


def world(
    folder: Path,
    kind: int,
    before: tuple[SinkColumn, ...],
    after: tuple[SinkColumn, ...],
    form: FeedForm = PLAIN,
    query: str = "ALTER TABLE t ...",
) -> Any:
    """Old data after the DDL, new data before it, and what is usual."""
    feed = Feed(folder, form)
    table = feed.table("t", before)
    feed.write(table, [Row(START + 1, image(before, id=9)), Row(LATE, image(before), image(before))])
    feed.ddl(table, DDL, kind, query, after)
    feed.write(
        table, [Row(EARLY, image(after, id=2)), Row(DDL, old=image(after, id=3)), Row(LATE + 9, image(after, id=8))]
    )
    feed.checkpoint(START + 999)
    got = read(folder)
    assert got.error is None
    # What is usual is never touched.
    usual = {ts: (old, new) for ts, _, _, old, new in got.rows if ts in {START + 1, LATE + 9}}
    assert usual == {START + 1: (None, image(before, id=9)), LATE + 9: (None, image(after, id=8))}
    assert len(got.rows) + len(got.aside) == 5
    assert len(set(got.seqs)) == 5
    return got


def at(got: Any, ts: int) -> tuple[Any, Any]:
    ((_, _, _, before, after),) = [row for row in got.rows if row[0] == ts]
    return before, after


def test_every_kind_of_ddl_has_a_treatment() -> None:
    assert set(TREATMENTS) == set(DdlKind)


@pytest.mark.parametrize("with_id", [True, False])
def test_add_column(tmp_path: Path, with_id: bool) -> None:
    added = (
        ID,
        SinkColumn("n", "BIGINT", default="7", nullable=False),
        A,
        SinkColumn("e", "ENUM", elems=("p",), default="p"),
    )
    before, after = (ID, A), added
    if with_id:
        before, after = (
            with_ids(before),
            tuple(replace(one, id=number) for one, number in zip(added, (1, 3, 2, 4), strict=True)),
        )
    got = world(tmp_path, 5, before, after)
    # Of an update without old values nothing is known before it, the new column neither.
    assert at(got, LATE) == ({}, {"id": 1, "n": 7, "a": "x", "e": "p"})
    assert at(got, EARLY) == (None, {"id": 2, "a": "x"})
    assert at(got, DDL) == ({"id": 3, "a": "x"}, None)
    assert not got.aside
    assert got.counts.quadrants.dropped == {("shop.t", "n"): 2}
    counted = got.counts.quadrants.rows
    assert counted["shop.t", DdlKind.ADD_COLUMN, Quadrant.OLD_NEW] == 1
    assert counted["shop.t", DdlKind.ADD_COLUMN, Quadrant.NEW_OLD] == 2
    assert counted["shop.t", DdlKind.ADD_COLUMN, Quadrant.NEW_NEW] == 1
    assert counted["shop.t", DdlKind.STATE, Quadrant.OLD_OLD] == 1


@pytest.mark.parametrize(
    "column",
    [
        SinkColumn("n", "BIGINT", nullable=False),
        SinkColumn("n", "DATETIME", default="CURRENT_TIMESTAMP"),
        SinkColumn("n", "BIT", precision="8", default="\x05"),
        SinkColumn("n", "BINARY", precision="8", default="ab"),
        SinkColumn("n", "DATE", default="0000-00-00"),
        SinkColumn("n", "DATE", default="CURRENT_DATE"),
        SinkColumn("n", "VARCHAR", precision="20", default="date_format(now(), _utf8mb4'%Y-%m')"),
        SinkColumn("n", "VARCHAR", precision="36", default="uuid()"),
    ],
    ids=lambda column: f"{column.type} {column.default!a}",
)
def test_a_default_that_is_not_known_is_not_filled(tmp_path: Path, column: SinkColumn) -> None:
    form = FeedForm(protocol="canal-json")
    feed = Feed(tmp_path, form)
    table = feed.table("t", (ID, A))
    feed.write(table, [Row(LATE, image((ID, A)))])
    feed.ddl(table, DDL, 5, "ALTER TABLE t ADD n ...", (ID, A, column))
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    assert got.rows == []
    assert got.aside == [(LATE, "shop.t", "insert", None, {"id": 1, "a": "x"})]
    assert "default of column n" in got.reasons[0]


def test_drop_column(tmp_path: Path) -> None:
    got = world(
        tmp_path,
        6,
        (ID, A, SinkColumn("b", "VARCHAR", precision="9", default="was")),
        (ID, A),
        FeedForm(old_value=True),
    )
    assert at(got, LATE) == ({"id": 1, "a": "x"}, {"id": 1, "a": "x"})
    assert at(got, EARLY) == (None, {"id": 2, "a": "x", "b": "was"})
    assert at(got, DDL) == ({"id": 3, "a": "x", "b": "was"}, None)
    assert got.counts.quadrants.dropped == {("shop.t", "b"): 2}


@pytest.mark.parametrize(
    ("old", "new", "is_exact"),
    [
        (("INT", None), ("BIGINT", None), True),
        (("INT UNSIGNED", None), ("BIGINT", None), True),
        (("INT", None), ("INT UNSIGNED", None), False),
        (("DECIMAL", "10"), ("DECIMAL", "20"), True),
        (("DECIMAL", "38"), ("DECIMAL", "39"), False),
        (("BIGINT", None), ("INT", None), False),
        (("INT", None), ("DOUBLE", "22"), False),
        (("VARCHAR", "10"), ("VARCHAR", "20"), True),
        (("VARCHAR", "20"), ("VARCHAR", "10"), False),
    ],
)
def test_modify_column(tmp_path: Path, old: Any, new: Any, is_exact: bool) -> None:
    before, after = (SinkColumn("n", kind, precision=precision) for kind, precision in (old, new))
    value: Any = "5" if old[0] in {"VARCHAR", "DECIMAL"} else 5
    feed = Feed(tmp_path, FeedForm(old_value=True))
    table = feed.table("t", (ID, before))
    feed.write(table, [Row(LATE, {"id": 1, "n": value}, {"id": 1, "n": None})])
    feed.ddl(table, DDL, 12, "ALTER TABLE t MODIFY n ...", (ID, after))
    feed.write(table, [Row(EARLY, {"id": 2, "n": value})])
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    row = (LATE, "shop.t", "update", {"id": 1, "n": None}, {"id": 1, "n": value})
    assert got.rows == ([row] if is_exact else [])
    # A value of the new type may be none of the old type.
    assert sorted(one[0] for one in got.aside) == ([EARLY] if is_exact else [EARLY, LATE])


@pytest.mark.parametrize("with_id", [True, False])
def test_a_column_that_was_renamed_is_known_by_its_id_alone(tmp_path: Path, with_id: bool) -> None:
    before, after = (ID, A), (ID, replace(A, name="b"))
    if with_id:
        before, after = with_ids(before), with_ids(after)
    feed = Feed(tmp_path, FeedForm(protocol="canal-json"))
    table = feed.table("t", before)
    feed.write(table, [Row(LATE, {"id": 1, "a": "x"}, {"id": 1, "a": None})])
    feed.ddl(table, DDL, 12, "ALTER TABLE t RENAME COLUMN a TO b", after)
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    if with_id:
        assert got.rows == [(LATE, "shop.t", "update", {"id": 1, "b": None}, {"id": 1, "b": "x"})]
    else:
        assert "have other columns" in got.reasons[0] or "lack columns" in got.reasons[0]


@pytest.mark.parametrize(("kind", "name"), [(7, "ADD_INDEX"), (17, "PROPERTIES"), (19, "ADD_PARTITION")])
def test_what_changes_no_row(tmp_path: Path, kind: int, name: str) -> None:
    got = world(tmp_path, kind, (ID, A), (ID, A))
    assert not got.aside
    assert got.counts.quadrants.rows["shop.t", DdlKind[name], Quadrant.OLD_NEW] == 1


@pytest.mark.parametrize("kind", [4, 11, 20, 32, 42, 61, 64, 99])
def test_what_changes_which_rows_there_are(tmp_path: Path, kind: int) -> None:
    """DROP, TRUNCATE, partitions, a new primary key, an exchange, several changes, and kinds that came later."""
    got = world(tmp_path, kind, (ID, A), (ID, A))
    assert sorted(row[0] for row in got.aside) == [EARLY, DDL, LATE]
    assert all("which changes which rows there are" in reason for reason in got.reasons)
    assert sum(got.counts.quadrants.quarantined.values()) == 3


def test_late_rows_of_a_table_that_was_renamed(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", (ID, A))
    feed.write(table, [Row(EARLY, image((ID, A))), Row(LATE, image((ID, A)))])
    table.name = "u"
    feed.ddl(table, DDL, 14, "RENAME TABLE `shop`.`t` TO `shop`.`u`")
    feed.write(table, [Row(LATE, image((ID, A)))])
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    assert [row[:2] for row in got.rows] == [(EARLY, "shop.t"), (LATE, "shop.u")]
    assert [row[:2] for row in got.aside] == [(LATE, "shop.t")]
    assert [sorted(map(str, one.tables)) for one in got.ddl] == [["shop.u"]]


def test_late_rows_of_a_database_that_was_dropped(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.database("shop", START, 1, "CREATE DATABASE `shop`")
    table = feed.table("t", (ID, A))
    feed.write(table, [Row(EARLY, image((ID, A))), Row(LATE, image((ID, A)))])
    feed.database("shop", DDL, 2, "DROP DATABASE `shop`")
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    assert [row[0] for row in got.rows] == [EARLY]
    assert [row[0] for row in got.aside] == [LATE]
    assert [(one.statement, one.databases, one.tables) for one in got.ddl] == [
        ("CREATE DATABASE `shop`", {"shop"}, set()),
        ("DROP DATABASE `shop`", {"shop"}, set()),
    ]


def test_both_tables_of_an_exchange_change_their_rows(tmp_path: Path) -> None:
    """The schema file of the other table has no DDL, as if the table had moved."""
    feed = Feed(tmp_path)
    tables = [feed.table(name, (ID, A)) for name in ("p", "t")]
    for table in tables:
        feed.write(table, [Row(LATE, image((ID, A)))])
    feed.ddl(tables[0], DDL, 42, "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t")
    feed.ddl(tables[1], DDL, 0, "")
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    assert got.rows == []
    assert sorted(row[1] for row in got.aside) == ["shop.p", "shop.t"]
    assert len(got.ddl) == 1


def test_rows_that_are_older_than_every_version(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", (ID, A), ts=DDL)
    feed.write(table, [Row(EARLY, image((ID, A)))])
    feed.checkpoint(START + 999)
    assert f"not later than the first schema of their table, at commit-ts {DDL} (" in read(tmp_path).reasons[0]


@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
def test_a_new_order_of_columns_has_the_same_checksum(tmp_path: Path, protocol: str) -> None:
    """TiCDC may go on in the directory of the older version: CSV does not show the order then."""
    b = SinkColumn("b", "VARCHAR", precision="10")
    feed = Feed(tmp_path, FeedForm(protocol=protocol))
    table = feed.table("t", (ID, A, b))
    feed.ddl(table, DDL, 12, "ALTER TABLE t MODIFY b VARCHAR(10) AFTER id", (ID, b, A))
    names = {path.name.rpartition("_")[2] for path in (tmp_path / "shop/t/meta").iterdir()}
    assert len(names) == 1
    feed.write(table, [Row(LATE, image((ID, A, b)))], version=START)
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    if protocol == "csv":
        assert "order of the columns" in got.reasons[0]
    else:
        assert got.rows == [(LATE, "shop.t", "insert", None, {"id": 1, "b": "y", "a": "x"})]


def test_a_column_that_was_dropped_and_added_again_is_another_one(tmp_path: Path) -> None:
    again = SinkColumn("a", "VARCHAR", precision="10", default="new")
    feed = Feed(tmp_path)
    table = feed.table("t", (ID, A))
    feed.write(table, [Row(LATE, image((ID, A)))])
    feed.ddl(table, DDL, 6, "ALTER TABLE t DROP a", (ID,))
    feed.ddl(table, DDL + 1, 5, "ALTER TABLE t ADD a VARCHAR(10) DEFAULT 'new'", (ID, again))
    feed.checkpoint(START + 999)
    assert read(tmp_path).rows == [(LATE, "shop.t", "insert", None, {"id": 1, "a": "new"})]


def test_texts_of_invalid_values_stay_with_their_columns(tmp_path: Path) -> None:
    date = SinkColumn("d", "DATE")
    feed = Feed(tmp_path, FeedForm(old_value=True))
    table = feed.table("t", (ID, date, SinkColumn("x", "DATE")))
    row = {"id": 1, "d": "0000-00-00", "x": "2020-00-01"}
    feed.write(table, [Row(LATE, row, row)])
    feed.ddl(table, DDL, 6, "ALTER TABLE t DROP x", (ID, date))
    feed.checkpoint(START + 999)
    expected = {"id": 1, "d": "0000-00-00"}
    assert read(tmp_path).rows == [(LATE, "shop.t", "update", expected, expected)]


N, WIDE = SinkColumn("n", "INT"), SinkColumn("n", "BIGINT")
B = SinkColumn("b", "VARCHAR", precision="10")
MULTIPLE, MODIFY, TRUNCATE_PARTITION, DROP_PARTITION = 61, 12, 23, 20


@pytest.mark.parametrize(
    ("kind", "before", "after", "query", "lacking"),
    [
        (MODIFY, (ID, N), (ID, WIDE), "ALTER TABLE t MODIFY n BIGINT", None),
        (MODIFY, (ID, WIDE), (ID, N), "ALTER TABLE t MODIFY n INT", "values of n"),
        (MODIFY, (ID, WIDE), (ID, replace(N, name="e")), "ALTER TABLE t CHANGE n e INT", "values of e"),
        (MODIFY, (ID, A), (ID, B), "ALTER TABLE t CHANGE a b VARCHAR(10)", None),
        (MULTIPLE, (ID, A), (ID, A, N, B), "ALTER TABLE t ADD n INT, ADD b VARCHAR(10)", None),
        (MULTIPLE, (ID, A), (ID, A, B), "ALTER TABLE t ADD b VARCHAR(10), drop index i", "values of b"),
        (MULTIPLE, (ID, A), (ID, B), "ALTER TABLE t DROP a, ADD b VARCHAR(10)", "values of b"),
        (MULTIPLE, (ID, A, WIDE), (ID, N), "ALTER TABLE t DROP a, MODIFY n INT", "values of n"),
        (TRUNCATE_PARTITION, (ID, A), (ID, A), "ALTER TABLE t TRUNCATE PARTITION p", "rows of the new partitions"),
        (DROP_PARTITION, (ID, A), (ID, A), "ALTER TABLE t DROP PARTITION p", None),
    ],
)
def test_what_users_wrote_before_a_ddl_was_done_and_no_file_has(
    tmp_path: Path,
    kind: int,
    before: tuple[SinkColumn, ...],
    after: tuple[SinkColumn, ...],
    query: str,
    lacking: str | None,
) -> None:
    got = world(tmp_path, kind, before, after, query=query)
    assert [hole.partition(" that were")[0].rpartition(": ")[2] for hole in got.holes] == ([lacking] if lacking else [])


@pytest.mark.parametrize("again", ["file", "directory", "dispatcher"])
def test_rows_that_are_set_aside_are_set_aside_once(tmp_path: Path, again: str) -> None:
    """TiCDC wrote them again after a restart, or when the table had moved; rows that only have the same key stay."""
    feed = Feed(tmp_path)
    columns = (ID, A, SinkColumn("d", "DATE"))
    table = feed.table("t", columns)
    late = [
        Row(LATE, {"id": 1, "a": None, "d": "0000-00-00"}),
        Row(LATE, old={"id": 1, "a": None, "d": None}),
        Row(LATE + 1, {"id": 2, "a": "x", "d": "2026-01-02"}, {"id": 2, "a": "y", "d": None}),
    ]
    other = Row(LATE, {"id": 1, "a": None, "d": "0000-00-01"})
    feed.write(table, late)
    if again == "directory":
        feed.ddl(table, START + 50, 0, "")
    feed.write(table, [other, late[0], *late], dispatcher="d_1" if again == "dispatcher" else "")
    feed.ddl(table, DDL, 11, "TRUNCATE TABLE t")
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    assert sorted(row[2] for row in got.aside) == ["delete", "insert", "insert", "update"]
    assert len(set(got.seqs)) == 4
    assert got.counts.repeats == {"shop.t": 4}


def test_rows_without_a_key_are_set_aside_as_often_as_they_were_written(tmp_path: Path) -> None:
    """Two equal rows may be two rows of a user, and no file shows it."""
    for protocol, expected in (("csv", 4), ("canal-json", 2)):
        feed = Feed(tmp_path / protocol, FeedForm(protocol=protocol))
        table = feed.table("t", (SinkColumn("n"),))
        late = [Row(LATE, {"n": 1}, key=b"r1"), Row(LATE, {"n": 1}, key=b"r2")]
        for _ in range(2):
            feed.write(table, late)
        feed.ddl(table, DDL, 11, "TRUNCATE TABLE t")
        feed.checkpoint(START + 999)
        assert len(read(tmp_path / protocol).aside) == expected


def test_a_row_that_came_again_with_the_new_schema_is_not_set_aside(tmp_path: Path) -> None:
    """TiCDC wrote it before the DDL was known to it, and after a restart with the schema that was valid."""
    feed = Feed(tmp_path)
    before, after = (ID, A), (ID, A, SinkColumn("n", default="CURRENT_TIMESTAMP", type="DATETIME"))
    table = feed.table("t", before)
    feed.write(table, [Row(LATE, {"id": key, "a": "x"}) for key in (1, 2)])
    feed.ddl(table, DDL, 5, "ALTER TABLE t ADD COLUMN n DATETIME DEFAULT CURRENT_TIMESTAMP", after)
    feed.write(table, [Row(LATE, {"id": 1, "a": "x", "n": "2026-01-02 03:04:05"})])
    feed.checkpoint(START + 999)
    got = read(tmp_path)
    assert [row[4]["id"] for row in got.rows] == [1]
    assert [row[4]["id"] for row in got.aside] == [2]
    assert got.counts.repeats == {"shop.t": 1}
