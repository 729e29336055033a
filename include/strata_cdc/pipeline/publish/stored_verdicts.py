"""The verdicts of a run as the store keeps them: one for each table and interval, and one for an interval as a whole.
Not here: reaching them (`quality/check_step/`), the ledger (`store/verdicts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.pipeline.publish.of_tables import FindingsOfTables
from strata_cdc.runs.verdict import Severity, staged_digest
from strata_cdc.store.verdicts import FailedRule, StoredVerdict, VerdictDetails, VerdictOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.pipeline.publish.publication import RunPublication
    from strata_cdc.runs.specs import PlannedTable
    from strata_cdc.runs.verdict import Failure, IntervalVerdict
    from strata_cdc.tables.write import StagedFile


def stored_verdicts(publication: RunPublication, *, judged_at: int) -> Iterator[StoredVerdict]:
    """What a run's checks found, in order of interval and table.

    Args:
        publication: Of the run.
        judged_at: Microseconds UTC.
    """
    plan = publication.plan
    for interval in plan.intervals:
        verdict = publication.verdicts.get(interval.start)
        if verdict is None:
            continue
        of_stream = [failure for failure in verdict.stream if not failure.table]
        details = VerdictDetails(plan.run, (), 0, 0, _rules(of_stream), engine=verdict.engine)
        yield StoredVerdict(plan.source, interval.start, "", _outcome(of_stream), judged_at, details)
        findings = FindingsOfTables(verdict)
        for planned in plan.of_interval(interval):
            if planned.held is None and planned.database:
                judged, aside = publication.files_of(planned)
                yield _of_table(plan.run, verdict, findings, planned, judged, aside, judged_at)


def digest_of(files: Iterable[StagedFile]) -> str:
    """Identity of the files of one table, wherever they are kept; empty for none."""
    digests = [(str(file.name), file.digest) for file in files]
    return staged_digest(digests) if digests else ""


def _of_table(
    run: str,
    verdict: IntervalVerdict,
    findings: FindingsOfTables,
    planned: PlannedTable,
    judged: Sequence[StagedFile],
    aside: Sequence[StagedFile],
    judged_at: int,
) -> StoredVerdict:
    finding, failures = findings.for_table(planned.full_name), findings.failures(planned.full_name)
    details = VerdictDetails(
        run=run,
        versions=finding.versions if finding else (),
        rows=finding.rows if finding else 0,
        checks=finding.checks if finding else 0,
        failures=_rules(failures),
        staged=digest_of(judged),
        aside=digest_of(aside),
        engine=verdict.engine,
    )
    return StoredVerdict(verdict.source, verdict.interval, planned.full_name, _outcome(failures), judged_at, details)


def _outcome(failures: Iterable[Failure]) -> VerdictOutcome:
    severities = {failure.severity for failure in failures}
    if Severity.ERROR in severities:
        return VerdictOutcome.FAILED
    return VerdictOutcome.WARNED if severities else VerdictOutcome.PASSED


def _rules(failures: Iterable[Failure]) -> tuple[FailedRule, ...]:
    return tuple(
        FailedRule(
            check=failure.check,
            column=failure.column,
            severity=str(failure.severity),
            message=failure.message,
            observed=failure.observed,
            rows=failure.unexpected_rows,
            examples=failure.examples,
        )
        for failure in failures
    )
