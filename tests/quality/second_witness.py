"""The second witness of our own rules: Great Expectations runs them on Spark, as it runs users' rules.
Not here: the pass over each file that judges them in the product (`pass_engine.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.quality.checks.rules import IMAGES_AGREE
from strata_cdc.quality.checks.spark_frames import frame_keys, frame_of
from strata_cdc.quality.checks.subject import suites_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.quality.checks.profile import FileProfile
    from strata_cdc.quality.checks.spark_frames import Read
    from strata_cdc.quality.checks.subject import TableSubject
    from strata_cdc.quality.checks.suite import SuiteJudge
    from strata_cdc.runs.verdict import Failure

SHARED = (
    "_op",
    "_gtid",
    "_seq",
    "_row",
    "_committed_at",
    "_binlog_file",
    "_schema_version",
    "_invalid",
    "_interval",
    IMAGES_AGREE,
)
"""The columns that do not depend on a version."""


class SparkEngine:
    """Judges all rules, ours and users', by Great Expectations."""

    def __init__(self, judge: SuiteJudge, read: Read, profiles: Mapping[str, FileProfile]) -> None:
        """Takes what is known of the files themselves.

        Args:
            judge: Runs the suites.
            read: From URLs of Parquet files of one schema to a Spark DataFrame.
            profiles: By URL, as `one_pass.pass_over` gives them.
        """
        self._judge = judge
        self._read = read
        self._profiles = profiles

    def profiles(self, subject: TableSubject) -> Mapping[str, FileProfile]:
        """As `Engine` has it."""
        return self._profiles

    def judge(
        self, subject: TableSubject, label: str, columns: Mapping[int, Sequence[str] | None]
    ) -> tuple[int, list[Failure]]:
        """As `Engine` has it."""
        frames = {version: frame_of(self._read, subject, version) for version in columns}
        checks = 0
        failures: list[Failure] = []
        for suite in suites_of(subject, label, columns):
            frame = _shared_columns(list(frames.values())) if suite.version is None else frames[suite.version]
            rules = (*suite.rules, *suite.own)
            checks += len(rules)
            keys = () if suite.version is None else frame_keys(subject, suite.version, frame)
            failures += self._judge.run(suite.name, subject.name, frame, rules, keys, subject.sensitive)
        return checks, failures


def _shared_columns(frames: Sequence[Any]) -> Any:
    """The rows of all versions with the columns that do not depend on one."""
    first, *rest = [frame.select(*SHARED) for frame in frames]
    for frame in rest:
        first = first.unionByName(frame)
    return first
