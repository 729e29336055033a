"""Change tables that an older version of Strata published in generations (`golden/generations`, made by its code)."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from strata_cdc.errors import Usage
from strata_cdc.tables.commit import publish
from strata_cdc.tables.layout import changes_url, table_url
from strata_cdc.tables.read import read_changes, read_columns
from tests.published import unpublished_files
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, changes, stage

GOLDEN = Path(__file__).parent / "golden" / "generations"
BIG = 1 << 40
IDS = [1, 2, BIG, 4]
PRICES: list[Any] = [Decimal("1.25"), Decimal("2.25"), Decimal("3.25"), "four"]
NEW = {"id": pa.int64(), "price": pa.decimal128(10, 2), "note": pa.string()}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, Path(changes_url(str(tmp_path), "any")).parent)
    return tmp_path


def put(lake: Path, interval: int, seq: int, row: dict[str, Any], version_id: int = 4) -> Any:
    batch = changes(NEW, [{"op": "update", "seq": seq, "before": row, "after": row}], version_id=version_id)
    return publish(str(lake), SOURCE, ORDERS, interval, stage(lake / "runs" / str(seq), batch, interval=interval))


def documented(lake: Path) -> list[dict[str, Any]]:
    """As anybody reads it who knows the documented path alone."""
    rows = DeltaTable(table_url(str(lake), SOURCE, ORDERS)).to_pyarrow_table().sort_by("_seq").to_pylist()
    for row in rows:
        for image in (row, row["_before"]):
            assert image["id"] is None or image["id__long"] is None
            image["id"] = image["id"] or image["id__long"]
            assert image["price"] is None or image["price__string"] is None
            image["price"] = image["price"] or image["price__string"]
    return rows


def test_they_are_read_before_anything_else_is_published(lake: Path) -> None:
    assert [part.num_rows for part in read_columns(str(lake), SOURCE, ORDERS)] == [2, 1, 1]
    found = read_changes(str(lake), SOURCE, ORDERS, columns=["id", "_seq"]).sort_by("_seq")
    assert found["id"].to_pylist() == IDS
    with pytest.raises(Usage, match="price"):
        read_changes(str(lake), SOURCE, ORDERS)


def test_the_next_publication_makes_one_table_of_them(lake: Path) -> None:
    put(lake, INTERVAL + 3 * FIVE_MINUTES, 5, {"id": 5, "price": Decimal("5.25")})
    rows = documented(lake)
    assert [row["id"] for row in rows] == [*IDS, 5]
    assert [row["price"] for row in rows] == [*PRICES, Decimal("5.25")]
    assert [row["_before"]["price"] for row in rows] == [*PRICES, Decimal("5.25")]
    assert [row["note"] for row in rows] == [None, None, "three", None, None]
    root = Path(table_url(str(lake), SOURCE, ORDERS))
    assert sorted(path.name for path in root.iterdir()) == ["_delta_log", "data"]
    assert [part.num_rows for part in read_columns(str(lake), SOURCE, ORDERS)] == [5]
    assert unpublished_files(str(lake), SOURCE, ORDERS) == []


def test_an_interval_that_had_rows_in_two_of_them_is_replaced_whole(lake: Path) -> None:
    commit = put(lake, INTERVAL + FIVE_MINUTES, 6, {"id": 6, "price": Decimal("6.25")})
    assert (commit.rows, commit.added_files, commit.removed_files) == (1, 1, 2)
    assert [row["id"] for row in documented(lake)] == [1, 4, 6]


def test_even_a_publication_of_nothing_does_it_and_does_it_once(lake: Path) -> None:
    for _ in range(2):
        assert publish(str(lake), SOURCE, ORDERS, INTERVAL + 9 * FIVE_MINUTES, []) is None
        assert [row["id"] for row in documented(lake)] == IDS


def test_rows_stay_where_their_folder_could_not_be_deleted(lake: Path) -> None:
    kept = lake / "kept"
    root = Path(table_url(str(lake), SOURCE, ORDERS))
    shutil.copytree(root / "_g2", kept)
    put(lake, INTERVAL + 3 * FIVE_MINUTES, 5, {"id": 5})
    # As it stands when the publication died between its commit and the clearing up.
    shutil.copytree(kept, root / "_g2")
    assert [part.num_rows for part in read_columns(str(lake), SOURCE, ORDERS)] == [5]
    put(lake, INTERVAL + 4 * FIVE_MINUTES, 6, {"id": 6})
    assert [row["id"] for row in documented(lake)] == [*IDS, 5, 6]
    assert not (root / "_g2").exists()
