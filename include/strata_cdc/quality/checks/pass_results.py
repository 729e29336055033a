"""The result of the pass over all files of a run: of each file, and of the images that continue from one file to the
next.
Not here: the pass over a file (`one_pass.py`), where it runs (`quality/check_step/run_pass.py`), verdicts
(`pass_engine.py`)."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strata_cdc.quality.checks.before_after import Firsts, broken_between
from strata_cdc.quality.checks.kept_edges import MOST_BYTES, FileEdges, KeptEdges
from strata_cdc.quality.checks.profile import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.changes.row_hashes import Ints
    from strata_cdc.quality.checks.one_pass import FileResult, FileTask
    from strata_cdc.quality.checks.profile import FileProfile


class Between(NamedTuple):
    """What the files of one table, version and interval show about each other."""

    broken: int = 0
    """Images that do not follow from the last one of their key in the files before."""
    rows: tuple[tuple[tuple[int, int], int, int, str], ...] = ()
    """The first of them: where the file begins, the row in it, its side, and the file."""
    met: tuple[tuple[str, Ints], ...] = ()
    """By file, keys that are requested and that an earlier file has: the image before theirs is known."""

    @classmethod
    def from_edges(cls, files: Iterable[FileEdges]) -> Between:
        """Compares files with each other."""
        some = sorted((file for file in files if len(file.edges.key)), key=lambda file: file.first or (0, 0))
        if len(some) < 2:
            return cls()
        compared = broken_between([file.edges for file in some])
        rows = zip(*(column[:EXAMPLES].tolist() for column in (compared.file, compared.at, compared.side)), strict=True)
        met = (
            (some[file].url, compared.met_key[compared.met_file == file])
            for file in np.flatnonzero(np.bincount(compared.met_file)).tolist()
        )
        broken = tuple((some[file].first or (0, 0), at, side, some[file].url) for file, at, side in rows)
        return cls(len(compared.at), broken, tuple(met))

    def joined(self, other: Between) -> Between:
        """Those of other keys, too."""
        rows = sorted((*self.rows, *other.rows))[:EXAMPLES]
        return Between(self.broken + other.broken, tuple(rows), (*self.met, *other.met))


class PassResults(NamedTuple):
    """What the pass has found."""

    files: Mapping[str, FileResult]
    """By the URL of the file, without what was only needed for `between`."""
    between: Mapping[str, Between]
    """By group (`FileTask.group`), of those with several files."""

    @classmethod
    def from_files(cls, results: Iterable[tuple[FileTask, FileResult]], most_bytes: int = MOST_BYTES) -> PassResults:
        """Compares files with each other.

        Args:
            results: Of each file, in any order.
            most_bytes: Of edges in memory meanwhile.

        Raises:
            LakeUnavailableError: The folder for temporary files is full.
        """
        files: dict[str, FileResult] = {}
        with KeptEdges(most_bytes) as kept:
            for task, passed in results:
                files[task.file.url] = passed._replace(edges=None)
                if passed.edges is not None:
                    kept.put(task.group, FileEdges(passed.profile.first, task.file.url, passed.edges))
            between = {
                group: reduce(Between.joined, map(Between.from_edges, kept.parts(group)), Between())
                for group in kept.groups()
            }
        return cls(dict(sorted(files.items())), between)

    def profiles(self) -> dict[str, FileProfile]:
        """Of each file, by its URL."""
        return {url: passed.profile for url, passed in self.files.items()}

    def firsts(self) -> dict[str, Firsts]:
        """By file, what is to be compared with earlier intervals: what no file before it has in the same interval."""
        met: dict[str, list[Ints]] = defaultdict(list)
        for between in self.between.values():
            for url, keys in between.met:
                met[url].append(keys)
        firsts = {url: passed.firsts for url, passed in self.files.items() if passed.firsts is not None}
        for url in met.keys() & firsts.keys():
            kept = ~np.isin(firsts[url].key, np.concatenate(met[url]))
            firsts[url] = Firsts(*(column[kept] for column in firsts[url]))
        return firsts


def in_order(profiles: Sequence[FileProfile]) -> list[int] | None:
    """The numbers of files in the order of the stream; None if rows of one belong between those of another."""
    if not all(profile.is_ordered for profile in profiles):
        return None
    some = sorted(
        (profile.first, profile.last, at)
        for at, profile in enumerate(profiles)
        if profile.first is not None and profile.last is not None
    )
    if any(later[0] <= earlier[1] for earlier, later in pairwise(some)):
        return None
    return [at for _, _, at in some]
