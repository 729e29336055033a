"""A position of the stream as people write it: a GTID set, FILE:OFFSET, or a time, distinguished by their form.
Not here: which versions are valid at the position (`schema/history/historian.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.commit_ts import COMMIT_STEP, refuse_commit_ts
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.sets import DOMAIN_GTID
from strata_cdc.schema.history.stream_positions import AtBinlog, AtGtidSet, AtSeq, AtTime
from strata_cdc.time_text import parse_time

if TYPE_CHECKING:
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.history.stream_positions import StreamPosition

_DASHES_OF_A_UUID: Final = 4
_DATE: Final = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*")
"""Of the form of a position of MariaDB, too: of domain 2026, written by server 11."""
_FORMS: Final = "a GTID set, FILE:OFFSET, or a time as in `2026-11-21 03:30:00` (UTC)"


def position_of(history: History, text: str) -> StreamPosition:
    """The position of a server that a text names; for a time, see `at_time`.

    Raises:
        Usage: The text has none of the three forms.
        UnknownSourceError: The source has never been tracked.
    """
    if COMMIT_STEP.fullmatch(text.strip()):
        # Python would read some of them as times: 20231114.
        raise refuse_commit_ts(text, _FORMS)
    file, _, offset = text.rpartition(":")
    if not text.strip() or (_counts_gtids(text) and not _DATE.fullmatch(text)):
        return AtGtidSet(parse_executed(text))
    if "." in file and offset.isdigit() and ":" not in file:
        return AtBinlog(BinlogPosition.parse(text))
    return at_time(history, text)


def log_position_of(text: str) -> AtGtidSet | AtBinlog:
    """The position that a text names, in the form of either family of servers or as FILE:OFFSET; never a time.

    Raises:
        Usage: It is neither.
    """
    return AtGtidSet(parse_executed(text)) if _counts_gtids(text) else AtBinlog(BinlogPosition.parse(text))


def _counts_gtids(text: str) -> bool:
    """Whether it has the form of a GTID set of MySQL, or of a position of MariaDB as in `0-1-100,5-2-9`."""
    return text.count("-") >= _DASHES_OF_A_UUID or bool(DOMAIN_GTID.fullmatch(text.partition(",")[0]))


def at_time(history: History, text: str) -> AtTime | AtSeq:
    """The position of a time. If the time is after everything that was read, it is the end of the stream (`AtSeq`).

    Raises:
        Usage: It is not ISO 8601.
        UnknownSourceError: The source has never been tracked.
    """
    time = parse_time(text)
    return AtSeq(history.tracked.seq) if time > history.tracked.committed_at else AtTime(time)
