"""What a power cut may take of a mirror: never a file that its log names, whenever it comes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.compact import compact, vacuum
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.log import read_snapshot
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.vectors import StoredVector
from strata_cdc.tables.delta.checkpoint import write_checkpoint
from tests.interposed import interposed
from tests.mirrors.delta_readers import by_deltalake
from tests.mirrors.model import COLUMNS, Model, opened, position, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Disk:
    """Knows which files the disk has: those that were synced since they were written."""

    def __init__(self) -> None:
        self._synced: set[int] = set()
        self.commits = 0

    def sync(self, sync: Callable[[int], None], handle: int) -> None:
        sync(handle)
        self._synced.add(os.fstat(handle).st_ino)

    def link(self, link: Callable[[Path, Path], None], temporary: Path, final: Path) -> None:
        lost = [path for path in (temporary, *_named(final.parents[1], temporary)) if not self.has(path)]
        assert lost == []
        link(temporary, final)
        self.commits += 1

    def has(self, path: Path) -> bool:
        return path.stat().st_ino in self._synced


def _named(table: Path, commit: Path) -> Iterator[Path]:
    """The files that a commit names, with the vectors."""
    for line in commit.read_bytes().splitlines():
        action: dict[str, Any] = msgspec.json.decode(line)
        if add := action.get("add"):
            yield table / add["path"]
            vector = StoredVector.of_log(add.get("deletionVector"), "")
            if vector is not None:
                yield table / vector.path


@pytest.mark.parametrize("mode", list(Mode))
def test_a_commit_comes_behind_all_that_it_names(tmp_path: Path, mode: Mode) -> None:
    disk = Disk()
    with interposed(disk.sync, (os, "fsync")), interposed(disk.link, (os, "link")):
        commit_often(str(tmp_path), mode)
    assert disk.commits == opened(str(tmp_path)).snapshot.version + 1


def commit_often(lake: str, mode: Mode) -> None:
    model = Model(4, limits=MirrorLimits(file_rows=8))
    model.live(60)
    model.create(lake, mode)
    for cut in (20, 30, 31, 32):
        model.bring(lake, cut)
    rest = model.changes(32).sort_by([("_seq", "ascending"), ("_row", "ascending")])
    pieces = [rest.slice(at, 9) for at in range(0, rest.num_rows, 9)]
    Applier(model.opened(lake)).apply(pieces[0], position(60), lambda: pieces[1:])
    compact(model.opened(lake))
    assert rows_of(opened(lake)) == model.states[60]


def checkpointed(lake: str) -> Model:
    """A mirror of 13 commits; with a checkpoint of each fourth."""
    model = Model(4, limits=MirrorLimits(checkpoint_commits=4))
    model.live(12)
    model.create(lake, Mode.DELETION_VECTORS)
    for seq in range(1, 13):
        model.bring(lake, seq)
    return model


def test_a_checkpoint_gets_its_name_once_the_disk_has_it(tmp_path: Path) -> None:
    disk, named = Disk(), list[str]()

    def replacing(replace: Callable[[Path, Path], Path], path: Path, target: Path) -> Path:
        if "checkpoint" in target.name:
            assert disk.has(path)
            named.append(target.name)
        return replace(path, target)

    with interposed(disk.sync, (os, "fsync")), interposed(replacing, (Path, "replace")):
        checkpointed(str(tmp_path))
    assert [name[17:20] for name in named[::2]] == ["004", "008", "012"]
    assert named[1::2] == ["_last_checkpoint"] * 3
    assert list(Path(opened(str(tmp_path)).url, "_strata").iterdir()) == []


@pytest.mark.parametrize("torn", [b"", b"PAR1", b"half"])
def test_a_torn_checkpoint_hides_no_commit(tmp_path: Path, torn: bytes) -> None:
    lake = str(tmp_path)
    model = checkpointed(lake)
    url = opened(lake).url
    log = Path(url, "_delta_log")
    last = log / f"{12:020}.checkpoint.parquet"
    last.write_bytes(last.read_bytes()[:2000] if torn == b"half" else torn)
    (log / f"{8:020}.checkpoint.parquet").write_bytes(torn)
    assert rows_of(opened(lake)) == model.states[12]
    # The log is cut behind one that is whole alone.
    vacuum(opened(lake), now_micros=1 << 60, retain_hours=0)
    assert min(one.name[17:20] for one in log.glob("*.json")) == "004"
    assert rows_of(opened(lake)) == model.states[12]
    write_checkpoint(url, 12)
    assert read_snapshot(url) == opened(lake).snapshot
    found = by_deltalake(url, None).select(list(COLUMNS)).to_pylist()
    assert sorted((tuple(row.values()) for row in found), key=repr) == model.states[12]


def test_what_a_killed_one_left_beside_the_log_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = str(tmp_path)
    checkpointed(lake)
    url = opened(lake).url
    old, new = (Path(url, "_strata", f"checkpoint-{name}") for name in ("old", "new"))
    for left in (old, new):
        (left / "_delta_log").mkdir(parents=True)
    os.utime(old, (0, 0))
    write_checkpoint(url, 12)
    assert not old.exists()
    assert new.exists()
