"""A table that the process has opened before is read on from where its log ended, never from a log of another table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field

from strata_cdc.errors import LostTableError
from strata_cdc.tables.commit import publish
from strata_cdc.tables.delta import pool
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.lost import open_changes
from strata_cdc.tables.outputs import OUTPUT
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, inserts, stage

FIELDS = {"id": pa.int64()}


def put(lake: Path, number: int, fields: dict[str, pa.DataType] = FIELDS) -> None:
    staged = stage(lake / "runs" / str(number), inserts(fields, [{"id": number}]), interval=at(number))
    publish(str(lake), SOURCE, ORDERS, at(number), staged)


def at(number: int) -> int:
    return INTERVAL + number * FIVE_MINUTES


def url_of(lake: Path) -> str:
    return table_url(str(lake), SOURCE, ORDERS)


def files_of(lake: Path) -> set[str]:
    """The names of a table's files."""
    table = OUTPUT.open(url_of(lake))
    assert table is not None
    return {path.rpartition("/")[2] for path in table.files()}


def read_anew(lake: Path) -> set[str]:
    return {uri.rpartition("/")[2] for uri in DeltaTable(url_of(lake)).file_uris()}


def test_it_is_read_on_and_not_anew(tmp_path: Path) -> None:
    put(tmp_path, 0)
    assert len(files_of(tmp_path)) == 1
    opened = pool.reopen(url_of(tmp_path))
    assert opened is not None
    assert opened.table.version() == 1


def test_two_owners_have_a_table_each(tmp_path: Path) -> None:
    put(tmp_path, 0)
    first, second = OUTPUT.open(url_of(tmp_path)), OUTPUT.open(url_of(tmp_path))
    assert first is not None
    assert second is not None
    put(tmp_path, 1)
    third = OUTPUT.open(url_of(tmp_path))
    assert third is not None
    assert (first.version, second.version, third.version) == (1, 1, 2)


def test_commits_columns_checkpoints_and_cut_logs_of_others_are_seen(tmp_path: Path) -> None:
    """Other writers are another process: they do not use the tables that this one has opened."""
    for number in range(3):
        put(tmp_path, number)
    assert len(files_of(tmp_path)) == 3
    other = DeltaTable(url_of(tmp_path))
    other.alter.add_columns([Field.from_arrow(pa.field("extra", pa.int64()))])
    for _ in range(3):
        other.optimize.z_order(["id"])
        other = DeltaTable(url_of(tmp_path))
    other.create_checkpoint()
    for commit in sorted(Path(url_of(tmp_path), "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    assert files_of(tmp_path) == read_anew(tmp_path)
    put(tmp_path, 3, {"id": pa.int64(), "extra": pa.int64()})
    assert files_of(tmp_path) == read_anew(tmp_path)


@pytest.mark.parametrize("commits_after", [0, 1, 5])
def test_an_older_copy_of_the_table_is_not_the_table(tmp_path: Path, commits_after: int) -> None:
    lake, copy = tmp_path / "lake", tmp_path / "copy"
    put(lake, 0)
    shutil.copytree(lake, copy)
    for number in range(1, 3):
        put(lake, number)
    known = OUTPUT.open(url_of(lake))
    assert known is not None
    version = known.version
    del known
    shutil.rmtree(lake)
    shutil.copytree(copy, lake)
    if not commits_after:
        with pytest.raises(LostTableError, match="its newest version is 1"):
            open_changes(str(lake), SOURCE, ORDERS, version)
    for number in range(10, 10 + commits_after):
        put(lake, number)
    assert files_of(lake) == read_anew(lake)
    assert len(files_of(lake)) == 1 + commits_after


def test_a_commit_stands_though_the_storage_does_not_answer_afterwards(tmp_path: Path) -> None:
    put(tmp_path, 0)
    opened = pool.OpenTable(url_of(tmp_path), DeltaTable(url_of(tmp_path)))
    folder = Path(url_of(tmp_path))
    folder.rename(tmp_path / "away")
    folder.write_text("no folder")
    opened.note()
    assert not opened.renewed()
    folder.unlink()
    (tmp_path / "away").rename(folder)
    assert not opened.renewed()
    assert files_of(tmp_path) == read_anew(tmp_path)
