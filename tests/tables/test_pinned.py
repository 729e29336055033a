"""A staged file that is not what was decoded is not published; what is published is no file that others write to."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.storage import content_digest
from strata_cdc.runs.verdict import IntervalVerdict
from strata_cdc.tables.commit import publish
from strata_cdc.tables.pinned import find_damage, read_pinned
from strata_cdc.tables.quarantine import put_in_quarantine
from strata_cdc.tables.read import read_changes
from tests.published import published_tables
from tests.tables.changes import INTERVAL, ORDERS, SOURCE, inserts, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.tables.write import StagedFile

FIELDS = {"id": pa.int32()}


def staged_in(lake: Path) -> tuple[StagedFile, ...]:
    """Two files, of two versions."""
    batches = inserts(FIELDS, [{"id": 1}]), inserts({"id": pa.int64()}, [{"id": 2}], version_id=2, first_seq=2)
    return stage(lake / "runs", *batches)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def exchange(path: Path) -> None:
    other = stage(path.parent / "other", inserts(FIELDS, [{"id": 7}]), slice_key="other")
    path.write_bytes(Path(other[0].url).read_bytes())


@pytest.mark.parametrize("damage", [cut, flip, exchange, Path.unlink])
@pytest.mark.parametrize("which", [0, 1])
def test_nothing_of_the_table_is_published(damage: Callable[[Path], None], which: int, tmp_path: Path) -> None:
    staged = staged_in(tmp_path)
    damage(Path(staged[which].url))
    with pytest.raises(DamagedFileError, match="a staged file") as caught:
        publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    assert (caught.value.file, caught.value.table) == (staged[which].url, "shop.orders")
    assert "Decode the run again" in str(caught.value)
    if published_tables(str(tmp_path), SOURCE):
        assert read_changes(str(tmp_path), SOURCE, ORDERS).num_rows == 0
    assert list(find_damage(staged)) == [staged[which].url]
    with pytest.raises(DamagedFileError):
        put_in_quarantine(str(tmp_path), SOURCE, "r", INTERVAL, staged, IntervalVerdict(SOURCE, INTERVAL, "d", ()))
    # The same slice decoded again.
    assert staged_in(tmp_path) == staged
    publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    assert sorted(read_changes(str(tmp_path), SOURCE, ORDERS)["id"].to_pylist()) == [1, 2]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_every_bit_counts(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    lake = tmp_path_factory.getbasetemp() / "bits"
    file = staged_in(lake)[0]
    assert read_pinned(file) == Path(file.url).read_bytes()
    content = bytearray(Path(file.url).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    Path(file.url).write_bytes(content)
    assert find_damage([file]) == {file.url: "has other bytes than those that were written"}


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    for file in staged_in(tmp_path):
        content = Path(file.url).read_bytes()
        assert (file.size_bytes, file.digest) == (len(content), content_digest(content))
    assert find_damage(staged_in(tmp_path)) == {}


def test_who_writes_to_a_staged_file_changes_nothing_that_is_published(tmp_path: Path) -> None:
    staged = staged_in(tmp_path)
    with ExitStack() as writers:
        files = [writers.enter_context(Path(file.url).open("r+b")) for file in staged]
        publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
        for file in files:
            file.write(b"\0" * 500)
    assert sorted(read_changes(str(tmp_path), SOURCE, ORDERS)["id"].to_pylist()) == [1, 2]


def test_what_lies_in_the_place_of_a_published_file_is_replaced(tmp_path: Path) -> None:
    staged = staged_in(tmp_path)
    publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    placed = sorted((tmp_path / "changes").rglob("*.parquet"))
    publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, [])
    for path in placed:
        path.write_bytes(b"put here by somebody")
    publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    assert sorted(read_changes(str(tmp_path), SOURCE, ORDERS)["id"].to_pylist()) == [1, 2]
