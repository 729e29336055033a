"""Lines that are written a column at a time are, byte for byte, those that are written value by value."""

from __future__ import annotations

import math
from decimal import Decimal

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.changes.arrow import INVALID, MISSING, change_schema
from strata_cdc.changes.jsonl import TableLines
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.position.sets import Gtid, GtidSet, Sid
from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from strata_cdc.streams.decoding import StreamBatch
from strata_cdc.streams.events import Along, StreamTransaction
from strata_cdc.streams.positions_along import ExecutedAlong
from strata_cdc.streams.transaction_texts import time_text
from strata_cdc.streams.writing import Writing, message
from tests.streams.batches import batch_of_gtids

TABLE = TableName('a"b', "tä\\ble")
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
TIMES = st.integers(-838 * 3_600_000_000 - 3_599_999_999, 838 * 3_600_000_000 + 3_599_999_999)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["", '"', "\\", "\x00\x01\x1f\x7f\u2028", "\b\t\n\f\r", "😀é", "a" * 300, 'x"' * 40]
)
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda value: Decimal(value).scaleb(-scale))


TYPES: dict[str, st.SearchStrategy[object]] = {
    "tinyint": st.integers(-128, 127),
    "smallint unsigned": st.integers(0, 65535),
    "mediumint": st.integers(-(1 << 23), (1 << 23) - 1),
    "int unsigned": st.integers(0, (1 << 32) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "bigint unsigned": st.integers(0, (1 << 64) - 1).map(Decimal),
    "decimal(18,4)": decimals(18, 4),
    "decimal(38,30)": decimals(38, 30),
    "decimal(9,8)": decimals(9, 8),
    "decimal(65,2)": st.sampled_from(["0.00", "-1.50", "9" * 63 + ".99"]),
    "float": SINGLES,
    "double": DOUBLES,
    "bit(1)": st.booleans(),
    "bit(12)": st.integers(0, 4095),
    "bit(64)": st.integers(0, (1 << 64) - 1).map(Decimal),
    "date": st.dates(),
    "datetime": MICROS,
    "datetime(3)": MICROS,
    "timestamp(6)": MICROS,
    "time": TIMES,
    "time(1)": TIMES,
    "time(6)": TIMES,
    "year": st.sampled_from([0, 1901, 2155]),
    "char(12)": TEXTS,
    "longtext": TEXTS,
    "enum('a','b')": st.sampled_from(["a", "b"]),
    "set('a','b')": st.sampled_from(["", "a", "a,b"]),
    "json": st.sampled_from(['{"a": "b\\n"}', "[1, 2]", "null", '"😀"']),
    "binary(4)": st.binary(min_size=4, max_size=4),
    "varbinary(40)": st.binary(max_size=40),
    "blob": st.binary(max_size=9),
    "geometry": st.just({"srid": 4326, "wkb": b"\x01\x02"}),
    "vector(2)": st.lists(SINGLES, min_size=2, max_size=2),
}
DEFINITION = TableDefinition(
    columns=tuple(
        Column(name=f'{at} "{name}"', column_type=name, nullable=True) for at, name in enumerate(sorted(TYPES))
    ),
    keys=(),
    character_set="utf8mb4",
    collation="utf8mb4_0900_ai_ci",
    engine=None,
)
IMAGES = st.fixed_dictionaries({column.name: st.none() | TYPES[column.column_type] for column in DEFINITION.columns})
ROWS = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "delete"]), IMAGES, IMAGES, st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


def batch_of(rows, definition=DEFINITION, **facts):
    schema = change_schema(definition)
    own = len(definition.columns)
    count = len(rows)
    columns = [
        pa.array([after[column.name] if op != "delete" else None for op, _, after, _ in rows], schema.field(at).type)
        for at, column in enumerate(definition.columns)
    ]
    befores = [before if op != "insert" else None for op, before, _, _ in rows]
    values = {
        "_op": [op for op, *_ in rows],
        "_gtid": [f"{UUID}:{seq}" for seq in seqs_of(rows)],
        "_seq": seqs_of(rows),
        "_row": list(range(count)),
        "_missing": [None] * count,
        "_invalid": [None] * count,
    } | facts
    kinds = {field.name: field.type for field in list(schema)[own + 1 :]}
    arrays = [pa.array(values.get(name, [None] * count), kind) for name, kind in kinds.items()]
    made = pa.RecordBatch.from_arrays([*columns, pa.array(befores, schema.field(own).type), *arrays], schema=schema)
    return ChangeBatch(TABLE, 1, definition, made)


def seqs_of(rows):
    return np.cumsum([10] + [more for *_, more in rows[1:]]).tolist()


def place_of(seq, statements=0):
    batch = batch_of_gtids([Gtid(Sid(UUID), seq)], [1_700_000_000_000_000 + seq], first_seq=seq)
    executed = ExecutedAlong(GtidSet.parse(f"{UUID}:1-{seq - 1}"), batch, 0)
    return StreamTransaction(Along('so"urce', "first", executed, {}), batch, 0, statements)


def one_by_one(batch, positions):
    """As lines were written before: a dictionary a row."""
    for line in TableLines(batch.table, batch.definition).objects(batch.batch):
        place = positions[line["seq"]]
        line["token"] = place.steps.text(place.statements + line["row"] + 1)
        line["committed_at"] = time_text(place.record.committed_at)
        line["source"] = place.before.source
        yield line["token"], msgspec.json.encode(line)


def assert_same(batch):
    seqs = set(batch.batch.column(batch.batch.schema.get_field_index("_seq")).to_pylist())
    positions = {seq: place_of(seq, seq % 3) for seq in seqs}
    span, wanted = StreamBatch(positions, [batch]), list(one_by_one(batch, positions))
    assert Writing().lines(span).splitlines() == [line for _, line in wanted]
    found = Writing().messages(span)
    messages = b"".join(message(token, line) for token, line in wanted).decode()
    for separator in "\x85\u2028\u2029":
        messages = messages.replace(separator, f"\\u{ord(separator):04x}")
    assert found.data.decode() == messages
    assert len(messages.splitlines()) == 3 * len(wanted)
    assert (found.last, found.last_seq) == (wanted[-1][0], max(seqs))


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_all_types(rows):
    batch = batch_of(rows)
    assert_same(batch)
    if len(rows) > 1:
        # Arrow arrays that begin within their buffers.
        sliced = batch.batch.slice(1)
        assert_same(ChangeBatch(batch.table, 1, batch.definition, sliced))


@settings(max_examples=200, deadline=None)
@given(st.lists(SINGLES | st.integers(0, (1 << 24) - 1).map(float), min_size=1, max_size=50))
def test_floats_are_their_shortest_decimals(values):
    definition = TableDefinition(
        columns=(Column(name="f", column_type="float", nullable=True),),
        keys=(),
        character_set="utf8mb4",
        collation="utf8mb4_0900_ai_ci",
        engine=None,
    )
    kept = [value for value in map(float, np.array(values, np.float32)) if math.isfinite(value)]
    assert_same(
        batch_of(
            [("insert", {"f": None}, {"f": value}, 0) for value in kept] or [("insert", {"f": None}, {"f": 0.0}, 0)],
            definition,
        )
    )


@pytest.mark.parametrize(
    "facts", [{"_missing": [None, ["1", "_before.2"]]}, {"_invalid": [[('0 "bigint"', "x")], None]}]
)
def test_images_that_are_not_whole_are_written_value_by_value(facts):
    image = {column.name: None for column in DEFINITION.columns}
    kinds = {"_missing": MISSING, "_invalid": INVALID}
    [(name, values)] = facts.items()
    rows = [("update", image, image, 0), ("insert", image, image, 1)]
    assert_same(batch_of(rows, **{name: pa.array(values, kinds[name])}))
