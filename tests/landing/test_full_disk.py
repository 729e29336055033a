"""Storage that fills up while a landing writes: one clear error, nothing landed is harmed, the next run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.errors import LakeUnavailableError
from strata_cdc.landing.land_files import land_files
from strata_cdc.landing.landed import LandedStream
from tests.binlog.binlogs import SERVER, Binlog
from tests.disks import enlarge, no_file_above, small_disk

if TYPE_CHECKING:
    from pathlib import Path

FILES = 3
TRANSACTIONS = 1500
"""In each file: about 400 kB of segment and some tens of kB of index."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """Three files of one server."""
    folder = tmp_path_factory.mktemp("archive")
    gno = 0
    for number in range(1, FILES + 1):
        binlog = Binlog()
        binlog.previous(f"{SERVER}:1-{gno}" if gno else "")
        for _ in range(TRANSACTIONS):
            gno += 1
            binlog.insert(gno, [gno * 7919 % 10007], micros=1_700_000_000_000_000 + gno * 7919)
        (folder / f"binlog.{number:06d}").write_bytes(binlog.data)
    return folder


def contents(lake: Path) -> dict[str, bytes]:
    """What has landed."""
    return {path.name: path.read_bytes() for path in sorted((lake / "landing" / "s").glob("0*"))}


def lands_after_all(archive: Path, lake: Path, before: dict[str, bytes]) -> None:
    """The next run, with room, adds the rest to what is there."""
    assert not list((lake / "landing" / "s").glob("*.part"))
    report = land_files(str(archive), lake=str(lake), source="s")
    assert report.last_seq == FILES * TRANSACTIONS
    assert report.executed == f"{SERVER}:1-{FILES * TRANSACTIONS}"
    after = contents(lake)
    assert {name: after[name] for name in before} == before
    segments = LandedStream.open(str(lake), "s").segments
    landed = [(lake / "landing" / "s" / str(segment.name)).read_bytes() for segment in segments]
    assert landed == [path.read_bytes() for path in sorted(archive.iterdir())]


@pytest.mark.parametrize("room", [0, 100, 5_000, 20_000, 60_000, 200_000, 300_000])
def test_files_that_may_not_grow(archive, tmp_path, room):
    with no_file_above(room), pytest.raises(LakeUnavailableError) as caught:
        land_files(str(archive), lake=str(tmp_path), source="s")
    assert caught.value.source == "s"
    assert "harmed" in str(caught.value)
    lands_after_all(archive, tmp_path, contents(tmp_path))


def test_no_room_for_an_index_that_is_made_again(archive, tmp_path):
    land_files(str(archive), lake=str(tmp_path), source="s")
    landed = contents(tmp_path)
    for path in (tmp_path / "landing" / "s").glob(f"*{SUFFIX}"):
        path.unlink()
    for room in (0, 10_000, 20_000):
        with no_file_above(room), pytest.raises(LakeUnavailableError):
            land_files(str(archive), lake=str(tmp_path), source="s")
    lands_after_all(archive, tmp_path, {name: data for name, data in landed.items() if not name.endswith(SUFFIX)})


@pytest.mark.parametrize("room", [8 << 10, 128 << 10, 440 << 10, 468 << 10, 500 << 10, 900 << 10, 1 << 20])
def test_a_disk_that_fills_up(archive, tmp_path, room):
    with small_disk(tmp_path, room):
        with pytest.raises(LakeUnavailableError) as caught:
            land_files(str(archive), lake=str(tmp_path), source="s")
        assert caught.value.source == "s"
        assert "harmed" in str(caught.value)
        before = contents(tmp_path)
        enlarge(tmp_path, 4 << 20)
        lands_after_all(archive, tmp_path, before)
