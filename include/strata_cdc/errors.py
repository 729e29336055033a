"""All errors of Strata in one class hierarchy; each error has its facts as fields.
Not here: catching them (the command line and the other entry points do), retries (`Transient` marks them, Airflow does
them)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from msgspec import Struct

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal, reverse the order of letters, or cannot be written at all."""


def printable(text: str) -> str:
    """A text that is safe for a terminal and a log: characters that would control them are written as their numbers.

    Lines and tabs stay.
    """
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """The same in one line, for texts of other programs: such a text must not look like a line of Strata."""
    return printable(text.replace("\n", "\\n").replace("\t", " "))


class Location(Struct, frozen=True, omit_defaults=True):
    """A position in a stream, as far as it is known."""

    gtid: str | None = None
    commit_ts: int | None = None
    file: str | None = None
    offset: int | None = None
    """Bytes from the start of a binlog; the number of the row in a file of rows."""

    def __str__(self) -> str:
        where = _location(self.file, self.offset)
        first = f"GTID {self.gtid}" if self.gtid else f"commit-ts {self.commit_ts}" if self.commit_ts else ""
        if first and where:
            return f"{first} ({where})"
        return first or where or "a position that is not known"


class Crossing(Struct, frozen=True, omit_defaults=True):
    """A DDL, and on which side of it rows are that have the schema of its other side."""

    ddl: str
    """The kind of the DDL."""
    quadrant: str
    """Whose data, under which schema (`schema/model/quadrants.py`)."""
    made_at: Location
    """The position of the DDL."""

    def __str__(self) -> str:
        return f"{self.quadrant}, around {self.ddl} at {self.made_at}"


class ErrorFacts(Struct, frozen=True, omit_defaults=True):
    """An error as it is stored, and as the command line prints it with `--json`: only the known facts."""

    error: str
    """Name of its class."""
    message: str
    source: str | None = None
    table: str | None = None
    gtid: str | None = None
    file: str | None = None
    offset: int | None = None
    remedy: str | None = None
    commit_ts: int | None = None
    crossing: Crossing | None = None

    @property
    def location(self) -> Location:
        """The position that it is about."""
        return Location(self.gtid, self.commit_ts, self.file, self.offset)


class StrataError(Exception):
    """What went wrong, where, and what to run next.

    Args:
        message: What happened, in one sentence without a full stop.
        remedy: What the reader can do about it; commands in backquotes.
        source: Name of the source, as in the settings.
        table: `database.table`.
        gtid: The transaction, or the GTID set, that it is about.
        file: Binlog or segment file.
        offset: Bytes from the start of `file`.
        commit_ts: The commit timestamp that it is about, of TiDB.
    """

    exit_code: ClassVar[int] = 1
    page: ClassVar[str] = "runbook"
    """The page of `docs/` that tells more, as `strata docs` takes it."""
    crossing: Crossing | None = None
    """On which side of which DDL the rows lie that it is about."""

    def __init_subclass__(cls, page: str | None = None) -> None:
        """Takes the page as a word of the class: `class DdlError(BadData, page="schema-history")`."""
        if page is not None:
            cls.page = page

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        source: str | None = None,
        table: str | None = None,
        gtid: str | None = None,
        file: str | None = None,
        offset: int | None = None,
        commit_ts: int | None = None,
    ) -> None:
        message = printable(message)
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.source = source
        self.table = table
        self.gtid = gtid
        self.file = file
        self.offset = offset
        self.commit_ts = commit_ts

    def located(
        self,
        *,
        source: str | None = None,
        table: str | None = None,
        gtid: str | None = None,
        file: str | None = None,
        offset: int | None = None,
        commit_ts: int | None = None,
    ) -> Self:
        """Sets the coordinates that are not known yet, and returns the same error.

        A package that only knows numbers raises an error with an offset; the caller that knows the file adds it.
        """
        given = {"source": source, "table": table, "gtid": gtid, "file": file, "offset": offset, "commit_ts": commit_ts}
        for name, value in given.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def across(self, crossing: Crossing | None) -> Self:
        """Sets on which side of which DDL the rows lie that it is about, and returns the same error."""
        self.crossing = crossing
        return self

    def facts(self) -> ErrorFacts:
        """The facts that are stored, and printed as JSON."""
        return ErrorFacts(
            type(self).__name__,
            self.message,
            source=self.source,
            table=self.table,
            gtid=self.gtid,
            file=self.file,
            offset=self.offset,
            remedy=self.remedy,
            commit_ts=self.commit_ts,
            crossing=self.crossing,
        )

    def __str__(self) -> str:
        location = _location(self.file, self.offset)
        details = [
            text
            for text in (
                self.source and f"source {self.source}",
                self.table and f"table {self.table}",
                self.gtid and f"GTID {self.gtid}",
                self.commit_ts and f"commit-ts {self.commit_ts}",
                location,
            )
            if text
        ]
        where = f" ({', '.join(details)})" if details else ""
        sentence = f"{self.message}{where}"
        end = "" if sentence.endswith("?") else "."
        return printable(f"{sentence}{end}" + (f" {self.remedy}" if self.remedy else ""))

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled by their positional args alone, and Spark sends them between processes.
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _location(file: str | None, offset: int | None) -> str:
    """A place in a file, for people."""
    if offset is None:
        return file or ""
    return f"{file} @ {offset}" if file is not None else f"@ {offset}"


def _rebuild(kind: type[StrataError], message: str, fields: dict[str, object]) -> StrataError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class BadData(StrataError):
    """The bytes, the schema or the rows are wrong; a retry has the same result. Exit code 1."""


class Usage(StrataError):
    """The caller requested something that has no meaning. Exit code 2."""

    exit_code = 2


class RunClearedError(Usage):
    """A run whose staged files were deleted, since all of it is published."""


class ReadAgainError(Usage, page="mirrors"):
    """The rows after a DDL are in no log: they have to be read from the server."""


class Permanent(StrataError):
    """Something outside of Strata is set up so that this cannot work; a retry has the same result. Exit code 3."""

    exit_code = 3


class MissingExtraError(Permanent, page="install"):
    """A package is not installed that an extra of the distribution brings."""


class Transient(StrataError):
    """Something outside of Strata is not available now; the same call may succeed later. Exit code 3."""

    exit_code = 3


# Bytes ------------------------------------------------------------------------------------------


class CorruptEventError(BadData, page="landing"):
    """An event contradicts itself: a wrong length, a value out of bounds, rows that end too early."""


class TruncatedEventError(CorruptEventError):
    """The file ends in the middle of an event."""


class ChecksumError(CorruptEventError):
    """The CRC32 of an event is not the one that is written after it."""


class MisplacedEventError(CorruptEventError):
    """An event does not begin where the previous one ended: something was removed, inserted or moved."""


class NotABinlogError(BadData, page="landing"):
    """The file does not start with the binlog magic number."""


class EncryptedBinlogError(BadData, page="landing"):
    """The file is a binlog that is encrypted at rest."""


class UnsupportedEventError(BadData, page="features"):
    """An event that is not understood, and that cannot be skipped."""


class StatementFormatError(BadData, page="landing"):
    """Rows of a tracked table were changed by a statement, so they are not in the binlog."""


class StreamHoleError(BadData, page="landing"):
    """Transactions are missing between two parts of a stream."""


# Schema -----------------------------------------------------------------------------------------


class DamagedIndexError(BadData, page="landing"):
    """The transaction index beside a segment is damaged, or belongs to another segment."""


class SchemaGapError(BadData, page="schema-history"):
    """The schema of a table is not known at a position."""


class SchemaMismatchError(BadData, page="schema-history"):
    """A TABLE_MAP contradicts the schema version that would decode it, or rows are of another schema than the one that
    is valid where they are."""


class DdlError(BadData, page="schema-history"):
    """A DDL statement that the parser does not understand.

    `tables` has the tables (`TableName`) that are known to be meant. If there are none, all tables of
    `database` may be meant.
    """

    def __init__(self, message: str, *, ddl: str = "", **where: object) -> None:
        super().__init__(message, **where)  # type: ignore[arg-type]
        self.ddl = ddl
        self.tables: tuple[Any, ...] = ()
        self.database: str | None = None


class UndecodableTextError(BadData, page="streams"):
    """A value is not text in its column's charset, or not a label of its ENUM or SET."""


class UnreadableValueError(BadData, page="streams"):
    """A value contradicts the type of its column."""


class UnforeseenError(BadData):
    """A step raised an unexpected exception for one table; the other tables continued."""


# Judgement --------------------------------------------------------------------------------------


class ChecksFailedError(BadData, page="checks"):
    """A check of severity error failed, and the interval stays unpublished."""


class MirrorDivergedError(BadData, page="mirrors"):
    """The rows of a mirror differ from those that follow from the changes; it is not changed any further."""


class DifferentRowsError(BadData, page="reconcile"):
    """Tables of the lake differ from those of their server."""


class StaleCacheError(BadData, page="caches"):
    """A cache had a value that is older than an invalidation of it."""


class DamagedFileError(BadData):
    """A file that one step wrote for the next is incomplete, or was changed."""


# Usage ------------------------------------------------------------------------------------------


class SettingsError(Usage, page="settings"):
    """The settings have mistakes; the message lists all of them."""


class InvalidGtidSetError(Usage, page="tokens"):
    """A text that is not a GTID set."""


class InvalidTokenError(Usage, page="tokens"):
    """A text that is not an event token, or only a part of one."""


class IncomparableTokensError(Usage, page="tokens"):
    """Event tokens that have no union: positions in different histories of a source."""


class UnknownSourceError(Usage, page="settings"):
    """A source that is neither in the settings nor in the store."""


# Outside ----------------------------------------------------------------------------------------


class CacheRefusedError(Permanent, page="caches"):
    """A cache cannot be used as it is: it refuses scripts, belongs to another source, or is used by another
    invalidator."""


class CacheUnavailableError(Transient, page="caches"):
    """The cache does not answer."""


class SourceSettingsError(Permanent, page="your-server"):
    """The server's settings make its binlog unusable: GTIDs off, statement format, binlog off."""


class AccessDeniedError(Permanent, page="your-server"):
    """Wrong user, password or grants."""


class BinlogPurgedError(Permanent):
    """The server no longer has the requested transactions."""

    earliest: str = "beginning"
    """The earliest position that is still available, in the form of `strata stream --from`."""

    def beginning(self, earliest: object) -> Self:
        """Sets this position, and returns the same error."""
        self.earliest = str(earliest)
        return self


class SourceDivergedError(Permanent):
    """The server lacks transactions that were landed from it or its predecessor."""


class OtherLakeError(Permanent):
    """The lake is not the one that the store knows, or lacks files that are published according to the store."""


class OlderStoreError(OtherLakeError):
    """The store does not know what was published to its lake: it is an older copy."""


class LostTableError(OtherLakeError):
    """One table of the lake lacks files that are published according to the store."""


class StoreFormatError(Permanent):
    """The store was made by a newer version of Strata, or is not a store."""


class SourceUnavailableError(Transient):
    """The server does not answer."""


class BinlogUnreadableError(SourceUnavailableError):
    """The server cannot send its binlog from the requested position."""


class StoreUnavailableError(Transient):
    """The store does not answer."""


class LakeUnavailableError(Transient):
    """The storage of landed or published files does not answer or is full."""


class LateListingError(LakeUnavailableError, page="landing"):
    """A listing of the storage does not have a file that is there, or has one that is not there any more."""


class OutputFullError(Transient):
    """What a command prints goes to a disk that is full."""


class MirrorBehindError(Transient, page="mirrors"):
    """A mirror does not yet have the changes for which the caller waits."""


class AlreadyRunningError(Transient):
    """Another run holds the lock on the same work."""


class QueryError(Usage, page="sql"):
    """A statement that `strata sql` does not answer: it is no query, or what MySQL would answer is not known here."""


class PastUnknownError(BadData, page="sql"):
    """The rows of a table at a moment are not known."""
