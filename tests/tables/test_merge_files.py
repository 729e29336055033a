"""Merging the files of an interval: the same rows in fewer files, in one commit that changes no row; for each output
behind the table port."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from strata_cdc.errors import AlreadyRunningError, DamagedFileError
from strata_cdc.runs.specs import Interval
from strata_cdc.tables import commit as commit_module
from strata_cdc.tables import merge_files as merge_module
from strata_cdc.tables.commit import TableCommit, publish
from strata_cdc.tables.delta.table import DeltaOutput
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.merge_files import MergedFiles, MergeLimits, delete_merged, merge_files
from strata_cdc.tables.read import read_columns
from tests.interposed import interposed
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, inserts, stage
from tests.tables.conformance.outputs import OUTPUTS, WRITES

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.tables.port import Output

FIELDS = {"id": pa.int32(), "name": pa.string()}
END = INTERVAL + 6 * FIVE_MINUTES
PER_INTERVAL = 10
HOURS_AGO = time.time() - 3 * 3600


class DiedError(BaseException):
    """The process is gone before one of its writes."""


def put(lake: Path, output: Output, number: int, rows: int = 3, **more: pa.DataType) -> TableCommit | None:
    """Publishes the interval with a number; its transactions begin with number * 10 + 1."""
    first = number * PER_INTERVAL + 1
    batch = inserts(FIELDS | more, [{"id": first + at, "name": f"n{at}"} for at in range(rows)], first_seq=first)
    start = INTERVAL + number * FIVE_MINUTES
    staged = stage(lake / "runs" / str(number), batch, interval=start, slice_key=f"{number}:{sorted(more)}")
    span = Interval(start, start + FIVE_MINUTES, first - 1, first - 1 + PER_INTERVAL, "")
    return publish(str(lake), SOURCE, ORDERS, start, staged, output, span=span)


def merged(lake: Path, output: Output, **given: Any) -> MergedFiles | None:
    return merge_files(str(lake), SOURCE, ORDERS, INTERVAL, END, known=None, output=output, **given)


def rows(lake: Path, output: Output) -> list[dict[str, Any]]:
    (found,) = read_columns(str(lake), SOURCE, ORDERS, output)
    return found.drop_columns(["_interval"]).sort_by([("_seq", "ascending"), ("_row", "ascending")]).to_pylist()


@pytest.fixture(params=OUTPUTS)
def output(request: pytest.FixtureRequest) -> Output:
    return OUTPUTS[request.param]


def test_files_become_few_and_rows_stay(tmp_path: Path, output: Output) -> None:
    for number in range(8):
        put(tmp_path, output, number, **({"extra": pa.int64()} if number >= 3 else {}))
    before, version = rows(tmp_path, output), output.open(table_url(str(tmp_path), SOURCE, ORDERS)).version
    done = merged(tmp_path, output)
    assert done == MergedFiles(version + 1, 18, 6, 2), "one file for each set of columns"
    assert rows(tmp_path, output) == before
    table = output.open(table_url(str(tmp_path), SOURCE, ORDERS))
    assert sorted(table.files().values()) == [INTERVAL, INTERVAL, END, END + FIVE_MINUTES]
    (commit,) = table.commits_since(version)
    assert not commit.changes_rows
    assert sorted(commit.removed) == [INTERVAL + number * FIVE_MINUTES for number in range(6)]
    for path, (low, high) in table.bounds("_seq").items():
        found = pq.read_table(Path(table_url(str(tmp_path), SOURCE, ORDERS)) / path, partitioning=None)
        seqs = found["_seq"].to_pylist()
        assert (seqs, seqs[0], seqs[-1]) == (sorted(seqs), low, high)
        assert set(found["_interval"].cast("int64").to_pylist()) == {table.files()[path]}
    assert merged(tmp_path, output) is None


def test_a_random_set_of_files(tmp_path: Path, output: Output) -> None:
    chance = random.Random(tmp_path.name)
    for number in range(6):
        for _ in range(chance.randrange(3)):
            more = {f"c{at}": pa.int32() for at in range(2) if chance.random() < 0.3}
            put(tmp_path, output, number, chance.randrange(1, PER_INTERVAL), **more)
        if chance.random() < 0.3:
            until = INTERVAL + number * FIVE_MINUTES
            merge_files(str(tmp_path), SOURCE, ORDERS, INTERVAL, until, known=None, output=output)
    put(tmp_path, output, 5)
    before = rows(tmp_path, output)
    small = MergeLimits(FileLimits(row_group_rows=chance.randrange(1, 8), file_bytes=chance.choice([1, 1 << 20])), 1)
    merged(tmp_path, output, limits=small)
    assert rows(tmp_path, output) == before


def test_an_interval_of_merged_files_is_published_again(tmp_path: Path, output: Output) -> None:
    """The same rows stay as they are; other rows replace exactly those of the interval."""
    for number in range(7):
        put(tmp_path, output, number)
    merged(tmp_path, output)
    before = rows(tmp_path, output)
    values = [{"id": row["id"], "name": row["name"]} for row in before if row["_seq"] <= 6 * PER_INTERVAL]
    seqs = [row["_seq"] for row in before if row["_seq"] <= 6 * PER_INTERVAL]

    def again(name: str) -> TableCommit | None:
        batches = [
            inserts(FIELDS, [{**value, "name": name or value["name"]}], first_seq=seq)
            for value, seq in zip(values, seqs, strict=True)
        ]
        staged = stage(tmp_path / "runs" / f"again{name}", *batches, interval=INTERVAL)
        span = Interval(INTERVAL, END, 0, 6 * PER_INTERVAL, "")
        return publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged, output, span=span)

    same = again("")
    assert same is not None
    assert (same.rows, same.added_files, same.removed_files) == (18, 0, 0)
    assert rows(tmp_path, output) == before
    other = again("x")
    assert other is not None
    assert (other.rows, other.added_files, other.removed_files) == (18, 1, 1)
    assert [row["name"] for row in rows(tmp_path, output)] == ["x"] * 18 + ["n0", "n1", "n2"]


@pytest.mark.parametrize("number", [0, 3])
def test_a_run_from_before_the_merge_publishes_nothing(tmp_path: Path, output: Output, number: int) -> None:
    for each in range(6):
        put(tmp_path, output, each)
    merged(tmp_path, output)
    before = rows(tmp_path, output)
    with pytest.raises(AlreadyRunningError, match="was merged with its neighbours"):
        put(tmp_path, output, number, rows=2)
    assert rows(tmp_path, output) == before


@pytest.mark.parametrize("damage", ["gone", "other bytes", "cut"])
def test_a_damaged_file_is_named_and_nothing_is_lost(tmp_path: Path, output: Output, damage: str) -> None:
    for number in range(6):
        put(tmp_path, output, number)
    url = Path(table_url(str(tmp_path), SOURCE, ORDERS))
    table = output.open(str(url))
    path = url / sorted(table.files())[3]
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-5] if damage == "cut" else content.replace(b"n1", b"m1", 1))
    with pytest.raises(DamagedFileError) as raised:
        merged(tmp_path, output)
    assert raised.value.file == str(path)
    assert output.open(str(url)).files() == table.files()
    path.write_bytes(content)
    assert merged(tmp_path, output) is not None


def test_a_merge_that_dies_before_any_write(tmp_path: Path, output: Output) -> None:
    died = 0
    for last in range(1, 100):
        lake = tmp_path / str(last)
        for number in range(6):
            put(lake, output, number)
        before, left = rows(lake, output), [last]

        def dying(write: Callable[..., Any], *given: Any, **named: Any) -> Any:
            left[0] -= 1  # noqa: B023  called in this round only
            if not left[0]:  # noqa: B023
                raise DiedError
            return write(*given, **named)

        with interposed(dying, *WRITES):
            try:
                merged(lake, output)
            except DiedError:
                died += 1
            else:
                break
        assert rows(lake, output) == before
        merged(lake, output)
        assert rows(lake, output) == before
        assert len(output.open(table_url(str(lake), SOURCE, ORDERS)).files()) == 1
    assert died >= 2


def test_a_publication_in_the_middle_of_a_merge(tmp_path: Path, output: Output) -> None:
    """It comes first, and the merge has its rows."""
    for number in range(6):
        put(tmp_path, output, number)
    is_first = [True]

    def between(write: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if is_first[0]:
            is_first[0] = False
            put(tmp_path, output, 6)
            put(tmp_path, output, 2, rows=5)
        return write(*given, **named)

    with interposed(between, (merge_module, "write_file")):
        done = merged(tmp_path, output)
    assert done is not None
    assert (done.rows, done.files_before) == (20, 6)
    assert len(rows(tmp_path, output)) == 23


@pytest.mark.parametrize("step", ["read_file", "write_file"])
def test_a_longer_merge_in_the_middle_that_deletes_what_is_read_or_written(tmp_path: Path, step: str) -> None:
    """The interval has become part of a longer one, whose merge another process has finished and cleaned up."""
    for number in range(6):
        put(tmp_path, DeltaOutput(), number)
    before, start, calls = rows(tmp_path, DeltaOutput()), INTERVAL + 2 * FIVE_MINUTES, []

    def between(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        calls.append(step)
        if len(calls) == 1:
            assert merged(tmp_path, DeltaOutput()) is not None
            assert delete_merged(str(tmp_path), SOURCE, ORDERS, INTERVAL, END, before=1 << 62) == 6
            if step == "write_file":
                raise FileNotFoundError("the folder is gone")
        return call(*given, **named)

    with interposed(between, (merge_module, step)):
        assert merge_files(str(tmp_path), SOURCE, ORDERS, start, END, known=None) is None
    assert rows(tmp_path, DeltaOutput()) == before


def test_a_merge_in_the_middle_of_a_publication(tmp_path: Path, output: Output) -> None:
    for number in range(6):
        put(tmp_path, output, number)
    before = rows(tmp_path, output)

    def between(write: Callable[..., Any], *given: Any, **named: Any) -> Any:
        merged(tmp_path, output)
        return write(*given, **named)

    with interposed(between, (commit_module, "write_file")), pytest.raises(AlreadyRunningError, match="merged"):
        put(tmp_path, output, 2, rows=5)
    assert rows(tmp_path, output) == before


def test_who_opened_the_table_before_reads_on_until_the_files_are_deleted(tmp_path: Path) -> None:
    output = OUTPUTS["delta"]
    for number in range(8):
        put(tmp_path, output, number)
    url = table_url(str(tmp_path), SOURCE, ORDERS)
    earlier = DeltaTable(url)
    merged(tmp_path, output)
    before = rows(tmp_path, output)
    assert earlier.to_pyarrow_table().num_rows == 24
    later = 1 + max(path.stat().st_mtime_ns for path in Path(url).rglob("*.parquet")) // 1000
    assert delete_merged(str(tmp_path), SOURCE, ORDERS, INTERVAL, END, before=later) == 6
    assert rows(tmp_path, output) == before
    assert sorted(path.name for path in (Path(url) / "data").iterdir()) == sorted(
        {path.split("/")[1] for path in output.open(url).files()}
    )
    assert delete_merged(str(tmp_path), SOURCE, ORDERS, INTERVAL, END, before=later) == 0


def test_the_log_is_cut_and_the_table_stays(tmp_path: Path, output: Output) -> None:
    for number in range(6):
        put(tmp_path, output, number)
    url = table_url(str(tmp_path), SOURCE, ORDERS)
    if isinstance(output, DeltaOutput):
        DeltaTable(url).create_checkpoint()
    version, before = output.open(url).version, rows(tmp_path, output)
    logs = [path for folder in ("_delta_log", "_manifests") for path in Path(url).glob(f"{folder}/*")]
    for path in logs:
        os.utime(path, (HOURS_AGO, HOURS_AGO))
    put(tmp_path, output, 6)
    trim = {"log_hours": 1, "removed_hours": 2}
    assert output.open(url).trim(**trim, needed=version - 3) >= version - 3
    commits = output.open(url).commits_since(version - 2)
    assert commits is not None
    assert [commit.added for commit in commits][:1] == [(INTERVAL + 4 * FIVE_MINUTES,)]
    assert output.open(url).trim(**trim, needed=None) >= 2
    table = output.open(url)
    assert table.commits_since(0) is None
    assert table.commits_since(table.version) == []
    assert rows(tmp_path, output)[: len(before)] == before
    put(tmp_path, output, 7)
    assert merged(tmp_path, output) is not None
    assert len(rows(tmp_path, output)) == 24
    assert output.open(url).trim(**trim, needed=None) == 0


def test_a_table_keeps_few_commits_and_files(tmp_path: Path) -> None:
    """By the product's own checkpoints, and with files of former versions of a table that nobody reads any more."""
    output = OUTPUTS["delta"]
    url = table_url(str(tmp_path), SOURCE, ORDERS)
    for number in range(120):
        put(tmp_path, output, number, 1)
    for path in Path(url).glob("_delta_log/*"):
        os.utime(path, (HOURS_AGO, HOURS_AGO))
    assert output.open(url).trim(log_hours=1, removed_hours=1, needed=None) >= 90
    assert len(list(Path(url).glob("_delta_log/*.json"))) < 40
    assert len(rows(tmp_path, output)) == 120


def test_publishing_keeps_the_log_short_by_itself(tmp_path: Path) -> None:
    """A table that nobody merges: what is older than a week is deleted where a checkpoint as old has it."""
    url = table_url(str(tmp_path), SOURCE, ORDERS)
    log = Path(url) / "_delta_log"
    for number in range(101):
        put(tmp_path, OUTPUTS["delta"], number, 1)
    days_ago = time.time() - 8 * 86_400
    for path in log.glob("*"):
        os.utime(path, (days_ago, days_ago))
    kept = len(list(log.glob("*.json")))
    for number in range(101, 202):
        put(tmp_path, OUTPUTS["delta"], number, 1)
    assert kept >= 100
    assert min(int(path.name[:20]) for path in log.glob("*.json")) >= 99
    assert len(list(log.glob("*.json"))) < 120
    assert len(rows(tmp_path, OUTPUTS["delta"])) == 202
    assert DeltaTable(url).version() >= 201
