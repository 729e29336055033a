"""The position of a feed whose transactions are identified by commit timestamps, as TiDB's are.
Not here: reading such a feed (`ticdc/`)."""

from __future__ import annotations

import re
from typing import Final, Self

from msgspec import Struct

from strata_cdc.errors import IncomparableTokensError, Usage

LOGICAL_BITS: Final = 18
"""Bits of a TiDB timestamp below its milliseconds (client-go, `oracle.GetPhysical`)."""
MOST_TS: Final = (1 << 63) - 1
COMMIT_STEP: Final = re.compile(r"(\d{7,19})(:rows)?")
"""As people write a step: a timestamp, which has the DDL that finished with it, or with `:rows` only its rows."""


def refuse_commit_ts(text: str, forms: str, source: str | None = None) -> Usage:
    """The error of a number where the position is one of a server.

    Args:
        text: What was written.
        forms: What such a position is written as.
        source: Name of the source.
    """
    return Usage(
        f"{text!r} is no position of a server: only those of a TiCDC sink are numbers",
        source=source,
        remedy=f"Give {forms}.",
    )


def time_of(commit_ts: int) -> int:
    """When a transaction was committed by the clock of TiDB's placement driver: microseconds UTC."""
    return (commit_ts >> LOGICAL_BITS) * 1000


class CommitStep(Struct, frozen=True, order=True):
    """What has a commit timestamp: the rows that were committed, then the DDL that finished with the same number.

    The rows are first: a row with the timestamp of a DDL was written under the schema before it.
    """

    ts: int
    is_ddl: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads what `str` returns.

        Raises:
            Usage: It is no timestamp of TiDB.
        """
        form = COMMIT_STEP.fullmatch(text)
        if form is None or int(form[1]) > MOST_TS:
            raise Usage(f"{text!r} is no commit timestamp", remedy="Write it as in `449012345678901234`.")
        return cls(int(form[1]), not form[2])

    @classmethod
    def before(cls, time: int) -> Self:
        """The last step before a time, microseconds UTC."""
        return cls(max(0, (-(-time // 1000) << LOGICAL_BITS) - 1), is_ddl=True)

    def __str__(self) -> str:
        return f"{self.ts}{'' if self.is_ddl else ':rows'}"


class CommitTs(Struct, frozen=True):
    """Everything that a feed has committed up to a step. No file of a feed names its cluster: only positions of one
    source compare."""

    at: CommitStep
    seq: int = 0
    """How many commits of the feed that is. It shows whether the feed was made anew."""

    @property
    def counted(self) -> str:
        """The commits of one feed."""
        return "commits of TiDB"

    @property
    def is_shared(self) -> bool:
        """False: a cluster that has the rows gives them its own timestamps."""
        return False

    def contains(self, transaction: CommitStep) -> bool:
        """Whether a step is not later than this one."""
        return transaction <= self.at

    def __le__(self, other: CommitTs) -> bool:
        """Whether `other` is the same position or a later one: a total order within one changefeed."""
        return self.at <= other.at and self.seq <= other.seq

    def __or__(self, other: CommitTs) -> CommitTs:
        """The later of both positions.

        Raises:
            IncomparableTokensError: They are of two changefeeds: the earlier one has more commits.
        """
        if self <= other:
            return other
        if other <= self:
            return self
        raise IncomparableTokensError(
            f"tokens of two changefeeds have no union: commit {self.seq} at {self.at}, and commit {other.seq} at "
            f"{other.at}",
            remedy="Keep the token of the changefeed that continues.",
        )

    def describe(self) -> dict[str, str | int]:
        """As `commit_ts`, `after` if the DDL with this timestamp is included, and `seq`."""
        return {"commit_ts": self.at.ts, **({"after": "ddl"} if self.at.is_ddl else {}), "seq": self.seq}
