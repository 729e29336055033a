"""Tokens of existing data: change rows, published intervals, mirrors.
Not here: tokens from a connection (`queries.py`, `session.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.errors import Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.source_position import kept_origins
from strata_cdc.position.token import Token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.position.port import Executed

ANY_SOURCE: Final = "source"
"""The name of a source if the caller gives none."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def of_executed(
    source: str,
    executed: Executed | str,
    *,
    lineage: str = "",
    committed_at: int = 0,
    copied_from: Mapping[str, str] | None = None,
) -> Token:
    """The token of a GTID set: `gtid_executed` of a published interval, of a mirror's position, of a snapshot.

    Args:
        source: Its name in the settings.
        executed: The GTID set.
        lineage: As the settings have it.
        committed_at: Commit time of the newest transaction, microseconds UTC; 0 if it is not known.
        copied_from: Other sources whose GTIDs it has by copy, and their lineages.

    Raises:
        InvalidGtidSetError: The text is no GTID set.
    """
    position = parse_executed(executed) if isinstance(executed, str) else executed
    origins = kept_origins(copied_from or {}, position)
    return Token.of(source, position, lineage=lineage, committed_at=committed_at, origins=origins)


def of_change(
    row: Mapping[str, Any],
    *,
    source: str | None = None,
    lineage: str = "",
    server_uuid: str = "",
    copied_from: Mapping[str, str] | None = None,
) -> Token:
    """The token of one row of a change table: a server that has executed its transaction has the token.

    The token covers only that transaction, not those before it, which the row does not have.

    Args:
        row: With `_source`, `_gtid`, `_committed_at`, and for a row without a GTID `_binlog_file` and `_binlog_pos`.
        source: Name of the source if `_source` is not among the columns.
        lineage: As the settings have it.
        server_uuid: UUID of the server whose binlog file a row without a GTID names.
        copied_from: As for `of_executed`: the row's GTID is then also a GTID of the source that it was copied from.

    Raises:
        Usage: The row has no GTID, and the server is not named.
    """
    name = source or str(row.get("_source") or ANY_SOURCE)
    when = _micros(row.get("_committed_at"))
    gtid = row.get("_gtid")
    if gtid:
        return of_executed(name, str(gtid), lineage=lineage, committed_at=when, copied_from=copied_from)
    if not server_uuid:
        raise Usage(
            "the row has no GTID, and a file and offset mean something on one server only",
            source=name,
            remedy="Give `server_uuid`: `SELECT @@server_uuid` on the server that wrote the file.",
        )
    # The row's event begins before the offset at its end.
    at = BinlogPosition.from_offset(str(row["_binlog_file"]), int(row["_binlog_pos"]) + 1)
    return Token.of(name, FilePosition(server_uuid, at), lineage=lineage, committed_at=when)


def _micros(when: object) -> int:
    if isinstance(when, datetime):
        aware = when if when.tzinfo else when.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    return int(when) if isinstance(when, int) else 0
