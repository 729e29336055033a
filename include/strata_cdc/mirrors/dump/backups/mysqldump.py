"""A file that mysqldump has written: what it says about itself, and its text for loading.
Not here: the server into which it is loaded (`scratch_server.py`), the mirrors made from it (`take_in.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.errors import BadData, Usage
from strata_cdc.mirrors.dump.backups.definitions import keep_json_texts
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.mirrors.dump.backups.scratch_server import ScratchServer

HOW_TO_MAKE: Final = (
    "Make one with `mysqldump --single-transaction --source-data=2 --set-gtid-purged=ON --databases ...` "
    "(--master-data=2 before 8.0.26)."
)
_HEAD_LINES: Final = 400
_HEAD_ENDS: Final = (b"-- Current Database:", b"-- Table structure for", b"-- Dumping data for")
_NAME: Final = re.compile(rb"`((?:[^`]|``)+)`")
_GTIDS: Final = re.compile(rb"GTID_PURGED\s*=\s*(?:/\*!80000 '\+'\*/)?\s*'([^']*)'", re.DOTALL)
_HOST: Final = re.compile(rb"^-- Host: .*?\s+Database: (.*)$", re.MULTILINE)
_STREAM_BYTES: Final = 1 << 20


class MysqldumpFile:
    """A file, plain or compressed (.gz, .zst, .bz2)."""

    def __init__(self, path: Path) -> None:
        """Reads the beginning of the file.

        Raises:
            Usage: It does not name the GTID set at which it was made, or it cannot be from exactly one GTID set.
        """
        self._path = path
        head = self._head()
        if not head.startswith(b"-- MySQL dump"):
            raise Usage("this is no file of mysqldump with its comments", file=str(path), remedy=HOW_TO_MAKE)
        match = _GTIDS.search(head)
        # A set at the end of the file is later than the set of the rows.
        if match is None or b"GTID state at the end" in head:
            raise Usage("the file does not say which GTID set its rows have", file=str(path), remedy=HOW_TO_MAKE)
        if b"MASTER_LOG_FILE" not in head and b"SOURCE_LOG_FILE" not in head:
            # Only if it has the position, every version of mysqldump has read the set and the rows under one lock.
            reason = "the file has no binlog position: its GTID set may be another one than that of its rows"
            raise Usage(reason, file=str(path), remedy=HOW_TO_MAKE)
        if b"TIME_ZONE='+00:00'" not in head:
            reason = "the file was made with --skip-tz-utc: its timestamps are in an unknown zone"
            raise Usage(reason, file=str(path), remedy=HOW_TO_MAKE)
        self.executed = parse_executed(match[1].decode("ascii").replace("\n", ""))
        database = _HOST.search(head)
        self._database = database[1].strip() if database else b""
        self.tables: set[TableName] = set()

    def load(self, server: ScratchServer) -> None:
        """Loads it, and reads which tables it has.

        Raises:
            BadData: It is not complete, or a statement fails.
            Usage: It has only some of a table's rows.
        """
        server.load(self._statements())

    def _statements(self) -> Iterator[bytes]:
        if self._database:
            quoted = b"`" + self._database.replace(b"`", b"``") + b"`"
            yield b"CREATE DATABASE IF NOT EXISTS " + quoted + b";\nUSE " + quoted + b";\n"
        last = b""
        for line in keep_json_texts(self._wanted_lines()):
            if line.strip():
                last = line
            yield line
        if not last.startswith(b"-- Dump completed"):
            raise BadData("the file has no end mark: rows are missing", file=str(self._path))

    def _wanted_lines(self) -> Iterator[bytes]:
        """All lines, except those for the server as a whole: its own database, its replication, its GTIDs."""
        database, is_system, is_skipped = self._database.decode(), False, False
        with self._open() as stream:
            for line in _lines(stream, self._path):
                if line.startswith(b"-- "):
                    database, is_system = self._note(line, database, is_system=is_system)
                elif line.startswith((b"SET @@GLOBAL.GTID_PURGED", b"CHANGE MASTER", b"CHANGE REPLICATION")):
                    is_skipped = True
                if not (is_skipped or (is_system and not line.startswith(b"-- "))):
                    yield line
                is_skipped = is_skipped and not line.rstrip().endswith((b";", b"*/"))

    def _note(self, line: bytes, database: str, *, is_system: bool) -> tuple[str, bool]:
        name = _NAME.search(line)
        if line.startswith(b"-- Current Database:") and name:
            database = _unquoted(name[1])
            return database, database in {"mysql", "sys"}
        if line.startswith(b"-- Dumping data for table") and name:
            self.tables.add(TableName(database, _unquoted(name[1])))
        elif line.startswith(b"-- WHERE:"):
            raise Usage("the file has only some rows: it was made with --where", file=str(self._path))
        return database, is_system

    def _head(self) -> bytes:
        lines: list[bytes] = []
        with self._open() as stream:
            for line in _lines(stream, self._path):
                if len(lines) == _HEAD_LINES or line.startswith(_HEAD_ENDS):
                    break
                lines.append(line)
        return b"".join(lines)

    def _open(self) -> pa.NativeFile:
        try:
            return pa.input_stream(str(self._path), compression="detect")
        except OSError as error:
            raise Usage(f"the backup cannot be read: {error}", file=str(self._path)) from None


def _unquoted(name: bytes) -> str:
    return name.replace(b"``", b"`").decode("utf-8")


def _lines(stream: pa.NativeFile, path: Path) -> Iterator[bytes]:
    """Lines with their line ends.

    Raises:
        BadData: The compressed data is cut off or damaged.
    """
    rest = b""
    while block := _block(stream, path):
        *whole, rest = _split(rest + block)
        yield from whole
    if rest:
        yield rest


def _block(stream: pa.NativeFile, path: Path) -> bytes:
    try:
        return bytes(stream.read(_STREAM_BYTES))
    except OSError as error:
        raise BadData(f"the file cannot be read to its end, and rows are missing: {error}", file=str(path)) from None


def _split(block: bytes) -> list[bytes]:
    """Splits after each newline, and nowhere else; the last line has no newline."""
    parts = block.split(b"\n")
    return [*(part + b"\n" for part in parts[:-1]), parts[-1]]
