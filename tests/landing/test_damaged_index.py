"""The index beside a segment, damaged in any way: found, named, and made again by the next landing."""

from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.events.index import SUFFIX, SegmentIndex, check_index
from strata_cdc.errors import DamagedIndexError
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.repair import repair_landing
from tests.binlog.binlogs import SERVER
from tests.landing.test_landed import landed

if TYPE_CHECKING:
    from pathlib import Path

SEGMENTS = [[10, 20, 30], [40, 50], [60, 60, 70, 80]]


def all_of(lake: Path) -> list:
    return [record for _, record in LandedStream.open(str(lake), "s").records()]


def indexes(lake: Path) -> list[Path]:
    return sorted((lake / "landing" / "s").glob(f"*{SUFFIX}"))


def rebuilt(lake: Path) -> None:
    """Makes all indexes again: `landed` gives them several row groups, and so takes their checksums away."""
    for path in indexes(lake):
        path.unlink()
    repair_landing(landing_folder(str(lake), "s"))


@pytest.fixture
def lake(tmp_path) -> Path:
    landed(tmp_path, SEGMENTS)
    rebuilt(tmp_path)
    return tmp_path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 4  # in the first page
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def swap(path: Path) -> None:
    other = next(one for one in indexes(path.parents[2]) if one != path)
    shutil.copy(other, path)


def foreign(path: Path) -> None:
    """Of a segment that is called the same, in another lake."""
    elsewhere = path.parents[2] / "elsewhere"
    landed(elsewhere, [[1], [2, 3, 4, 5], [6], [7]], previous=f"{SERVER}:1-9")
    rebuilt(elsewhere)
    shutil.copy(indexes(elsewhere)[indexes(path.parents[2]).index(path)], path)


@pytest.mark.parametrize("damage", [truncate, flip, empty, swap, foreign])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_landing_makes_a_damaged_index_again(lake, damage, which):
    before, names = all_of(lake), [path.read_bytes() for path in indexes(lake)]
    path = indexes(lake)[which]
    damage(path)
    repair_landing(landing_folder(str(lake), "s"))
    assert all_of(lake) == before
    assert [one.read_bytes() for one in indexes(lake)] == names


@pytest.mark.parametrize("damage", [truncate, flip, empty, swap])
def test_readers_name_the_file_and_the_command(lake, damage):
    path = indexes(lake)[1]
    damage(path)
    with pytest.raises(DamagedIndexError, match="strata land") as caught:
        all_of(lake)
    assert caught.value.file == str(path)


def test_no_bit_of_an_index_turns_without_being_noticed(lake):
    """Readers give the same transactions or an error; landing notices each."""
    folder, path = landing_folder(str(lake), "s"), indexes(lake)[2]
    before, whole = all_of(lake), path.read_bytes()
    chance, read = random.Random(5), 0
    for at in range(0, len(whole), 5):
        data = bytearray(whole)
        data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        with pytest.raises(DamagedIndexError):
            check_index(folder, path.name)
        if at % 3:
            continue
        try:
            assert list(SegmentIndex.open(folder, path.name).records()) == before[-4:]
            read += 1
        except DamagedIndexError:
            continue
    assert read < len(whole) // 30


def test_the_first_segment_that_is_left_is_told_by_its_own_index(lake):
    """Those before it were deleted by age."""
    before = all_of(lake)
    for path in (lake / "landing" / "s").glob("0000000001*"):
        path.unlink()
    flip(indexes(lake)[0])
    repair_landing(landing_folder(str(lake), "s"))
    assert all_of(lake) == before[3:]


def test_what_was_seen_is_not_read_again(lake, monkeypatch):
    repair_landing(landing_folder(str(lake), "s"))
    path = indexes(lake)[1]
    was, data = path.stat(), path.read_bytes()
    flip(path)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    repair_landing(landing_folder(str(lake), "s"))
    assert path.read_bytes() != data
    (lake / "landing" / "s" / "checked.json").write_text("{")
    repair_landing(landing_folder(str(lake), "s"))
    assert path.read_bytes() == data
