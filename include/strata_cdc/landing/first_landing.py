"""Where the first landing of a source begins: with the oldest binlog that the server has, or with a snapshot.
Not here: continuing after what has landed (`resume_landing.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.events.index import Resume
from strata_cdc.errors import BinlogPurgedError, SourceSettingsError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.history.snapshot_ledger import snapshot_moments
from strata_cdc.store.database import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.binlog.protocol.replication import ServerState
    from strata_cdc.binlog.protocol.server_files import ServerFiles
    from strata_cdc.config.settings import Source
    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.port import Executed


class FirstMoment(Struct, frozen=True):
    """A moment at which a stream may begin, because a snapshot has the schema of that moment."""

    executed: Executed
    """GTID set of the transactions before the stream, which do not land."""
    position: BinlogPosition | None = None
    """Position of a server without GTIDs at that moment."""
    seq: int = 0
    """Ordinal of the last transaction before it, if that had landed in a lake that is lost."""
    clock: int = 0
    """The commit clock at that moment, microseconds UTC."""
    resume: Resume = Resume.GTID
    """FILE: the stream begins at `position`, even if the server assigns GTIDs now."""


class FileBegin(Struct, frozen=True):
    """Where a landing by file and offset begins."""

    position: BinlogPosition
    seq: int = 0
    """As of `FirstMoment`."""
    clock: int = 0


def allowed_begins(source: Source) -> tuple[FirstMoment, ...]:
    """The moments of the source's snapshots, oldest first, if the settings let the stream begin with a snapshot.

    Empty if something has landed, or if everything that the server has is wanted.

    Raises:
        SourceSettingsError: The settings require a snapshot, and there is none.
        StoreUnavailableError: The store does not answer.
    """
    if source.settings.land_from == "oldest" or LandedStream.open(source.lake, source.name).segments:
        return ()
    moments = snapshot_moments(open_store(source.store_url), source.name)
    if not moments:
        raise SourceSettingsError(
            'land_from = "snapshot", and there is no snapshot yet',
            source=source.name,
            remedy=f"`strata snapshot --source {source.name}` takes one.",
        )
    return tuple(FirstMoment(parse_executed(moment.gtid_before), moment.position) for moment in moments)


def begin_by_gtid(
    begins: Sequence[FirstMoment], server: ServerState, still_has: Callable[[Executed], bool]
) -> FirstMoment:
    """Where a stream begins: after the GTID set of the oldest moment since which the server still has everything.

    The set is what had been executed before the snapshot began: a DDL during the snapshot has to be in the stream.

    Args:
        begins: Moments, oldest first; empty: with the oldest binlog that the server has.
        server: The server's state.
        still_has: Whether it has everything that it executed after a position.

    Raises:
        BinlogPurgedError: The server purged transactions after each of them.
    """
    if not begins:
        return FirstMoment(server.purged)
    for begin in begins:
        if still_has(begin.executed):
            return begin
    raise _purged(str(server.purged - begins[-1].executed) or None)


def begin_by_file(begins: Sequence[FirstMoment], files: ServerFiles) -> FileBegin:
    """The file with which a stream without GTIDs begins, from its first event on.

    If a stream starts inside a file, the server sends the file's first events with parts blanked out.

    Raises:
        BinlogPurgedError: The server has none of the files that were current when a snapshot was taken.
    """
    if not begins:
        return FileBegin(files.begin)
    for begin in begins:
        if begin.position and files.size(begin.position.file) is not None:
            return FileBegin(files.first_event(begin.position.file), begin.seq, begin.clock)
    raise _purged(None)


def _purged(gtid: str | None) -> BinlogPurgedError:
    return BinlogPurgedError(
        'land_from = "snapshot", and the server has purged the transactions after the newest snapshot',
        gtid=gtid,
        remedy="`strata snapshot` takes a new snapshot to begin with.",
    )
