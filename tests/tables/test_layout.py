"""Names of columns and folders."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.delta.log import partition_value
from strata_cdc.tables.layout import METADATA, column_name, data_path, name_of_path, path_name, table_url
from tests.tables.changes import INTERVAL

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.from_regex(
    r"_*[a-zA-Z_@0-9]+", fullmatch=True
)


@given(NAMES)
def test_a_name_can_be_read_from_its_folder(name: str) -> None:
    part = path_name(name)
    assert re.fullmatch(r"(?!_)[A-Za-z0-9_@-]+", part)
    assert name_of_path(part) == name


@given(st.lists(NAMES | st.sampled_from(METADATA), unique_by=str.lower))
def test_columns_never_share_a_name_with_each_other_or_with_ours(names: list[str]) -> None:
    published = [column_name(name).lower() for name in names]
    assert len({*published, *METADATA}) == len(names) + len(METADATA)


@given(st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1, max_size=64))
@example("表" * 64)
@example("_" + "ü" * 63)
def test_no_name_that_mysql_takes_is_too_long_for_a_file_system(name: str) -> None:
    part = path_name(name)
    assert len(part) <= 255
    assert name_of_path(part) == name


def test_plain_names_stay_as_they_are() -> None:
    assert path_name("order_lines-2") == "order_lines-2"
    assert [column_name(name) for name in ("id", "_id", "_OP", "__op", "_sequence")] == [
        "id", "_id", "__OP", "___op", "_sequence",
    ]  # fmt: skip


def test_places() -> None:
    table = TableName("shop", "_orders_gho")
    assert table_url("s3://lake/", "main", table) == "s3://lake/changes/main/shop/@005forders_gho"
    assert data_path(INTERVAL, "a.parquet") == "data/20261121T033000.000000Z/a.parquet"
    assert partition_value(INTERVAL) == "2026-11-21T03:30:00.000000Z"
