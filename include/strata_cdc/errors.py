"""One tree of errors, each a fact with its nouns as fields.
Not here: catching them (the edges do), deciding on retries (`Transient` says it, Airflow does it)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from msgspec import Struct

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a terminal, turns the order of letters around, or cannot be written at all."""


def printable(text: str) -> str:
    """A text as a terminal and a log can show it: what would steer them is written as its number.

    Lines and tabs stay.
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """The same in one line, for what others say: it must not look like a line of ours."""
    return printable(text.replace("\n", "\\n").replace("\t", " "))


class ErrorFacts(Struct, frozen=True, omit_defaults=True):
    """An error as it is stored, and as the command line prints it with `--json`: what is known, and nothing else."""

    error: str
    """Name of its class."""
    message: str
    source: str | None = None
    table: str | None = None
    gtid: str | None = None
    file: str | None = None
    offset: int | None = None
    remedy: str | None = None


class StrataError(Exception):
    """What happened, where, and what to run next.

    Args:
        message: What happened, in one sentence without a full stop.
        remedy: What the reader can do about it; commands in backquotes.
        source: Name of the source, as in the settings.
        table: `database.table`.
        gtid: The transaction, or the GTID set, that it is about.
        file: Binlog or segment file.
        offset: Bytes from the start of `file`.
    """

    exit_code: ClassVar[int] = 1

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

    def located(
        self,
        *,
        source: str | None = None,
        table: str | None = None,
        gtid: str | None = None,
        file: str | None = None,
        offset: int | None = None,
    ) -> Self:
        """Fills in coordinates that are not known yet, and returns the same error.

        A room that knows numbers only raises with an offset; whoever knows the file adds it.
        """
        given = {"source": source, "table": table, "gtid": gtid, "file": file, "offset": offset}
        for name, value in given.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def facts(self) -> ErrorFacts:
        """What is stored of the error, and printed as JSON."""
        return ErrorFacts(
            type(self).__name__,
            self.message,
            source=self.source,
            table=self.table,
            gtid=self.gtid,
            file=self.file,
            offset=self.offset,
            remedy=self.remedy,
        )

    def __str__(self) -> str:
        place = ""
        if self.file is not None:
            place = self.file if self.offset is None else f"{self.file} @ {self.offset}"
        elif self.offset is not None:
            place = f"@ {self.offset}"
        details = [
            text
            for text in (
                self.source and f"source {self.source}",
                self.table and f"table {self.table}",
                self.gtid and f"GTID {self.gtid}",
                place,
            )
            if text
        ]
        where = f" ({', '.join(details)})" if details else ""
        return printable(f"{self.message}{where}." + (f" {self.remedy}" if self.remedy else ""))

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle by their positional args alone, and Spark sends them between processes.
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[StrataError], message: str, fields: dict[str, object]) -> StrataError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class BadData(StrataError):
    """The bytes, the schema or the rows are at fault; a retry gives the same. Exit code 1."""


class Usage(StrataError):
    """The caller asked for something that has no meaning. Exit code 2."""

    exit_code = 2


class ReadAgainError(Usage):
    """What rows are after a DDL is in no log: they have to be read from the server."""


class Permanent(StrataError):
    """Something outside is set up so that this cannot work; a retry gives the same. Exit code 3."""

    exit_code = 3


class Transient(StrataError):
    """Something outside is not there just now; the same call may succeed later. Exit code 3."""

    exit_code = 3


# Bytes ------------------------------------------------------------------------------------------


class CorruptEventError(BadData):
    """An event contradicts itself: a length that lies, a value out of bounds, rows that end early."""


class TruncatedEventError(CorruptEventError):
    """The file ends in the middle of an event."""


class ChecksumError(CorruptEventError):
    """The CRC32 of an event is not the one written behind it."""


class MisplacedEventError(CorruptEventError):
    """An event does not begin where the one before it ended: something was cut out, put in or moved."""


class NotABinlogError(BadData):
    """The file does not start with the binlog magic number."""


class EncryptedBinlogError(BadData):
    """The file is a binlog encrypted at rest."""


class UnsupportedEventError(BadData):
    """An event that cannot be skipped and is not understood."""


class StatementFormatError(BadData):
    """Rows of a tracked table were changed by a statement, so the binlog does not hold them."""


class StreamHoleError(BadData):
    """Transactions are missing between two pieces of a stream."""


# Schema -----------------------------------------------------------------------------------------


class DamagedIndexError(BadData):
    """The transaction index beside a segment is not as it was written, or is not that segment's."""


class SchemaGapError(BadData):
    """The schema of a table is not known at a position."""


class SchemaMismatchError(BadData):
    """A TABLE_MAP contradicts the schema version that is to decode it."""


class DdlError(BadData):
    """A DDL statement that the reader does not understand.

    `tables` holds the tables (`schema.model.TableName`) that it could still tell; where there are none, all tables
    of `database` may be meant.
    """

    def __init__(self, message: str, *, ddl: str = "", **where: object) -> None:
        super().__init__(message, **where)  # type: ignore[arg-type]
        self.ddl = ddl
        self.tables: tuple[Any, ...] = ()
        self.database: str | None = None


class UndecodableTextError(BadData):
    """A value is not text in its column's charset, or not a label of its ENUM or SET."""


class UnreadableValueError(BadData):
    """A value contradicts the type of its column."""


class UnforeseenError(BadData):
    """A step met an exception with one table that nobody foresaw; the other tables went on."""


# Judgement --------------------------------------------------------------------------------------


class ChecksFailedError(BadData):
    """A check of severity error failed, and the interval stays unpublished."""


class MirrorDivergedError(BadData):
    """A mirror has other rows than the changes say that it has; it is not changed any further."""


class DifferentRowsError(BadData):
    """Tables of the lake are not what their server has."""


class StaleCacheError(BadData):
    """A cache held something older than what had been invalidated in it."""


class DamagedFileError(BadData):
    """A file that one step left for the next is not whole, or not what was written."""


# Usage ------------------------------------------------------------------------------------------


class SettingsError(Usage):
    """The settings have mistakes; the message lists all of them."""


class InvalidGtidSetError(Usage):
    """A text that is not a GTID set."""


class InvalidTokenError(Usage):
    """A text that is not an event token, or not a whole one."""


class IncomparableTokensError(Usage):
    """Event tokens that have no union: positions in different histories of a source."""


class UnknownSourceError(Usage):
    """A source that the settings or the store do not name."""


# Outside ----------------------------------------------------------------------------------------


class CacheRefusedError(Permanent):
    """A cache cannot be used as it is: it refuses scripts, is of another source, or another invalidator has it."""


class CacheUnavailableError(Transient):
    """The cache does not answer."""


class SourceSettingsError(Permanent):
    """The server's settings make its binlog unusable: GTIDs off, statement format, binlog off."""


class AccessDeniedError(Permanent):
    """Wrong user, password or grants."""


class BinlogPurgedError(Permanent):
    """The server no longer has the transactions that are asked for."""

    earliest: str = "beginning"
    """Where what can still be had begins, as `strata stream --from` takes it."""

    def beginning(self, earliest: object) -> Self:
        """Says where, and returns the same error."""
        self.earliest = str(earliest)
        return self


class SourceDivergedError(Permanent):
    """The server lacks transactions that were landed from it or its predecessor."""


class OtherLakeError(Permanent):
    """The lake is not the one that the store knows, or lacks what the store calls published."""


class LostTableError(OtherLakeError):
    """One table of the lake lacks what the store calls published."""


class StoreFormatError(Permanent):
    """The store was made by a newer version of Strata, or is not one."""


class SourceUnavailableError(Transient):
    """The server does not answer."""


class BinlogUnreadableError(SourceUnavailableError):
    """The server cannot send its binlog from where it was asked to."""


class StoreUnavailableError(Transient):
    """The store does not answer."""


class LakeUnavailableError(Transient):
    """The storage of landed or published files does not answer or is full."""


class MirrorBehindError(Transient):
    """A mirror does not hold yet what is waited for."""


class AlreadyRunningError(Transient):
    """Another run holds the lock on the same work."""
