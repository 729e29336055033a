"""The registry of column types is whole: every type has its entry in each table that needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.events.field_types import LOGGED_FIELDS
from strata_cdc.changes.arrow import ARROW_TYPES
from strata_cdc.changes.column_plans import GATHERS
from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.changes.select.forms import FORMS
from strata_cdc.flavour import Vendor
from strata_cdc.quality.checks.rules import TYPE_RULES
from strata_cdc.schema.apply.defaults import STORED_DEFAULTS
from strata_cdc.schema.model.logged_types import logged_as, type_logged_as
from strata_cdc.schema.model.types import (
    LABELLED,
    STRINGS,
    TEMPORAL_WITH_FRACTION,
    ColumnType,
    TypeKind,
    parse_column_type,
)
from tests.quality.compare_rows import FROM_SELECT

if TYPE_CHECKING:
    from collections.abc import Iterable

FAMILIES_WITH_DEFAULT = {kind.facts.family for kind in TypeKind if kind.facts.capacity is None}
TABLES: dict[str, tuple[Iterable[Any], dict[Any, Any]]] = {
    "events/field_types.py: LOGGED_FIELDS": (FieldType, LOGGED_FIELDS),
    "schema/apply/defaults.py: STORED_DEFAULTS": (FAMILIES_WITH_DEFAULT, STORED_DEFAULTS),
    "rows/arrow.py: ARROW_TYPES": (TypeKind, ARROW_TYPES),
    "rows/column_plans.py: GATHERS": (TypeKind, GATHERS),
    "rows/jsonl.py: JSON_VALUES": (TypeKind, JSON_VALUES),
    "rows/select/forms.py: FORMS": (TypeKind, FORMS),
    "checks/rules.py: TYPE_RULES": (TypeKind, TYPE_RULES),
    "jobs/prove/compare_rows.py: FROM_SELECT": (TypeKind, FROM_SELECT),
}


@pytest.mark.parametrize("table", TABLES)
def test_each_type_has_an_entry_in_each_table(table: str) -> None:
    needed, entries = TABLES[table]
    lacking = [each.name for each in needed if each not in entries]
    assert not lacking, f"no entry for {', '.join(lacking)} in include/strata_cdc/{table}"


def of_kind(kind: TypeKind) -> ColumnType:
    """A type of that kind, of a size that every server takes."""
    if kind in LABELLED:
        return ColumnType(kind, labels=("a", "b"))
    if kind is TypeKind.DECIMAL:
        return ColumnType(kind, 10, 2)
    return ColumnType(kind, 3 if kind.facts.default_length is not None else None)


@pytest.mark.parametrize("kind", TypeKind)
def test_the_text_of_a_type_is_read_back(kind: TypeKind) -> None:
    assert parse_column_type(of_kind(kind).text) == of_kind(kind)


@pytest.mark.parametrize("kind", TypeKind)
def test_what_a_type_is_logged_as_is_read_back(kind: TypeKind) -> None:
    column_type, wide = of_kind(kind), 4 if kind in STRINGS else 1
    for code, metadata in logged_as(column_type, wide):
        assert LOGGED_FIELDS[code].width(metadata) is not None
        found = type_logged_as(code, metadata, is_text=kind in STRINGS, wide=wide)
        # It may be another type with the same form (all geometries have one); labels stand elsewhere in a TABLE_MAP.
        assert (found.kind in STRINGS) is (kind in STRINGS)
        assert (code, metadata) in logged_as(replace(found, labels=column_type.labels), wide)


@pytest.mark.parametrize("kind", sorted(TEMPORAL_WITH_FRACTION))
def test_a_type_without_a_fraction_may_be_logged_in_its_old_form(kind: TypeKind) -> None:
    assert logged_as(ColumnType(kind, 0), 1) == {(kind.facts.code, 0), (kind.facts.old_code, 0)}
    assert logged_as(ColumnType(kind, 6), 1) == {(kind.facts.code, 6)}
    assert logged_as(ColumnType(kind, 6), 1, Vendor.MARIADB) == {(kind.facts.code, 6), (kind.facts.old_code, 0)}


def test_mariadb_logs_a_vector_as_bytes() -> None:
    assert logged_as(ColumnType(TypeKind.VECTOR, 3), 1, Vendor.MARIADB) == {(FieldType.VARCHAR, 12)}


COMPRESSIBLE = [kind for kind in TypeKind if kind.facts.compressed_code is not None]


@pytest.mark.parametrize("kind", COMPRESSIBLE)
def test_a_compressed_type_is_read_back(kind: TypeKind) -> None:
    column_type, wide = replace(of_kind(kind), compressed=True), 4 if kind in STRINGS else 1
    assert parse_column_type(column_type.text) == column_type
    assert column_type.text == f"{of_kind(kind).text} /*M!100301 COMPRESSED*/"
    [(code, metadata)] = logged_as(column_type, wide, Vendor.MARIADB)
    assert LOGGED_FIELDS[code].width(metadata) == LOGGED_FIELDS[kind.facts.code].width(metadata)
    if kind is not TypeKind.XMLTYPE:
        assert type_logged_as(code, metadata, is_text=kind in STRINGS, wide=wide) == column_type
