"""Definitions as values: their text and back, their stored form, their differences."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strata_cdc.errors import StoreFormatError
from strata_cdc.schema.apply.diff import diff
from strata_cdc.schema.ddl.context import STRICT_TRANS_TABLES, DdlContext
from strata_cdc.schema.ddl.read import read_ddl, read_ddl_or_gap
from strata_cdc.schema.model.binary_defaults import may_hide_bytes
from strata_cdc.schema.model.create_sql import create_table_sql
from strata_cdc.schema.model.definition import (
    FORMAT,
    Column,
    Key,
    KeyKind,
    KeyPart,
    TableDefinition,
    TableName,
    definition_from_json,
)
from strata_cdc.schema.model.types import Family, TypeKind, kinds_of, parse_column_type, shown_text
from strata_cdc.schema.replay.catalog import Catalog
from tests.schema.applied import applied
from tests.schema.golden import CASES, context_from
from tests.schema.sequences import Sequence


def golden_definitions() -> list[TableDefinition]:
    """Every definition that the golden cases go through."""
    found: dict[str, TableDefinition] = {}
    for path in sorted(CASES.glob("*.json")):
        catalog = Catalog()
        for step in json.loads(path.read_text())["steps"]:
            for event in step["events"]:
                changes = read_ddl_or_gap(event["statement"], context_from(event["context"]))
                for change in catalog.apply(changes):
                    if change.definition is not None:
                        found[change.definition.fingerprint] = change.definition
    return list(found.values())


GOLDEN = golden_definitions()
CONTEXT = DdlContext("d")
TEXT_CONTEXT = DdlContext("d", sql_mode=STRICT_TRANS_TABLES)
"""In which a key is as long as it is written, whatever the engine."""
NAME = TableName("d", "t")

definitions = st.sampled_from(GOLDEN)


def reread(definition: TableDefinition) -> TableDefinition:
    catalog = Catalog()
    catalog.put_database("d", "utf8mb4_0900_ai_ci")
    (change,) = catalog.apply(read_ddl(create_table_sql(NAME.table, definition), TEXT_CONTEXT))
    assert change.definition is not None, change.gap
    return change.definition


def _says_all(definition: TableDefinition) -> bool:
    """Whether SHOW CREATE TABLE says it: not the origin of an index, nor labels that are not what they look like, nor a
    length or a charset that is not known; nor, which the server forgets in it, characters beyond U+FFFF and the other
    name of an engine."""
    hidden = any(key.generated for key in definition.keys) or any(map(_hides, definition.columns))
    is_known = not definition.in_doubt and definition.character_set is not None
    return not hidden and is_known and definition.engine != "MERGE"


def _hides(column: Column) -> bool:
    is_odd = column.auto_increment and column.nullable
    texts = (column.column_type, column.default or "", column.comment)
    is_cut = may_hide_bytes(column)
    return is_odd or is_cut or column.label_bytes is not None or any(shown_text(text) != text for text in texts)


@pytest.mark.parametrize("definition", [one for one in GOLDEN if _says_all(one)], ids=lambda one: one.fingerprint[:8])
def test_text_and_back(definition: TableDefinition):
    assert reread(definition) == replace(definition, engine=definition.engine or "InnoDB")


def test_stored_form_and_back():
    for definition in GOLDEN:
        assert definition_from_json(definition.to_json()) == definition


@pytest.mark.parametrize(
    ("stored_format", "text", "lengths"),
    [
        (1, '{"columns":[{"column_type":"text","name":"a"}],"keys":[{"kind":"index","name":"k","parts":'
            '[{"column":"a","prefix_length":250}]}]}', (250,)),
        (2, '{"columns":[{"column_type":"text","name":"a"}],"keys":[{"kind":"index","name":"k","parts":'
            '[{"column":"a","lengths_in_doubt":[0,250]}]}]}', (None, 250)),
        (3, '{"columns":[{"column_type":"varbinary(5)","default":"0x61","default_bytes":"610062","name":"a"}],"keys":'
            '[{"kind":"index","name":"k","parts":[{"column":"a"}]}]}', (None,)),
        (4, '{"columns":[{"column_type":"date","name":"a"},{"column_type":"date","name":"b"},{"column_type":'
            '"timestamp(6)","generated":"stored","generation_expression":"ROW END","hidden":true,"name":"row_end",'
            '"nullable":false}],"keys":[{"hashed":true,"kind":"unique","name":"k","parts":[{"column":"a"}]}],"period":'
            '{"end":"b","name":"p","start":"a"},"versioned":true}', (None,)),
        (4, '{"columns":[{"column_type":"bigint(21)","name":"cycle_count"}],"keys":[{"hashed":null,"kind":"unique",'
            '"name":"k","parts":[{"column":"cycle_count"}]}],"sequence":true}', (None,)),
        (5, '{"columns":[{"column_type":"timestamp","name":"a","nullable":false,"on_update_in_doubt":true}],"keys":'
            '[{"kind":"index","name":"k","parts":[{"column":"a"}]}]}', (None,)),
    ],
)  # fmt: skip
def test_every_stored_form_opens(stored_format: int, text: str, lengths: tuple[int | None, ...]):
    definition = definition_from_json(text, stored_format)
    assert (definition.to_json(), definition.stored_format) == (text, stored_format)
    assert definition.keys[0].parts[0].lengths == lengths


def test_a_newer_stored_form_is_refused():
    with pytest.raises(StoreFormatError, match="Install"):
        definition_from_json("{}", FORMAT + 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"columns":[{"name":"a"}]}',
        '{"columns":[],"owner":"x"}',
        '{"columns":[{"name":1,"column_type":"int"}]}',
    ],
)
def test_what_is_no_definition_is_refused(text: str):
    with pytest.raises(StoreFormatError, match="cannot be read"):
        definition_from_json(text)


parts = st.builds(
    KeyPart,
    column=st.none() | st.text(),
    expression=st.none() | st.text(),
    prefix_length=st.none() | st.integers(1, 3072),
    lengths_in_doubt=st.sets(st.integers(0, 3072), max_size=3).map(lambda lengths: tuple(sorted(lengths))),
)
any_definition = st.builds(
    TableDefinition,
    columns=st.lists(st.builds(Column, st.text(), st.text(), default=st.none() | st.text(), comment=st.text())).map(
        tuple
    ),
    keys=st.lists(st.builds(Key, st.text(), st.sampled_from(KeyKind), st.lists(parts).map(tuple))).map(tuple),
    options=st.text(),
)


@given(any_definition)
def test_the_stored_form_is_canonical(definition: TableDefinition):
    """Fingerprints must not hang on what writes the JSON: keys in order, no blanks, no needless escapes."""
    text = definition.to_json()
    assert definition_from_json(text) == definition
    canonical = json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert text == canonical


def test_old_shapes_keep_their_fingerprints():
    assert definition_from_json('{"columns":[{"column_type":"int","name":"a"}]}').fingerprint == (
        hashlib.sha256(b'1:{"columns":[{"column_type":"int","name":"a"}]}').hexdigest()
    )


@given(definitions, definitions)
@settings(max_examples=300)
def test_applying_the_difference(a: TableDefinition, b: TableDefinition):
    assert applied(a, diff(a, b)) == b
    assert diff(a, a) == ()
    assert all(str(difference) for difference in diff(a, b))


@given(st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_differences_along_random_statements(random):
    catalog = Catalog()
    catalog.put_database("d", "utf8mb4_0900_ai_ci")
    for statement in Sequence(random, "d").statements(15):
        known = dict(catalog)
        for change in catalog.apply(read_ddl_or_gap(statement, CONTEXT)):
            before, after = known.get(change.name), change.definition
            if isinstance(before, TableDefinition) and after is not None:
                assert applied(before, diff(before, after)) == after


def test_every_column_type_reads_back():
    seen = {column.column_type for definition in GOLDEN for column in definition.columns}
    kinds = set()
    for text in seen:
        column_type = parse_column_type(text)
        kinds.add(column_type.kind)
        if "x'" not in text:
            assert column_type.text == text
    assert kinds == set(TypeKind) - kinds_of(Family.FIXED_BYTES) - {TypeKind.XMLTYPE}, "those of MariaDB"


def test_column_types_of_other_servers():
    assert parse_column_type("int(10) unsigned zerofill").zerofill
    assert parse_column_type("geometrycollection").kind is TypeKind.GEOMCOLLECTION
    assert parse_column_type("enum('a','it''s','b\\\\c','x,y','\\0\\n')").labels == ("a", "it's", "b\\c", "x,y", "\0\n")
    assert parse_column_type("enum('a',x'e9')").labels == ("a", "\ufffd")
