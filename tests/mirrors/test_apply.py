"""Changes applied to mirrors: any cut of the stream, twice, overlapping, killed, raced for; any kind of key."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import MirrorDivergedError
from strata_cdc.mirrors import compact as compacting
from strata_cdc.mirrors import data_files, key_index, log, vectors
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.compact import compact, vacuum
from strata_cdc.mirrors.histories import kept_beginning
from strata_cdc.mirrors.histories.beginning import beginning_of
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.modes import Mode
from tests.interposed import interposed
from tests.mirrors.model import Model, opened, position, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

KEYS = [("id",), ("t",), ("n", "id"), ("t", "id"), ()]
MODES = list(Mode)
LATE = 4 * 10**15
"""A time long behind all others, microseconds."""


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("mode", MODES)
def test_any_cut_of_the_stream_gives_the_rows(tmp_path: Path, key: tuple[str, ...], mode: Mode) -> None:
    for seed in range(4):
        model, lake = Model(seed, key), str(tmp_path / str(seed))
        model.live(60)
        model.create(lake, mode)
        cuts = [*sorted(Random(seed).sample(range(1, 60), 6)), 60]
        for cut in cuts:
            # All changes each time: what the mirror has already is passed over.
            mirror = model.bring(lake, cut)
            assert rows_of(mirror) == model.states[cut]
            assert mirror.position == position(cut)
            if cut % 3 == 0:
                compact(mirror)
        assert rows_of(opened(lake)) == model.states[60]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("mode", MODES)
def test_changes_in_pieces_are_one_commit(tmp_path: Path, key: tuple[str, ...], mode: Mode) -> None:
    """Rows of earlier pieces change again in later ones; files of theirs may end as dead as they were written."""
    for seed in range(4):
        model, lake, random = Model(seed, key), str(tmp_path / str(seed)), Random(seed)
        model.live(60)
        model.create(lake, mode)
        before = model.bring(lake, 20)
        ordered = model.changes(20).sort_by([("_seq", "ascending"), ("_row", "ascending")])
        cuts = [0, *sorted(random.sample(range(1, ordered.num_rows), 12)), ordered.num_rows]
        pieces = [ordered.slice(low, high - low) for low, high in pairwise(cuts)]
        mirror = Applier(before).apply(pieces[0], position(60), lambda pieces=pieces: pieces[1:])  # type: ignore[misc]
        assert mirror.snapshot.version == before.snapshot.version + 1
        assert rows_of(mirror) == rows_of(opened(lake)) == model.states[60]
        model.live(5)
        assert rows_of(model.bring(lake)) == model.states[65]


@pytest.mark.parametrize("key", KEYS)
def test_hashes_that_collide_lose_no_row(tmp_path: Path, key: tuple[str, ...]) -> None:
    model, lake = Model(7, key), str(tmp_path)
    model.live(50)
    with interposed(lambda hashes, columns, count: hashes(columns, count) % 3, (key_index, "hash_rows")):
        model.create(lake)
        for cut in range(5, 51, 5):
            assert rows_of(model.bring(lake, cut)) == model.states[cut]


def test_one_applier_goes_on_by_what_it_has_learnt(tmp_path: Path) -> None:
    model, lake = Model(3), str(tmp_path)
    model.create(lake)
    applier = Applier(opened(lake))
    for _ in range(12):
        model.live(5)
        mirror = applier.apply(model.changes(model.seq - 5), position(model.seq))
        assert rows_of(mirror) == model.states[model.seq] == rows_of(opened(lake))
        compact(mirror)


class Died(BaseException):
    """The process is gone before one of its writes."""


WRITES = (
    (data_files, "write_file"),
    (vectors, "write_file"),
    (log, "_put_if_absent"),
    (compacting, "delete_file"),
    (kept_beginning, "write_file"),
)


def dying(at: int) -> AbstractContextManager[None]:
    """Within the block, the process dies before its write number `at`; files are then as after the write before it."""
    count = 0

    def written(write: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        nonlocal count
        if count == at:
            raise Died
        count += 1
        return write(*arguments, **options)

    return interposed(written, *WRITES)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("work", ["create", "apply", "compact", "vacuum"])
def test_killed_around_any_write(tmp_path: Path, mode: Mode, work: str) -> None:
    model, base = Model(5, limits=MirrorLimits(checkpoint_commits=3)), tmp_path / "base"
    model.live(80)
    works: dict[str, tuple[int, Callable[[str], Any]]] = {
        "create": (0, lambda lake: model.create(lake, mode)),
        "apply": (60, lambda lake: model.bring(lake, 80)),
        "compact": (80, lambda lake: compact(model.opened(lake))),
        "vacuum": (80, lambda lake: vacuum(opened(lake), now_micros=LATE, retain_hours=0)),
    }
    start, do = works[work]
    if work != "create":
        model.create(str(base), mode)
        for cut in (20, 40, 60, 74, 77, 79, 80):
            if cut <= start:
                model.bring(str(base), cut)
        if work == "vacuum":
            compact(model.opened(str(base)))
    else:
        base.mkdir()
    deaths = 0
    for at in range(1000):
        lake = tmp_path / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(base, lake)
        with dying(at):
            try:
                do(str(lake))
            except Died:
                deaths += 1
        seen = Model.opened_or_none(str(lake))
        assert seen is None or beginning_of(seen) is not None
        assert seen is None or rows_of(seen) in (model.states[start], model.states[80 if work == "apply" else start])
        if seen is None or work != "create":
            do(str(lake))
        assert rows_of(opened(str(lake))) == model.states[80 if work == "apply" else start]
        assert rows_of(model.bring(str(lake), 80)) == model.states[80]
        if deaths == at:
            # It did not die: what is done twice is done once.
            break
    assert deaths


@pytest.mark.parametrize("mode", MODES)
def test_appliers_and_a_compaction_at_once(tmp_path: Path, mode: Mode) -> None:
    model, lake = Model(11), str(tmp_path)
    model.live(60)
    model.create(lake, mode)

    def bring(number: int) -> None:
        for cut in range(5 + number, 61, 5):
            model.bring(lake, cut)
        model.bring(lake, 60)

    def upkeep(_: int) -> None:
        for _ in range(5):
            compact(model.opened(lake))
            vacuum(opened(lake), now_micros=time.time_ns() // 1000, retain_hours=1)

    def read(_: int) -> None:
        for _ in range(25):
            mirror = opened(lake)
            assert rows_of(mirror) == model.states[mirror.position.seq]

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(work, number) for number, work in enumerate((bring, bring, upkeep, read))]
        for job in jobs:
            job.result()
    assert rows_of(opened(lake)) == model.states[60]


def test_changes_that_do_not_fit_are_told_and_change_nothing(tmp_path: Path) -> None:
    model, lake = Model(2), str(tmp_path)
    model.live(40)
    model.create(lake)
    model.bring(lake, 20)
    version = opened(lake).snapshot.version
    # What lies between has been left out: some of these rows are not there.
    with pytest.raises(MirrorDivergedError, match="does not fit"):
        Applier(opened(lake)).apply(model.changes(30), position(40))
    assert opened(lake).snapshot.version == version


def test_an_insert_of_a_key_that_is_there_is_told(tmp_path: Path) -> None:
    model, other, lake = Model(2), Model(2), str(tmp_path)
    model.live(10)
    model.create(lake)
    model.bring(lake)
    other.seq = 20
    other.live(30)
    with pytest.raises(MirrorDivergedError, match="does not fit"):
        Applier(opened(lake)).apply(other.changes(), position(50))
