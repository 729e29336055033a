"""Why a mirror is blocked: rows that are in no log, rows that are not its table's, or an error of its own.
Not here: where this is detected (`mirror_updater.py`), what ends it (`mirrors/dump/`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import DamagedFileError, ErrorFacts, MirrorDivergedError, StrataError, one_line
from strata_cdc.mirrors.apply import refuse_foreign
from strata_cdc.mirrors.follow.followed import BlockReason, NotYetError, OvertakenError
from strata_cdc.mirrors.log import states_since
from strata_cdc.schema.history.shell_words import pattern_word
from strata_cdc.tables.port import CommitConflictError

if TYPE_CHECKING:
    from strata_cdc.mirrors.follow.published import PublishedSource
    from strata_cdc.mirrors.follow.schema_events import SchemaEvent, SchemaEvents
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import TableName

_LOG: Final = logging.getLogger("strata.mirror")
_MADE: Final = "CREATE TABLE AS SELECT"
NEVER_DUMPED: Final = "its rows from before the landed stream were never dumped"
_LACKS_OLDER: Final = (
    "it was made at an ALTER TABLE of a table that is older than the landed stream, without that table's rows"
)


def remedy_of(published: PublishedSource, source: str, table: TableName, lost: BlockReason) -> str:
    """What ends that a mirror is blocked."""
    if published.has_server:
        return f"`strata dump --source {source} --table {pattern_word(table)}` reads its rows"
    if lost.is_divergence or (lost.error is not None and lost.error.error == DamagedFileError.__name__):
        return (
            "no server could be read again: move the mirror's folder away, and "
            f"`strata mirror update --source {source}` makes it again from its CREATE TABLE on"
        )
    return (
        "no server could be read again: leave the table out of `mirrors`, or begin with an export (`strata dump "
        "--from-dumpling DIR`), or land a changefeed that has it from its CREATE TABLE on as a source of another name"
    )


def blocked_by(error: Exception, table: TableName) -> BlockReason:
    """What an error means for the mirror of the table that was being updated.

    Raises:
        Exception: The same error, if another part does not answer, or if the update must start again.
    """
    if isinstance(error, (OvertakenError, NotYetError, CommitConflictError)):
        raise error
    if isinstance(error, StrataError):
        if error.exit_code > 2:
            raise error
        return BlockReason(error.message, error.located(table=str(table)).facts())
    _LOG.warning("the mirror of %s met an error that nobody has foreseen", table, exc_info=error)
    message = one_line(f"{type(error).__name__}: {error}")
    return BlockReason(message, ErrorFacts(type(error).__name__, message, table=str(table)))


def _keeps_unknown_rows(event: SchemaEvent) -> bool:
    """Whether a statement leaves the existing rows as they are; an older version assumed that there were none.

    A CREATE has no effect on rows either, but is not such a statement.
    """
    return event.change is not None and event.change.effect.keeps_rows and not event.begins_rows


def diverged(mirror: Mirror, schema_events: SchemaEvents) -> BlockReason | None:
    """Whether the rows of a mirror are not its table's, by its log and the history; None if nothing shows that.

    Raises:
        DamagedFileError: Its log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    if mirror.is_dropped:
        return None
    reason = mirror.diverged
    try:
        refuse_foreign(mirror)
    except MirrorDivergedError as error:
        reason = reason or error.message
    if reason is None and lacks_older_rows(mirror, schema_events):
        reason = _LACKS_OLDER
    if reason is None:
        return None
    return BlockReason(reason, MirrorDivergedError(reason, source=mirror.source, table=str(mirror.table)).facts())


def is_proven(mirror: Mirror, schema_events: SchemaEvents) -> bool:
    """Whether it is known, without reading the mirror's log, that it was complete from the start."""
    return mirror.rows_from is not None or not any(map(_keeps_unknown_rows, schema_events.of_table(mirror.table)))


def lacks_older_rows(mirror: Mirror, schema_events: SchemaEvents) -> bool:
    """Whether an older version of Strata made a mirror without rows after a statement that keeps the existing rows.

    Such a mirror was made empty just after an ALTER TABLE or a snapshot. A mirror that a dump of an empty table made
    there looks the same, and is treated the same. A log that was cut does not show this.
    """
    if is_proven(mirror, schema_events):
        return False
    operation, made = next(states_since(mirror.url, _MADE.__eq__, mirror.snapshot.version), (None, mirror.snapshot))
    if operation != _MADE or made.files:
        return False
    at = schema_events.change_at(mirror.table, made.position.seq, made.position.schema_version)
    if at is None or at.after != made.position.seq or not _keeps_unknown_rows(at):
        return False
    since = [
        event
        for event in schema_events.of_table(mirror.table)
        if at.order < event.order and event.seq <= mirror.position.seq
    ]
    return not any(event.begins_rows for event in since)
