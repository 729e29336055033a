"""Texts out of Parquet pages: they are what Arrow reads, or are left to it; rules and hashes see no difference."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.changes.row_hashes import hash_rows
from strata_cdc.quality.checks.row_rules import ROW_JUDGES, RuleRows, judge_rows
from strata_cdc.quality.checks.rules import Rule
from strata_cdc.quality.checks.text_pages import texts_of_group
from strata_cdc.runs.verdict import Severity

APART = "DELTA_LENGTH_BYTE_ARRAY"
TEXTS = st.one_of(st.none(), st.just(""), st.text(max_size=4), st.integers(0, 3000).map(lambda size: "x" * size))
MANY = [None if at % 7 == 3 else f"value {at}" * (at % 5) for at in range(1500)]
DIGITS = [f"{at:011d}" * 10 for at in range(700)]


def written(column: pa.Array, *, nullable: bool = True, page: int = 100, **options: Any) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"t": column, "n": pa.array(range(len(column)))})
    table = table.cast(pa.schema([pa.field("t", column.type, nullable), *list(table.schema)[1:]]))
    form = {"compression": "zstd", "use_dictionary": False, "write_statistics": False, "column_encoding": {"t": APART}}
    pq.write_table(table, sink, data_page_size=page, write_batch_size=50, row_group_size=1000, **{**form, **options})
    return sink.getvalue()


def read(content: bytes) -> list[dict[str, pa.ChunkedArray]]:
    parquet = pq.ParquetFile(pa.BufferReader(content))
    groups = range(parquet.num_row_groups)
    return [texts_of_group(memoryview(content), parquet, group, {"t", "n"}) for group in groups]


def by_arrow(content: bytes) -> list[pa.ChunkedArray]:
    parquet = pq.ParquetFile(pa.BufferReader(content))
    return [parquet.read_row_group(group, columns=["t"])["t"] for group in range(parquet.num_row_groups)]


@given(st.lists(TEXTS, max_size=200), st.sampled_from([pa.string(), pa.binary()]), st.sampled_from([1, 500, 1 << 20]))
@example(MANY, pa.string(), 100)
@example(DIGITS, pa.binary(), 20_000)
@example([None] * 70, pa.string(), 1)
def test_texts_are_what_arrow_reads(texts, kind, page):
    column = pa.array([None if text is None else text.encode() for text in texts], pa.binary()).cast(kind)
    for nullable in (True, False) if column.null_count == 0 else (True,):
        content = written(column, nullable=nullable, page=page)
        found = [group["t"] for group in read(content)]
        assert found == by_arrow(content)
        for one in found:
            one.validate(full=True)


def test_pages_are_chunks():
    assert [one["t"].num_chunks > 5 for one in read(written(pa.array(MANY)))] == [True, True]


@pytest.mark.parametrize(
    "options",
    [
        {"column_encoding": {"t": "PLAIN"}},
        {"column_encoding": {"t": "DELTA_BYTE_ARRAY"}},
        {"column_encoding": None, "use_dictionary": True},
        {"compression": "snappy"},
        {"compression": "none"},
        {"write_statistics": True},
        {"data_page_version": "2.0"},
    ],
)
def test_other_forms_are_left_to_arrow(options):
    assert read(written(pa.array(MANY), **options)) == [{}, {}]


@pytest.mark.parametrize("column", [pa.array([["x"]] * 9), pa.array([{"t": "x"}] * 9), pa.array([1] * 9)])
def test_other_columns_are_left_to_arrow(column):
    assert read(written(column, column_encoding=None)) == [{}]


def test_columns_that_are_not_asked_for_are_not_read():
    content = written(pa.array(MANY))
    assert texts_of_group(memoryview(content), pq.ParquetFile(pa.BufferReader(content)), 0, {"n"}) == {}


@given(st.data())
def test_what_is_damaged_is_no_other_text_than_arrows(data):
    content = bytearray(written(pa.array(MANY[:120]), page=400))
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[data.draw(st.integers(4, footer - 1))] ^= data.draw(st.integers(1, 255))
    for texts in read(bytes(content)):
        if "t" in texts:
            texts["t"].validate()
            assert [texts["t"]] == by_arrow(bytes(content))


RULES = [
    ("expect_column_values_to_not_be_null", {}),
    ("expect_column_values_to_be_null", {}),
    ("expect_column_values_to_be_in_set", {"value_set": ["", "value 1"]}),
    ("expect_column_values_to_match_regex", {}),
    ("expect_column_value_lengths_to_be_between", {"max_value": 10}),
    ("expect_column_value_lengths_to_equal", {"value": 0}),
    ("expect_column_values_to_be_json_parseable", {}),
]


@pytest.mark.parametrize(("expectation", "kwargs"), RULES)
def test_rules_and_hashes_see_one_column(expectation, kwargs):
    assert expectation in ROW_JUDGES
    rule = Rule(expectation, Severity.ERROR, "why", {"column": "t", **kwargs}, members=("", "value 1"))
    content = written(pa.array(MANY))
    for texts, whole in zip(read(content), by_arrow(content), strict=True):
        count = len(whole)
        own = {
            "_op": pa.array(["insert"] * count),
            "_seq": pa.array(range(count)),
            "_row": pa.array([0] * count),
            "_missing": pa.nulls(count, pa.list_(pa.string())),
            "_invalid": pa.nulls(count, pa.map_(pa.string(), pa.string())),
        }
        at_once = RuleRows(pa.RecordBatch.from_pydict({**own, "t": whole.combine_chunks()}), str)
        assert judge_rows(RuleRows(pa.RecordBatch.from_pydict(own), str, texts=texts), rule) == judge_rows(
            at_once, rule
        )
        assert hash_rows([texts["t"]], count).tolist() == hash_rows([whole.combine_chunks()], count).tolist()
