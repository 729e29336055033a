"""Columns through renames: which column of one version is which of another."""

from __future__ import annotations

import pytest

from strata_cdc.schema.history.column_lifetimes import find_column_lifetimes
from strata_cdc.schema.history.lineage import lineage
from strata_cdc.schema.model.definition import TableName
from tests.schema.streams import Stream, track
from tests.schema.test_lineage import GH_OST, PT_OSC, START, T

RENAMED_COPY = (
    *GH_OST[:2],
    "alter /* gh-ost */ table d._t_gho RENAME COLUMN b TO c",
    "alter /* gh-ost */ table d._t_gho ADD COLUMN b INT",
    *GH_OST[3:],
)


def lifetimes(store, table=T):
    """Of each table that has had the name, of each column the names one after the other; `!` where it was dropped."""
    found = find_column_lifetimes(store, lineage(store, "s", table))
    return [
        [
            " ".join([step.name for step in column.steps] + ["!"] * (column.ended is not None))
            for column in lifetime.columns
        ]
        for lifetime in found
    ]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (("ALTER TABLE t RENAME COLUMN b TO c",), ["a", "b c"]),
        (("ALTER TABLE t CHANGE b c BIGINT", "ALTER TABLE t MODIFY c INT"), ["a", "b c c"]),
        (("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",), ["a b", "b a"]),
        (("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",) * 2, ["a b a", "b a b"]),
        (("ALTER TABLE t CHANGE a b INT, CHANGE b a INT",), ["a b", "b a"]),
        (("ALTER TABLE t RENAME COLUMN b TO c", "ALTER TABLE t RENAME COLUMN c TO b"), ["a", "b c b"]),
        (("ALTER TABLE t DROP b", "ALTER TABLE t ADD b INT"), ["a", "b !", "b"]),
        (("ALTER TABLE t DROP b, ADD b BIGINT",), ["a", "b !", "b"]),
        (("ALTER TABLE t RENAME COLUMN b TO c, ADD b INT",), ["a", "b c", "b"]),
        (("ALTER TABLE t DROP b, RENAME COLUMN a TO B",), ["a B", "b !"]),
        (("ALTER TABLE t CHANGE b B INT",), ["a", "b B"]),
        (("ALTER TABLE t COMMENT 'x'",), ["a", "b"]),
        (("RENAME TABLE t TO u", "ALTER TABLE u RENAME COLUMN b TO c", "RENAME TABLE u TO t"), ["a", "b c"]),
        (GH_OST, ["a", "b !", "c"]),
        (PT_OSC, ["a", "b !", "c"]),
        (RENAMED_COPY, ["a", "b c", "b"]),
    ],
)
def test_columns_are_followed(store, statements, expected):
    track(store, Stream(), *START, *statements)
    assert lifetimes(store) == [expected]


def test_a_table_that_is_made_again_begins_anew(store):
    track(store, Stream(), *START, "DROP TABLE t", "CREATE TABLE t (b INT, a INT)", "ALTER TABLE t CHANGE a c INT")
    assert lifetimes(store) == [["a", "b"], ["b", "a c"]]


def test_a_table_that_takes_the_name_is_another(store):
    track(store, Stream(), *START, "CREATE TABLE u (b INT)", "RENAME TABLE t TO v, u TO t")
    assert lifetimes(store) == [["a", "b"], ["b"]]
    assert lifetimes(store, TableName("d", "v")) == [["a", "b"]]


def test_a_column_keeps_its_kind_until_a_statement_changes_it(store):
    track(store, Stream(), *START, "ALTER TABLE t RENAME COLUMN b TO c", "ALTER TABLE t MODIFY a BIGINT",
          "ALTER TABLE t MODIFY a INT", "ALTER TABLE t ADD PRIMARY KEY (c)", "ALTER TABLE t DROP c")  # fmt: skip
    (lifetime,) = find_column_lifetimes(store, lineage(store, "s", T))
    a, c = lifetime.columns
    assert [[lifetime.keeps(column, 0, last) for last in range(len(lifetime.versions))] for column in (a, c)] == [
        [True, True, False, False, False, False],
        [True, True, True, True, False, False],
    ]
    assert lifetime.keeps(a, 3, 5)
