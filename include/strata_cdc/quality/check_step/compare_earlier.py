"""Where the checks of a run find earlier images: published files, and those that the run staged for earlier intervals.
Not here: comparing (`quality/checks/earlier_images.py`), what lies between (`pipeline/plan/pasts.py`)."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING

from strata_cdc.quality.checks.before_after import Sampling
from strata_cdc.quality.checks.earlier_file import EarlierFile
from strata_cdc.quality.checks.earlier_images import (
    UNPLANNED,
    UNREADABLE,
    ComparedImages,
    Search,
    SearchLimits,
    compare_earlier,
)
from strata_cdc.quality.checks.pass_results import in_order
from strata_cdc.tables.layout import column_name, table_url
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.port import OutputError
from strata_cdc.unforeseen import may_pass, what_happened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.quality.checks.before_after import Firsts
    from strata_cdc.quality.checks.profile import FileProfile
    from strata_cdc.quality.checks.subject import TableSubject
    from strata_cdc.runs.run_folder import DecodedRun
    from strata_cdc.runs.run_past import EarlierTable, RunPast
    from strata_cdc.runs.run_plan import RunPlan

DEFAULT_KEYS = 100
"""Of a table and interval, that are compared with earlier intervals."""


def sampling_of(keys: int | None, interval: int) -> Sampling | None:
    """Which keys of an interval are compared; None for none.

    Args:
        keys: So many of a table; 0 for none, None for all.
        interval: Its start: another one takes other keys.
    """
    return None if keys == 0 else Sampling(keys, interval)


def _count_images(firsts: Mapping[str, Firsts], subject: TableSubject) -> int:
    """How many images of a table are to be compared."""
    return sum(len(firsts[file.url].key) for file in subject.files if file.url in firsts)


class EarlierComparison:
    """Compares the tables of a run's intervals with what is published, and with each other."""

    def __init__(
        self,
        lake: str,
        plan: RunPlan,
        decoded: DecodedRun,
        past: RunPast,
        subjects: Mapping[int, Sequence[TableSubject]],
        limits: SearchLimits = SearchLimits(),
    ) -> None:
        """Takes what is known of the run.

        Args:
            decoded: What it staged.
            past: What lies before it.
            subjects: By interval, what is judged.
            limits: How much is read of each table.
        """
        self._lake, self._plan, self._decoded, self._past = lake, plan, decoded, past
        self._subjects, self._limits = subjects, limits

    def compare(
        self, firsts: Mapping[str, Firsts], profiles: Mapping[str, FileProfile], keys: int | None
    ) -> dict[tuple[int, str], ComparedImages]:
        """What came of each table, by interval and name; of those that have something to compare.

        Args:
            firsts: By the URL of the file.
            profiles: Of all files, likewise.
            keys: As `sampling_of` takes them.
        """
        work = [
            (interval, subject)
            for interval, subjects in self._subjects.items()
            for subject in subjects
            if _count_images(firsts, subject)
        ]
        if not work or keys == 0:
            return {}
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="earlier") as pool:
            images = pool.map(self._compare_or_tell, work, repeat(firsts), repeat(profiles), repeat(keys))
            return {(interval, subject.name): images for (interval, subject), images in zip(work, images, strict=True)}

    def _compare_or_tell(
        self,
        work: tuple[int, TableSubject],
        firsts: Mapping[str, Firsts],
        profiles: Mapping[str, FileProfile],
        keys: int | None,
    ) -> ComparedImages:
        """As `_compare`; an exception that nobody foresaw leaves the one table uncompared."""
        try:
            return self._compare(work, firsts, profiles, keys)
        except Exception as error:
            if may_pass(error):
                raise
            return ComparedImages(not_compared=Counter({what_happened(error): _count_images(firsts, work[1])}))

    def _compare(
        self,
        work: tuple[int, TableSubject],
        firsts: Mapping[str, Firsts],
        profiles: Mapping[str, FileProfile],
        keys: int | None,
    ) -> ComparedImages:
        interval, subject = work
        past = self._past.earlier_table(subject.table.database, subject.table.table)
        columns = {file.version_id: profiles[file.url].columns for file in subject.files}
        files = None if past is None else self._files(interval, subject, profiles)
        if past is None or files is None or not _is_sound(subject, profiles):
            reason = UNPLANNED if past is None else UNREADABLE
            return ComparedImages(not_compared=Counter({reason: _count_images(firsts, subject)}))
        sampling = sampling_of(keys, interval) or Sampling(0, interval)
        search = Search(
            files=files,
            interval=interval,
            columns=columns,
            sampling=sampling,
            lifetimes=past.lifetimes,
            unlogged=past.unlogged,
            unpublished=self._barrier(interval, subject, past),
            limits=self._limits,
        )
        return compare_earlier(subject, firsts, search)

    def _files(
        self, interval: int, subject: TableSubject, profiles: Mapping[str, FileProfile]
    ) -> list[EarlierFile] | None:
        """Newest interval first; None if they cannot be known."""
        own = subject.files if len(subject.files) > 1 else ()
        files = [EarlierFile(file.url, interval, version=file.version_id) for file in own]
        planned = {
            table.interval
            for table in self._plan.tables
            if (table.database, table.table) == (subject.table.database, subject.table.table)
        }
        for start, subjects in self._subjects.items():
            staged = next((other for other in subjects if other.table == subject.table), None)
            if start < interval and staged is not None:
                if any(profiles[file.url].damage for file in staged.files):
                    return None
                files += [EarlierFile(file.url, start, version=file.version_id) for file in staged.files]
        published = self._published(subject, interval)
        if published is None:
            return None
        # Of an interval that was made of several, files may begin at the starts of these.
        spans = [(interval.start, interval.end) for interval in self._plan.intervals if interval.start in planned]
        files += [file for file in published if not any(start <= file.interval < end for start, end in spans)]
        return sorted(files, key=lambda file: -file.interval)

    def _published(self, subject: TableSubject, interval: int) -> list[EarlierFile] | None:
        url = table_url(self._lake, self._plan.source, subject.table)
        try:
            table = OUTPUT.open(url)
            if table is None:
                return []
            if table.left_beside():
                return None
            bounds = table.bounds(name) if (name := _one_key(subject)) is not None else {}
            return [
                EarlierFile(f"{url}/{path}", start, bounds.get(path))
                for path, start in table.files().items()
                if start < interval
            ]
        except OutputError:
            return None

    def _barrier(self, interval: int, subject: TableSubject, past: EarlierTable) -> int | None:
        """The newest earlier interval of which rows of the table are missing, or this one where some of its own are."""
        name = subject.table.database, subject.table.table
        missing = [start for start in past.unpublished if start < interval]
        missing += [
            table.interval
            for table in self._plan.tables
            if table.interval <= interval and (table.database, table.table) == name and table.rows != table.counted
        ]
        for start in self._subjects:
            if start <= interval and (
                name in self._decoded.lost(start)
                or any((file.database, file.table) == name for file in self._decoded.unreadable(start))
            ):
                missing.append(start)
        return max(missing, default=None)


def _is_sound(subject: TableSubject, profiles: Mapping[str, FileProfile]) -> bool:
    """Whether files can be read, and show which image of a key is the first."""
    versions = ([profiles[file.url] for file in subject.files_of(version)] for version in subject.versions)
    return all(
        not any(profile.damage or profile.error or profile.is_unlike for profile in profiles_of_version)
        and in_order(profiles_of_version) is not None
        for profiles_of_version in versions
    )


def _one_key(subject: TableSubject) -> str | None:
    """The column of a key of one column, as the change table calls it; None if the versions do not agree on one."""
    keys = {subject.definitions[version].primary_key for version in subject.versions}
    key = keys.pop() if len(keys) == 1 else ()
    return column_name(key[0]) if len(key) == 1 else None


def log_line(images: Mapping[tuple[int, str], ComparedImages]) -> str:
    """What came of all images together, for the log."""
    not_compared = sum((compared.not_compared for compared in images.values()), Counter[str]())
    left = "; ".join(f"{count:,} not: {why}" for why, count in sorted(not_compared.items()))
    compared = sum(images.rows for images in images.values())
    return f"compared {compared:,} images with those of earlier intervals" + (f" ({left})" if left else "")
