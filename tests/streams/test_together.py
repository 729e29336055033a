"""Batches that are put together have the same rows, and those of other versions stay apart."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec.structs import replace

from strata_cdc.changes.port import ChangeBatch
from strata_cdc.streams.decoding import StreamBatch
from strata_cdc.streams.together import put_together
from tests.changes.live import steps

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDED = Path(__file__).parents[1] / "changes" / "recorded"


@pytest.fixture(scope="module", params=["every_type", "many_rows"])
def batches(request) -> list[ChangeBatch]:
    """Those of two versions of each table of a file, in small pieces."""
    found = []
    for one in steps(RECORDED / f"{request.param}.binlog", None):
        if isinstance(one, ChangeBatch):
            cuts = sorted(random.Random(one.batch.num_rows).choices(range(one.batch.num_rows + 1), k=4))
            for begin, end in zip([0, *cuts], [*cuts, one.batch.num_rows], strict=True):
                rows = one.batch.slice(begin, end - begin)
                found += [replace(one, batch=rows, version_id=version) for version in (1, 2)]
    return found


def rows_by_kind(batches: Sequence[ChangeBatch]) -> dict[object, pa.Table]:
    found: dict[object, list[pa.RecordBatch]] = {}
    for one in batches:
        found.setdefault(one.kind, []).append(one.batch)
    return {kind: pa.Table.from_batches(some).combine_chunks() for kind, some in found.items()}


def test_rows_are_the_same_and_in_order(batches: list[ChangeBatch]) -> None:
    part = StreamBatch({}, batches)
    found = put_together(part).batches
    assert len(found) == len({one.kind for one in batches})
    for kind, rows in rows_by_kind(found).items():
        assert rows.equals(rows_by_kind(batches)[kind])
        rows.validate(full=True)


def test_a_batch_does_not_grow_without_end(batches: list[ChangeBatch]) -> None:
    most = 2 * max(one.batch.nbytes for one in batches)
    found = put_together(StreamBatch({}, batches), most).batches
    assert len({one.kind for one in batches}) < len(found) < len(batches)
    assert all(one.batch.nbytes <= most for one in found)
    for kind, rows in rows_by_kind(found).items():
        assert rows.equals(rows_by_kind(batches)[kind])
