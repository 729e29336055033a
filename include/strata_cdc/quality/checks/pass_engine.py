"""All rules judged by the profiles of one pass over each file.
Not here: the pass (`one_pass.py`), users' own rules, which Great Expectations runs (`suite.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.quality.checks.before_after import follow, joined
from strata_cdc.quality.checks.judged import COUNT, JudgedRule, JudgedSuite
from strata_cdc.quality.checks.one_pass import FileTask, merged, quote_rows, read_whole
from strata_cdc.quality.checks.pass_results import Between, in_order
from strata_cdc.quality.checks.profile import EXAMPLES, Example, FileProfile, RuleFound
from strata_cdc.quality.checks.row_rules import ROW_JUDGES
from strata_cdc.quality.checks.rules import rules_of_stream
from strata_cdc.quality.checks.subject import suites_of
from strata_cdc.quality.checks.suite import message_of, observed_of
from strata_cdc.runs.verdict import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.quality.checks.before_after import Sampling
    from strata_cdc.quality.checks.one_pass import UnorderedRows
    from strata_cdc.quality.checks.pass_results import PassResults
    from strata_cdc.quality.checks.rules import ImageChain, Rule
    from strata_cdc.quality.checks.subject import JudgedFile, Suite, TableSubject


class PassEngine:
    """Judges by profiles; keeps what was found for the Data Docs."""

    def __init__(
        self,
        passed: PassResults,
        own: Callable[[TableSubject, Suite], list[Failure]],
    ) -> None:
        """Takes what the pass has found, and what runs the users' own rules of a suite."""
        self.suites: list[JudgedSuite] = []
        self._passed = passed
        self._files = passed.files
        self._own = own

    def profiles(self, subject: TableSubject) -> Mapping[str, FileProfile]:
        """What is known of a table's files, by their URL."""
        return {file.url: self._files[file.url].profile for file in subject.files}

    def judge(
        self, subject: TableSubject, label: str, columns: Mapping[int, Sequence[str] | None]
    ) -> tuple[int, list[Failure]]:
        """Runs the suites of a table whose files can be read.

        Args:
            label: The interval's name in the Data Docs.
            columns: As `suites_of` takes them.

        Returns:
            How many checks were run, and what does not hold.
        """
        checks = 0
        failures: list[Failure] = []
        across = _AcrossFiles(subject, self._passed)
        for suite in suites_of(subject, label, columns):
            checks += len(suite.rules) + len(suite.own)
            files = subject.files if suite.version is None else tuple(subject.files_of(suite.version))
            skipped = len(rules_of_stream(subject.facts)) if _is_one_of_many(suite, columns) else 0
            judged = tuple(self._judge(rule, skipped + at, files, across) for at, rule in enumerate(suite.rules))
            self.suites.append(JudgedSuite(suite.name, subject.name, judged))
            failures += [_failure(subject.name, rule) for rule in judged if not rule.success]
            if suite.own:
                failures += self._own(subject, suite)
        return checks, failures

    def _judge(self, rule: Rule, number: int, files: Sequence[JudgedFile], across: _AcrossFiles) -> JudgedRule:
        if rule.expectation in ROW_JUDGES:
            judged = merged(self._files[file.url].profile.found[number] for file in files)
        elif rule.expectation == COUNT:
            judged = RuleFound(sum(self._files[file.url].profile.rows for file in files))
            return JudgedRule(rule, judged, judged.rows == rule.kwargs["value"])
        elif rule.chain is not None:
            judged = across.chained(files, rule.chain)
        else:
            judged = across.unique(files)
        return JudgedRule(rule, judged, judged.unexpected == 0)


def _failure(table: str, judged: JudgedRule) -> Failure:
    rule = judged.rule
    return Failure(
        table=table,
        check=rule.expectation,
        column=rule.column,
        severity=rule.severity,
        message=message_of(rule, None, judged.details()),
        unexpected_rows=None if rule.expectation == COUNT else judged.found.unexpected,
        examples=tuple(example.text for example in judged.found.examples),
        observed=observed_of(judged.details()),
    )


def _is_one_of_many(suite: Suite, columns: Mapping[int, object]) -> bool:
    """Whether the rules of the stream are in a suite of their own."""
    return suite.version is not None and len(columns) > 1


class _AcrossFiles:
    """Rules across the files of a table: by their first and last rows if these suffice, otherwise by all rows."""

    def __init__(self, subject: TableSubject, passed: PassResults) -> None:
        self._between = passed.between
        self._subject = subject
        self._files = passed.files
        self._whole: dict[str, UnorderedRows] = {}

    def unique(self, files: Sequence[JudgedFile]) -> RuleFound:
        """Rows that share their position in the stream with others."""
        rows = sum(self._files[file.url].profile.rows for file in files)
        if self._in_order(files) is not None:
            return RuleFound(rows)
        parts = [self._read(file) for file in files]
        seq, row = (np.concatenate([getattr(part, name) for part in parts]) for name in ("seq", "row"))
        order = np.lexsort((row, seq))
        same = (np.diff(seq[order]) == 0) & (np.diff(row[order]) == 0)
        doubled = np.concatenate(([False], same)) | np.concatenate((same, [False]))
        at = order[doubled]
        examples = tuple(_place(int(seq[index]), int(row[index])) for index in at[:EXAMPLES])
        return RuleFound(rows, len(at), examples)

    def chained(self, files: Sequence[JudgedFile], chain: ImageChain) -> RuleFound:
        """Images that do not follow from the one before them of the same key."""
        ordered = self._in_order(files)
        if ordered is None:
            return self._chained_whole(files, chain)
        rule = merged(
            chain_found for file in ordered if (chain_found := self._files[file.url].profile.chain) is not None
        )
        between = self._between.get(task_of(self._subject, files[0]).group, Between())
        positions = [
            example
            for _, at, side, url in between.rows
            for file in ordered
            if file.url == url
            for example in self._tell(file, at, side, chain)
        ]
        return merged([rule, RuleFound(0, between.broken, tuple(sorted(positions)))])

    def _chained_whole(self, files: Sequence[JudgedFile], chain: ImageChain) -> RuleFound:
        """As for one file, of rows that are put in the order of the stream first."""
        parts = [self._read(file) for file in files]
        events = joined([part.events for part in parts])
        seq = np.concatenate([part.seq[part.events.at] for part in parts])
        row = np.concatenate([part.row[part.events.at] for part in parts])
        file_of = np.repeat(np.arange(len(files)), [len(part.events.key) for part in parts])
        order = np.lexsort((events.side, row, seq))
        breaks = follow(events.selected(order)).broken
        examples = [
            example
            for event in order[breaks[:EXAMPLES]].tolist()
            for example in self._tell(files[file_of[event]], int(events.at[event]), int(events.side[event]), chain)
        ]
        rows = sum(self._files[file.url].profile.rows for file in files)
        return RuleFound(rows, len(breaks), tuple(examples))

    def _tell(self, file: JudgedFile, at: int, side: int, chain: ImageChain) -> tuple[Example, ...]:
        return quote_rows(file, [(at, side)], chain, self._subject.sensitive)

    def _in_order(self, files: Sequence[JudgedFile]) -> list[JudgedFile] | None:
        ordered = in_order([self._files[file.url].profile for file in files])
        return None if ordered is None else [files[at] for at in ordered]

    def _read(self, file: JudgedFile) -> UnorderedRows:
        if file.url not in self._whole:
            self._whole[file.url] = read_whole(task_of(self._subject, file))
        return self._whole[file.url]


def _place(seq: int, row: int) -> Example:
    return Example(seq, row, f'{{"_seq": {seq}, "_row": {row}}}')


def task_of(subject: TableSubject, file: JudgedFile, sampling: Sampling | None = None) -> FileTask:
    """What the pass over a file needs to know."""
    definition = subject.definitions.get(file.version_id)
    return FileTask(
        file,
        subject.facts,
        subject.exempt(file.version_id),
        None if definition is None else definition.to_json(),
        len(subject.files_of(file.version_id)) > 1,
        subject.sensitive,
        sampling,
    )
