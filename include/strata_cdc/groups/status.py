"""The state of a group: up to which time all of its sources are provably known, and for which source the others wait.
Not here: one source (`progress/status.py`), the watermark of a stream that runs (`groups/merge.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.protocol.server_clocks import Server, corrections
from strata_cdc.clock import second_text
from strata_cdc.errors import StrataError
from strata_cdc.groups.duplicates import refuse_one_server
from strata_cdc.groups.logged_times import ADVICE, WAITS
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import has_commit_times, parse_executed
from strata_cdc.progress.status import source_status
from strata_cdc.selection.wanted import unmatched_settings
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.server_clocks import ServerMoment
    from strata_cdc.config.settings import Group
    from strata_cdc.progress.status import SourceStatus


class MemberStatus(Struct, frozen=True):
    """The state of one source of a group."""

    source: str
    until: int
    """Everything before this time is in closed intervals: microseconds UTC, in the group's time; 0 before the first
    interval. An idle source proves this by its position."""
    landed_until: int
    """Commit time of the last landed transaction: microseconds UTC, in the group's time."""
    owed_rows: int
    """Rows before that time that are not published yet."""
    clock_correction_seconds: float | None
    """How much is subtracted from its server's clock; None: the server does not answer."""
    clock_bound_seconds: float | None
    """By how much its times may then be wrong."""
    error: str | None = None
    """Why its server does not answer."""
    unmatched: tuple[str, ...] = ()
    """Messages about patterns of its settings that match no table: nothing of these is published."""
    proves_idleness: bool = True
    """Whether its position proves that nothing from before is to come. Not of MariaDB: `until` is the time of its last
    transaction, however long ago that was."""


class GroupStatus(Struct, frozen=True):
    """The state of a group."""

    group: str
    watermark: int
    """Everything before this time is in closed intervals of all sources: microseconds UTC; 0: not yet true of all
    sources."""
    behind_seconds: float | None
    """From the watermark to now; None if there is no watermark."""
    skew_seconds: float
    """From the watermark to the time up to which the furthest source is known."""
    held_by: str
    """The source that the watermark waits for."""
    members: tuple[MemberStatus, ...]
    held_since: int = 0
    """Since when the watermark waits for it: microseconds UTC, in the group's time; 0: the source has no interval."""

    def state_of(self, source: str) -> MemberStatus:
        """Returns the state of one of its sources."""
        return next(member for member in self.members if member.source == source)

    def line(self) -> str:
        """Returns the state in one line, for people and logs."""
        unmatched = "".join(f"; {member.source}: {what}" for member in self.members for what in member.unmatched)
        holder = self.state_of(self.held_by)
        why = f" ({holder.error})" if holder.error else ""
        if not self.watermark:
            return f"group {self.group}: no watermark yet: {self.held_by} has no interval{why}{unmatched}"
        if not why and not holder.proves_idleness:
            why = f" ({WAITS}; {ADVICE})"
        return (
            f"group {self.group}: watermark {second_text(self.watermark)} UTC, {self.behind_seconds:,.1f} s late, skew "
            f"{self.skew_seconds:,.1f} s; held by {self.held_by}{why} since {second_text(self.held_since)}{unmatched}"
        )


def group_status(group: Group, *, now: int) -> GroupStatus:
    """Reads the status of a group; queries its servers for their clocks.

    Raises:
        StoreUnavailableError: A store does not answer.
        LakeUnavailableError: The lake does not answer.
        SettingsError: Two of its sources are the same server.
    """
    measured: dict[str, ServerMoment] = {}
    errors: dict[str, str] = {}
    for source in group.sources:
        server = Server(source.address)
        try:
            measured[source.name] = server.measure()
        except StrataError as failure:
            errors[source.name] = failure.message
        finally:
            server.close()
    refuse_one_server(group.name, {name: moment.server_uuid for name, moment in measured.items()})
    corrected = corrections(measured, group.clock_bound)
    members = []
    for source in group.sources:
        engine = open_store(source.store_url, OnMissing.EMPTY)
        status = source_status(source, engine, now=now)
        landed, moment = LandedStream.open(source.lake, source.name), measured.get(source.name)
        unmatched = unmatched_settings(source, engine, landed)
        engine.dispose()
        correction = corrected.get(source.name)
        amount = correction.amount if correction else 0
        proves = moment.proves_idleness if moment else has_commit_times(landed.executed())
        until = _until(status, moment) if proves else _logged_until(status, landed)
        members.append(
            MemberStatus(
                source.name,
                max(0, until - amount),
                max(0, status.landed_until - amount),
                sum(table.owed_rows for table in status.tables),
                correction.amount / 1e6 if correction else None,
                correction.bound / 1e6 if correction else None,
                errors.get(source.name),
                tuple(unmatched),
                proves,
            )
        )
    first = min(members, key=lambda member: (member.until, member.source))
    return GroupStatus(
        group.name,
        first.until,
        max(0, now - first.until) / 1e6 if first.until else None,
        (max(member.until for member in members) - first.until) / 1e6 if first.until else 0.0,
        first.source,
        tuple(members),
        first.until,
    )


def _logged_until(status: SourceStatus, landed: LandedStream) -> int:
    """The same of a source without commit times. What comes next may have an earlier time than the newest interval's
    end, but none before the largest time that was logged so far."""
    if not status.unowned:
        return status.landed_until if status.owned_until else 0
    first = max(status.owned_seq + 1, landed.first_seq)
    reached = landed.record_at(first)[1].committed_at if first <= landed.last_seq else status.landed_until
    return min(status.owned_until, reached)


def _until(status: SourceStatus, moment: ServerMoment | None) -> int:
    """The time before which nothing of a source is missing from its closed intervals, by its own clock."""
    if status.unowned or not status.owned_until:
        return status.owned_until
    # What has landed after the newest interval has no rows that belong to an interval.
    until = max(status.owned_until, status.landed_until)
    if moment is not None and moment.executed <= parse_executed(status.landed_gtid_set):
        until = max(until, moment.clock)
    return until
