"""Before/after consistency across intervals: the image before the first change of a row is what an earlier interval
left of it.
Not here: images within one interval (`before_after.py`), finding the files
(`quality/check_step/compare_earlier.py`), reading a file (`earlier_file.py`). Looks from the newest earlier file to
older ones, as long as nothing lies between that could have changed the row unseen. What is not found that way is not
compared, and counted with the reason."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from strata_cdc.binlog.kernels.chains import FOUND
from strata_cdc.counted import counted
from strata_cdc.quality.checks.earlier_file import EarlierFile, LastImage, OpenedFile, UnreadableEarlierError
from strata_cdc.quality.checks.one_pass import quote_rows
from strata_cdc.quality.checks.profile import EXAMPLES
from strata_cdc.quality.checks.rules import history_rule
from strata_cdc.quality.checks.subject import published_names
from strata_cdc.runs.verdict import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.changes.row_hashes import Ints
    from strata_cdc.quality.checks.arrow_values import Flags
    from strata_cdc.quality.checks.before_after import Firsts, Sampling
    from strata_cdc.quality.checks.rules import ImageChain
    from strata_cdc.quality.checks.subject import JudgedFile, TableSubject
    from strata_cdc.schema.model.lifetimes import ColumnLifetimes

CHECK: Final = "images_follow_earlier_intervals"

OLDER = "no change of the row is published before"
ENOUGH = "not looked for any further"
UNPUBLISHED = "rows of an interval before are not published"
UNLOGGED = "rows were changed without row events since"
CONVERTED = "a DDL since then changed the key"
PARTIAL = "the earlier image is not whole"
UNREADABLE = "an earlier file is not as this source writes it"
UNPLANNED = "the run's plan does not say what lies before"
"""Why an image is not compared."""


class SearchLimits(Struct, frozen=True):
    """How much is read for one table and interval, where keys are sampled."""

    files: int = 32
    """That are opened."""
    rows: int = 4_000_000
    """Of which the keys are read."""


class Search(Struct, frozen=True):
    """Where the earlier images of a table may be, seen from one interval."""

    files: Sequence[EarlierFile]
    """Newest interval first; those of the interval itself, too, if there are several."""
    columns: Mapping[int, Sequence[str]]
    """Of the interval's own files, by version."""
    sampling: Sampling
    """Which keys are looked for; where not all are, no more is read than the limits."""
    interval: int
    """Start of the interval that is judged, microseconds UTC."""
    lifetimes: tuple[ColumnLifetimes, ...] = ()
    unlogged: tuple[int, ...] = ()
    """Ordinals of transactions that changed rows without row events; rising."""
    unpublished: int | None = None
    """Images of this interval, and of earlier ones, may not be the last."""
    limits: SearchLimits = SearchLimits()


class ComparedImages(Struct):
    """What came of a table's images in one interval."""

    rows: int = 0
    """Images that were compared."""
    broken: list[tuple[JudgedFile, int, ImageChain]] = field(default_factory=list)
    """Those that are not what was left: file, row, and the columns of its key."""
    not_compared: Counter[str] = field(default_factory=Counter)
    """By the reason."""

    def failure(self, subject: TableSubject) -> Failure | None:
        """The summary in the verdict."""
        if not self.broken:
            return None
        first = self.broken[:EXAMPLES]
        quoted = [
            text for file, at, chain in first for text in quote_rows(file, [(at, FOUND)], chain, subject.sensitive)
        ]
        left = "; ".join(f"{count} not compared: {why}" for why, count in sorted(self.not_compared.items()))
        return Failure.warning(
            subject.name,
            CHECK,
            "what the first change of a row found is what an earlier interval left; "
            f"{counted(len(self.broken), 'row does not comply', 'rows do not comply')} of {self.rows} compared"
            + (f" ({left})" if left else ""),
            len(self.broken),
            tuple(example.text for example in sorted(quoted)),
        )


class _WantedImages(NamedTuple):
    """First images in the rows of one version that are looked for, in the order of their keys."""

    key: Ints
    image: Ints
    seq: Ints
    row: Ints
    at: Ints
    file: Ints
    """Its number among the files of the interval."""

    def selected(self, chosen: Ints | Flags) -> _WantedImages:
        """Some of them."""
        return _WantedImages(*(column[chosen] for column in self))

    def without(self, done: Ints) -> _WantedImages:
        """Without some, by index."""
        kept = np.ones(len(self.key), np.bool_)
        kept[done] = False
        return self.selected(kept)


def compare_earlier(subject: TableSubject, firsts: Mapping[str, Firsts], search: Search) -> ComparedImages:
    """Holds the first images of a table's keys in an interval against what was left of them before.

    Args:
        subject: The table; rows of it that could not be decoded are for the caller to mind.
        firsts: What is to be compared, by the URL of the file.
        search: Where to look.
    """
    images = ComparedImages()
    for version in subject.versions:
        _compare_version(
            version, _ImageComparison(subject, search, images), _wanted(subject, version, firsts, search.sampling)
        )
    return images


def _compare_version(version: int, work: _ImageComparison, wanted: _WantedImages) -> None:
    why, search = OLDER, work.search
    for interval, files in groupby(search.files, key=lambda file: file.interval):
        if not len(wanted.key):
            return
        if search.unpublished is not None and interval <= search.unpublished:
            why = UNPUBLISHED
            break
        try:
            # Of rows of the interval itself only those of other versions are earlier ones (`PassResults.firsts`).
            others = [file for file in files if file.interval != search.interval or file.version != version]
            wanted = work.look(wanted, others)
        except _StopLookingError as stop:
            why = str(stop)
            break
    work.give_up(wanted, why)


class _StopLookingError(Exception):
    """Nothing older can be known; the text says why."""


class _ImageComparison:
    def __init__(self, subject: TableSubject, search: Search, images: ComparedImages) -> None:
        self._subject, self.search, self._found = subject, search, images
        self._opened: dict[str, OpenedFile] = {}
        self._rows = 0

    def give_up(self, wanted: _WantedImages, why: str) -> None:
        """Counts what is not compared."""
        if len(wanted.key):
            self._found.not_compared[why] += len(wanted.key)

    def look(self, wanted: _WantedImages, files: Sequence[EarlierFile]) -> _WantedImages:
        """Takes what the files of one interval left of the keys; returns those that it does not have.

        Raises:
            _StopLookingError: Nothing may be concluded from this interval, or from older ones.
        """
        last: dict[int, LastImage] = {}
        for file in files:
            if self._may_have(file, wanted):
                for left in self._read(file, wanted):
                    at = int(np.searchsorted(wanted.key, left.key))
                    is_before = (left.seq, left.row) < (int(wanted.seq[at]), int(wanted.row[at]))
                    if is_before and (at not in last or last[at].position < left.position):
                        last[at] = left
        for url in sorted({left.file.url for left in last.values()}):
            of_file = {at: left for at, left in last.items() if left.file.url == url}
            self._judge(wanted, of_file, self._opened[url])
        return wanted.without(np.array(sorted(last), np.int64))

    @staticmethod
    def _may_have(file: EarlierFile, wanted: _WantedImages) -> bool:
        if file.bounds is None:
            return True
        low, high = file.bounds
        return bool(np.searchsorted(wanted.key, low) < np.searchsorted(wanted.key, high, side="right"))

    def _read(self, file: EarlierFile, wanted: _WantedImages) -> Iterable[LastImage]:
        most = self.search.limits
        if self.search.sampling.keys is not None and (len(self._opened) >= most.files or self._rows > most.rows):
            raise _StopLookingError(ENOUGH)
        try:
            opened = self._opened[file.url] = OpenedFile(file)
            self._rows += opened.rows
            return list(opened.images_of(self._keys_at(wanted, opened.version), wanted.key))
        except UnreadableEarlierError:
            raise _StopLookingError(UNREADABLE) from None

    def _keys_at(self, wanted: _WantedImages, version: int) -> tuple[str, ...]:
        """What an earlier version calls the columns of the key; if it has that key.

        Raises:
            _StopLookingError: It has another one.
        """
        now = self._subject.files[int(wanted.file[0])]
        chain, pairs = self._chain(now), self._pairs(version, now.version_id)
        if pairs is None or not set(chain.keys) <= pairs.keys():
            raise _StopLookingError(CONVERTED)
        return tuple(pairs[name] for name in chain.keys)

    def _pairs(self, earlier: int, now: int) -> dict[str, str] | None:
        """From what a version's files call a column to what an earlier version calls it, of those whose values are the
        same in both; None if the versions have other keys, or are not of one table."""
        definition = self._subject.definitions[now]
        names = {column.name: column.name for column in definition.columns}
        if earlier != now:
            lifetime = next(
                (lifetime for lifetime in self.search.lifetimes if {earlier, now} <= {*lifetime.versions}), None
            )
            if lifetime is None or lifetime.key_of(earlier) != lifetime.key_of(now):
                return None
            first, last = sorted((lifetime.versions.index(earlier), lifetime.versions.index(now)))
            names = {
                lifetime.step_at(column, now).name: lifetime.step_at(column, earlier).name  # type: ignore[union-attr]
                for column in lifetime.columns
                if lifetime.keeps(column, first, last)
            }
        staged = published_names(definition, self.search.columns[now])
        return {staged[name]: old for name, old in names.items() if name in staged}

    def _judge(self, wanted: _WantedImages, last: Mapping[int, LastImage], file: OpenedFile) -> None:
        """Compares what one file left with what was found."""
        by_file: dict[int, list[int]] = {}
        for at, left in last.items():
            number = int(wanted.file[at])
            if any(left.seq <= seq <= int(wanted.seq[at]) for seq in self.search.unlogged):
                self._found.not_compared[UNLOGGED] += 1
            elif left.is_gone:
                self._count(wanted, at, is_equal=False)
            else:
                by_file.setdefault(number, []).append(at)
        for number, numbers_in_file in by_file.items():
            self._compare(
                wanted,
                np.array(numbers_in_file),
                [last[at] for at in numbers_in_file],
                self._subject.files[number],
                file,
            )

    def _compare(
        self, wanted: _WantedImages, numbers_in_file: Ints, left: Sequence[LastImage], now: JudgedFile, file: OpenedFile
    ) -> None:
        pairs = self._pairs(file.version, now.version_id) or {}
        names = [name for name in self._chain(now).columns if name in pairs]
        try:
            mine = OpenedFile(EarlierFile(now.url, self.search.interval, version=now.version_id))
            earlier, is_whole = file.hashes([pairs[name] for name in names], left, mine.kinds_before(names))
            is_same = file.version == now.version_id
            noted = self._chain(now).invalid_of(names)
            hashes = (
                wanted.image[numbers_in_file]
                if is_same
                else mine.before_hashes(names, noted, wanted.at[numbers_in_file].tolist())
            )
        except UnreadableEarlierError:
            self._found.not_compared[UNREADABLE] += len(left)
            return
        for at, is_equal, is_known in zip(
            numbers_in_file.tolist(), (earlier == hashes).tolist(), is_whole.tolist(), strict=True
        ):
            if is_known:
                self._count(wanted, at, is_equal=is_equal)
            else:
                self._found.not_compared[PARTIAL] += 1

    def _count(self, wanted: _WantedImages, at: int, *, is_equal: bool) -> None:
        self._found.rows += 1
        if not is_equal:
            file = self._subject.files[int(wanted.file[at])]
            self._found.broken.append((file, int(wanted.at[at]), self._chain(file)))

    def _chain(self, file: JudgedFile) -> ImageChain:
        """The columns of key and image of a file."""
        definition = self._subject.definitions[file.version_id]
        names = published_names(definition, self.search.columns[file.version_id])
        chain = history_rule(definition, names).chain
        if chain is None:
            raise TypeError(f"{self._subject.table} has no chain")  # the rule always has one
        return chain


def _wanted(subject: TableSubject, version: int, firsts: Mapping[str, Firsts], sampling: Sampling) -> _WantedImages:
    """All that is looked for: of each key the first image in the interval's rows of a version."""
    parts = []
    for number, file in enumerate(subject.files):
        first = firsts.get(file.url)
        if file.version_id == version and first is not None and len(first.key):
            of_file = np.full(len(first.key), number)
            parts.append(_WantedImages(first.key, first.image, first.seq, first.row, first.at, of_file))
    if not parts:
        none = np.zeros(0, np.int64)
        return _WantedImages(none, none, none, none, none, none)
    whole = _WantedImages(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    ordered = whole.selected(np.lexsort((whole.row, whole.seq, whole.key)))
    firsts_of_keys = ordered.selected(np.concatenate(([True], ordered.key[1:] != ordered.key[:-1])))
    return firsts_of_keys.selected(sampling.chosen(firsts_of_keys.key))
