"""The log of a mirror cut off behind what is kept: each state that is kept opens in each reader, and no other does."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import DamagedFileError, LakeUnavailableError, Usage
from strata_cdc.mirrors import compact as compacting
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.apply_ddl import emptied
from strata_cdc.mirrors.compact import vacuum
from strata_cdc.mirrors.histories.beginning import beginning_of
from strata_cdc.mirrors.histories.kept_beginning import read_beginning
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.log import read_snapshot, readable_versions
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.table import Mirror
from tests.interposed import interposed
from tests.mirrors import model as models
from tests.mirrors.delta_readers import READERS, by_deltalake, by_polars
from tests.mirrors.model import COLUMNS, Model, position, rows_of
from tests.s3_server import BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable

_HOUR_MS = 3_600_000
NOW_MS = 10_000 * _HOUR_MS


OFTEN = MirrorLimits(checkpoint_commits=4)
opened = partial(models.opened, limits=OFTEN)


def aged(lake: str) -> int:
    """As if each commit had been made an hour before the next one, and the newest now. Gives its version."""
    log = Path(opened(lake).url, "_delta_log")
    newest = opened(lake).snapshot.version
    for version in readable_versions(opened(lake).url):
        path = log / f"{version:020}.json"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[0]["commitInfo"]["timestamp"] = NOW_MS - (newest - version) * _HOUR_MS
        path.write_text("\n".join(map(json.dumps, lines)))
    for file in [*Path(opened(lake).url).glob("data/*"), *Path(opened(lake).url).glob("_dv/*")]:
        os.utime(file, (0, 0))
    return newest


def lived(lake: str, mode: Mode = Mode.DELETION_VECTORS) -> Model:
    """A mirror of a commit a transaction."""
    model = Model(8, limits=OFTEN)
    model.live(30)
    model.create(lake, mode)
    for seq in range(1, 31):
        model.bring(lake, seq)
    return model


@pytest.mark.parametrize(
    ("mode", "hours"),
    [(Mode.DELETION_VECTORS, 0), (Mode.DELETION_VECTORS, 11), (Mode.DELETION_VECTORS, 40), (Mode.COPY_ON_WRITE, 3)],
)
def test_what_is_kept_opens_and_what_is_not_is_told(tmp_path: Path, mode: Mode, hours: int) -> None:
    lake = str(tmp_path)
    model, held = lived(lake, mode), opened(lake)
    newest = aged(lake)
    held = Mirror(held.source, held.table, read_snapshot(held.url, 2) or held.snapshot)
    done = vacuum(opened(lake), now_micros=NOW_MS * 1000, retain_hours=hours)
    kept = readable_versions(held.url)
    # A commit that was just made stays: nobody who reads the log now shall miss it.
    oldest = max(0, newest - max(hours, 1))
    assert kept[0] == oldest // 4 * 4
    assert done.log_files == (0 if kept[0] == 0 else kept[0] + kept[0] // 4 - 1)
    for version in range(max(newest - hours, kept[0]), newest + 1):
        state = Mirror(held.source, held.table, read_snapshot(held.url, version) or held.snapshot)
        rows = model.states[state.position.seq]
        assert state.snapshot.version == version
        assert rows_of(state) == rows
        at = Mirror.open(lake, "s", held.table, lambda one, seq=state.position.seq: one.seq <= seq)
        assert at is not None
        assert at.position == state.position
        for reader in (by_deltalake, by_polars):
            assert_rows(reader(held.url, version), rows)
    for reader in READERS:
        assert_rows(reader(held.url, None), model.states[30])
    if kept[0]:
        with pytest.raises(Usage, match="does not reach back"):
            Mirror.open(lake, "s", held.table, lambda one: one.seq < 2)
        with pytest.raises(DamagedFileError, match="no version"):
            read_snapshot(held.url, kept[0] - 1)
    # Who holds an older state finds the newest all the same, and never commits beside it.
    assert held.refreshed().snapshot.version == newest
    model.live(3)
    assert rows_of(Applier(held).apply(model.changes(), position(33))) == model.states[33]
    assert opened(lake).snapshot.version == newest + 1


def assert_rows(found: object, rows: list[tuple[object, ...]]) -> None:
    listed = found.to_pylist()  # type: ignore[attr-defined]
    assert sorted((tuple(row[name] for name in COLUMNS) for row in listed), key=repr) == rows


def test_the_history_begins_where_it_began(tmp_path: Path) -> None:
    lake = str(tmp_path)
    model = lived(lake)
    emptied(opened(lake), position(31), model.definition)
    model.seq, model.rows = 31, []
    model.live(20)
    for seq in range(32, 52):
        model.bring(lake, seq)
    before = beginning_of(opened(lake))
    assert before is not None
    assert set(before.emptied_at) == {31}
    for _ in range(2):
        newest = aged(lake)
        vacuum(opened(lake), now_micros=NOW_MS * 1000, retain_hours=2)
        assert readable_versions(opened(lake).url)[0] > newest - 8
        found = beginning_of(opened(lake))
        assert found is not None
        assert found.mirror.position == before.mirror.position
        assert found.mirror.definition == before.mirror.definition
        assert found.mirror.snapshot.files == before.mirror.snapshot.files
        assert found.emptied_at == before.emptied_at
        model.live(6)
        for seq in range(model.seq - 5, model.seq + 1):
            model.bring(lake, seq)
    # Made anew, it begins there.
    again = opened(lake)
    Mirror.create(lake, "s", again.table, model.definition, [again.to_arrow()], position(model.seq), replacing=again)
    made = beginning_of(opened(lake))
    assert made is not None
    assert made.mirror.position == position(model.seq)
    assert made.emptied_at == {}


FIRST = """{"format":1,"version":7,"emptied":[]}
{"commitInfo":{"strata.mirror_format":"1","strata.seq":"9","strata.gtid_executed":"","strata.committed_at":"5",\
"strata.schema_version":"3"}}
{"protocol":{"writerFeatures":["appendOnly","deletionVectors","invariants"]}}
{"metaData":{"id":"x","schemaString":"{}","configuration":{"strata.source":"s"},"createdTime":1}}
{"add":{"path":"data/a.parquet","partitionValues":{},"size":3,"modificationTime":1,"dataChange":true,\
"stats":"{\\"numRecords\\":2}"}}
"""
"""As format 1 was first written."""


def test_where_a_history_begins_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "_strata" / "beginning.json"
    path.parent.mkdir()
    path.write_text(FIRST)
    kept = read_beginning(str(tmp_path))
    assert kept is not None
    assert (kept.snapshot.version, kept.snapshot.position.seq, kept.snapshot.live_rows) == (7, 9, 2)
    for damaged in (FIRST.replace('"format":1', '"format":9'), FIRST[:80], "[]", ""):
        path.write_text(damaged)
        with pytest.raises(DamagedFileError, match=r"newer version|cannot be read") as caught:
            read_beginning(str(tmp_path))
        assert caught.value.remedy


@pytest.mark.slow
def test_the_log_is_cut_on_an_object_store(
    s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Whoever dies while it is cut leaves a log that opens, and that the next vacuum goes on with."""
    for name, value in {**s3_environment, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    lake = f"s3://{BUCKET}/{request.node.name}"
    model = Model(8, limits=OFTEN)
    model.live(14)
    model.create(lake, Mode.DELETION_VECTORS)
    for seq in range(1, 15):
        model.bring(lake, seq)
    held = opened(lake)
    deleted: list[str] = []

    def dying(delete: Callable[[str], None], url: str) -> None:
        if "_delta_log" in url:
            if len(deleted) == 5:
                raise LakeUnavailableError("the process died", file=url)
            deleted.append(url)
        delete(url)

    with interposed(dying, (compacting, "delete_file")), pytest.raises(LakeUnavailableError, match="died"):
        vacuum(held, now_micros=1 << 60, retain_hours=0)
    assert readable_versions(held.url)[0] == 8
    assert_rows(opened(lake).to_arrow(), model.states[14])
    assert vacuum(held, now_micros=1 << 60, retain_hours=0).log_files
    assert readable_versions(held.url) == [12, 13, 14]
    assert_rows(opened(lake).to_arrow(), model.states[14])
    assert_rows(by_deltalake(held.url, None), model.states[14])
    model.live(1)
    model.bring(lake, 15)
    assert_rows(opened(lake).to_arrow(), model.states[15])
    assert held.refreshed().position.seq == 15
