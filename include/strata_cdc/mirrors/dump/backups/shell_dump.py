"""A folder that MySQL Shell has written (`util.dumpInstance`, `dumpSchemas`, `dumpTables`): what it says about itself,
and its tables for loading.

The names of files and fields are those of MySQL Shell 8.0.21 to 9.x (modules/util/dump/dumper.cc).
Not here: the server into which it is loaded (`scratch_server.py`), the mirrors made from it (`take_in.py`)."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from strata_cdc.changes.select.statement import quoted_table
from strata_cdc.errors import BadData, Usage
from strata_cdc.mirrors.dump.backups.definitions import keep_json_texts
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.mirrors.dump.backups.scratch_server import ScratchServer

HOW_TO_MAKE: Final = (
    "Make one with `util.dumpInstance(URL)` or `util.dumpSchemas(...)`, consistent (the default), with DDL and data, "
    "by a user with RELOAD or BACKUP_ADMIN."
)
_COMPRESSION: Final = {"none": None, "gzip": "gzip", "zstd": "zstd"}
_DECODERS: Final = frozenset({"FROM_BASE64", "UNHEX"})


class ShellDump:
    """A folder."""

    def __init__(self, path: Path) -> None:
        """Reads what the folder says about itself.

        Raises:
            Usage: It does not name the GTID set at which it was made, or it is not from exactly one GTID set.
        """
        self._path = path
        if not (path / "@.json").exists():
            raise Usage("this is no folder of MySQL Shell's dump utilities", file=str(path), remedy=HOW_TO_MAKE)
        about = self._json("@.json")
        self._refuse_partial(about)
        self.executed = parse_executed(str(about["gtidExecuted"]).replace("\n", ""))
        self._schemas: dict[str, str] = {name: about["basenames"][name] for name in about["schemas"]}
        self.tables: set[TableName] = set()

    def _refuse_partial(self, about: dict[str, Any]) -> None:
        options = about.get("options") or {}
        reasons = {
            "it is not finished": not (self._path / "@.done.json").exists(),
            "it does not say which GTID set its rows have": not about.get("gtidExecuted"),
            "its GTID set may be another one than that of its rows": bool(about.get("gtidExecutedInconsistent")),
            "its rows are not of one moment": not about.get("consistent"),
            "its timestamps are in an unknown zone": not about.get("tzUtc", True),
            "it has only some rows": bool(options.get("where") or options.get("partitions")),
        }
        for reason, is_so in reasons.items():
            if is_so:
                raise Usage(f"the dump cannot be taken: {reason}", file=str(self._path), remedy=HOW_TO_MAKE)

    def load(self, server: ScratchServer) -> None:
        """Loads it, and reads which tables it has.

        Raises:
            BadData: It is not complete, or a statement fails.
        """
        for schema, base in self._schemas.items():
            about = self._json(f"{base}.json")
            server.load([f"CREATE DATABASE {quoted(schema)};\n".encode()])
            for table in about["tables"]:
                self._load_table(server, TableName(schema, table), about["basenames"][table])

    def _load_table(self, server: ScratchServer, name: TableName, base: str) -> None:
        about = self._json(f"{base}.json")
        if not about.get("includesData", True) or not about.get("includesDdl", True):
            return
        ddl = self._content(f"{base}.sql").splitlines(keepends=True)
        head = [f"SET foreign_key_checks = 0; USE {quoted(name.database)};\n".encode()]
        server.load([*head, *keep_json_texts(ddl)])
        folder = server.folder / "chunks"
        folder.mkdir(exist_ok=True)
        for number, chunk in enumerate(self._chunks(about, base)):
            plain = folder / str(number)
            _unpack(chunk, plain, _COMPRESSION[about.get("compression", "none")])
            server.load([*head, _load_statement(name, about["options"], plain).encode()])
            plain.unlink()
        self.tables.add(name)

    def _chunks(self, about: dict[str, Any], base: str) -> Iterator[Path]:
        """The files with a table's rows.

        Raises:
            BadData: One is missing.
        """
        bases = [base, *(about.get("basenames") or {}).values()]
        wanted = bases[1:] or bases
        extension = re.escape(about["extension"])
        for table in wanted:
            pattern = re.compile(rf"{re.escape(table)}(@@?)(\d+)\.{extension}")
            chunks = {
                int(match[2]): (path, match[1])
                for path in self._path.iterdir()
                if (match := pattern.fullmatch(path.name)) is not None
            }
            if (self._path / f"{table}.{about['extension']}").exists():
                yield self._path / f"{table}.{about['extension']}"
                continue
            # The name of the last file has two signs before its number.
            is_whole = [sign for _, (_, sign) in sorted(chunks.items())] == ["@"] * (len(chunks) - 1) + ["@@"]
            if not is_whole or sorted(chunks) != list(range(len(chunks))):
                raise BadData(f"files of {table} are missing from the dump", file=str(self._path))
            yield from (path for _, (path, _) in sorted(chunks.items()))

    def _json(self, name: str) -> dict[str, Any]:
        try:
            return dict(msgspec.json.decode(self._content(name)))
        except (ValueError, TypeError, msgspec.DecodeError) as error:
            raise BadData(f"a file of the dump cannot be read: {error}", file=str(self._path / name)) from None

    def _content(self, name: str) -> bytes:
        try:
            return (self._path / name).read_bytes()
        except OSError as error:
            raise BadData(f"a file of the dump cannot be read: {error}", file=str(self._path / name)) from None


def _unpack(chunk: Path, plain: Path, compression: str | None) -> None:
    try:
        with pa.input_stream(str(chunk), compression=compression) as packed, plain.open("wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)
    except OSError as error:
        raise BadData(f"a file of the dump cannot be read: {error}", file=str(chunk)) from None


def _load_statement(name: TableName, options: dict[str, Any], file: Path) -> str:
    """LOAD DATA with the options of a table; columns that were written encoded are decoded."""
    decoded = options.get("decodeColumns") or {}
    if unknown := set(decoded.values()) - _DECODERS:
        raise BadData(f"a column is encoded by {', '.join(sorted(unknown))}, which is not known", table=str(name))
    targets, sets = [], []
    for at, column in enumerate(options["columns"]):
        targets.append(f"@c{at}" if column in decoded else quoted(column))
        if column in decoded:
            sets.append(f"{quoted(column)} = {decoded[column]}(@c{at})")
    enclosed = options.get("fieldsEnclosedBy", "")
    optionally = "OPTIONALLY " if enclosed and options.get("fieldsOptionallyEnclosed") else ""
    return (
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', unique_checks = 0;\n"
        f"LOAD DATA INFILE {_text(str(file))} INTO TABLE {quoted_table(name)} "
        f"CHARACTER SET {options.get('defaultCharacterSet', 'utf8mb4')} "
        f"FIELDS TERMINATED BY {_text(options.get('fieldsTerminatedBy', chr(9)))} "
        f"{optionally}ENCLOSED BY {_text(enclosed)} ESCAPED BY {_text(options.get('fieldsEscapedBy', chr(92)))} "
        f"LINES TERMINATED BY {_text(options.get('linesTerminatedBy', chr(10)))} "
        f"({', '.join(targets)}){' SET ' + ', '.join(sets) if sets else ''};\n"
    )


def _text(value: str) -> str:
    return "x'" + value.encode().hex() + "'" if not value.isprintable() else _quoted(value)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
