"""Columns that are one under all of their names, and which of them the settings call sensitive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.config.settings import SourceSettings
from strata_cdc.schema.ddl.dml import without_values
from strata_cdc.schema.history.one_column import columns_by_name
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.patterns import matches_column
from strata_cdc.selection.sensitive import sensitive_columns, unmatched_columns
from tests.schema.streams import Stream, track
from tests.schema.test_lineage import GH_OST, START

if TYPE_CHECKING:
    from strata_cdc.schema.history.sql_store import SchemaStore


def names(store: SchemaStore, *tables: str) -> list[set[str]]:
    found = columns_by_name(store, "s", [TableName("d", table) for table in tables])
    return sorted(({f"{table.table}.{column}" for table, column in one} for one in found), key=sorted)


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (("ALTER TABLE t RENAME COLUMN a TO c",), [{"t.a", "t.c"}, {"t.b"}]),
        (("ALTER TABLE t CHANGE a c INT", "ALTER TABLE t ADD a INT"), [{"t.a"}, {"t.a", "t.c"}, {"t.b"}]),
        (("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",), [{"t.a", "t.b"}, {"t.a", "t.b"}]),
        (("ALTER TABLE t DROP a", "ALTER TABLE t ADD a INT"), [{"t.a"}, {"t.a"}, {"t.b"}]),
        (("RENAME TABLE t TO u", "ALTER TABLE u RENAME COLUMN b TO c"), [{"t.a", "u.a"}, {"t.b", "u.b", "u.c"}]),
        (("DROP TABLE t", "CREATE TABLE t (a INT)"), [{"t.a"}, {"t.a"}, {"t.b"}]),
    ],
)
def test_a_column_goes_on_by_its_name_or_by_a_statement(
    store: SchemaStore, statements: tuple[str, ...], expected: list[set[str]]
) -> None:
    track(store, Stream(), *START, *statements)
    assert names(store, "t", "u") == sorted(expected, key=sorted)


def test_a_copy_that_is_swapped_in_is_the_table(store: SchemaStore) -> None:
    changed = GH_OST[2].replace("DROP COLUMN b, ADD c INT", "RENAME COLUMN b TO c")
    track(store, Stream(), *START, *GH_OST[:2], changed, *GH_OST[3:])
    assert {"t.b", "t.c", "_t_gho.b", "_t_gho.c", "_t_del.b"} in names(store, "t", "_t_del")


def sensitive(store: SchemaStore, patterns: list[str], *tables: str) -> dict[str, tuple[str, ...]]:
    settings = SourceSettings("-", sensitive=tuple(patterns))
    source: Any = SimpleNamespace(name="s", settings=settings)
    return sensitive_columns(source, store.engine, [TableName("d", table) for table in tables])


def test_what_is_sensitive_under_one_name_is_under_all(store: SchemaStore) -> None:
    track(
        store,
        Stream(),
        *START,
        "CREATE TABLE v (a INT, B INT)",
        "RENAME TABLE t TO u",
        "ALTER TABLE u RENAME COLUMN b TO c",
    )
    for patterns in (["d.t.b"], ["d.u.C"], ["*.t.b"], ["d.u.c", "d.nothing.x"]):
        assert sensitive(store, patterns, "t", "u", "v") == {"d.t": ("b",), "d.u": ("b", "c")}, patterns
    assert sensitive(store, ["d.t.b"], "u") == {"d.u": ("b", "c")}, "a run that does not have its former name"
    assert sensitive(store, ["d.u.c"], "t") == {"d.t": ("b",)}, "a run from before the rename"
    assert sensitive(store, ["*.*.b"], "v") == {"d.v": ("B",)}
    assert sensitive(store, [], "t", "u", "v") == {}
    settings = SourceSettings("-", sensitive=("d.t.b", "d.u.bb", "d.nothing.b", "*.*.zz"))
    source: Any = SimpleNamespace(name="s", settings=settings)
    assert [text.split('"')[1] for text in unmatched_columns(source, store.engine)] == ["d.u.bb", "d.nothing.b"]


def test_patterns_of_columns() -> None:
    table = TableName("Shop", "a.b")
    assert matches_column(table, "E.mail", ["Shop.a.b.e?mail"], folded=False)
    assert not matches_column(table, "mail", ["shop.*.mail"], folded=False)
    assert matches_column(table, "MAIL", ["shop.*.mail"], folded=True)


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("update t set a = 'x'", "UPDATE (sensitive)"),
        ("  INSERT INTO t VALUES ('x')", "INSERT (sensitive)"),
        ("/* x */ DELETE FROM t", "(sensitive)"),
    ],
)
def test_of_a_statement_its_verb_is_kept(statement: str, kept: str) -> None:
    assert without_values(statement) == kept
