"""The position of a feed whose transactions are identified by commit timestamps, as TiDB's are.
Not here: reading such a feed (`ticdc/`)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

LOGICAL_BITS: Final = 18
"""Bits of a TiDB timestamp below its milliseconds (client-go, `oracle.GetPhysical`)."""


def time_of(commit_ts: int) -> int:
    """When a transaction was committed by the clock of TiDB's placement driver: microseconds UTC."""
    return (commit_ts >> LOGICAL_BITS) * 1000


class CommitStep(Struct, frozen=True, order=True):
    """What has a commit timestamp: the rows that were committed, then the DDL that finished with the same number.

    The rows are first: a row with the timestamp of a DDL was written under the schema before it.
    """

    ts: int
    is_ddl: bool = False


class CommitTs(Struct, frozen=True):
    """Everything that a feed has committed up to a step."""

    feed: str
    """The source. No file of a feed names its cluster, so that positions of other sources never compare."""
    at: CommitStep

    @property
    def counted(self) -> str:
        """The commits of one feed."""
        return f"commits of {self.feed}"

    @property
    def is_shared(self) -> bool:
        """False: a cluster that has the rows gives them its own timestamps."""
        return False

    def contains(self, transaction: CommitStep) -> bool:
        """Whether a step is not later than this one."""
        return transaction <= self.at

    def __le__(self, other: CommitTs) -> bool:
        """Whether `other` is the same position or a later one; a total order."""
        return self.at <= other.at

    def __or__(self, other: CommitTs) -> CommitTs:
        """The later of both positions."""
        return CommitTs(self.feed, max(self.at, other.at))

    def describe(self) -> dict[str, str | int]:
        """As `commit_ts`, and `after` if the DDL with this timestamp is included."""
        return {"commit_ts": self.at.ts, **({"after": "ddl"} if self.at.is_ddl else {})}
