"""The folder of an export by Dumpling, TiDB's tool: at which timestamp it was taken, and the files of each table.
Not here: rows (`export_rows.py`), whether a table is that of the sink (`export_schema.py`).

The names are those that Dumpling gives by default (pingcap/tidb, dumpling/export/prepare.go).
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct

from strata_cdc.errors import BadData, DamagedFileError, Usage
from strata_cdc.files.storage import arrow_file_system, lake_errors, list_files
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

HOW_TO_EXPORT: Final = "Make one with `dumpling -T DATABASE.TABLE -o FOLDER`, and no options for the form of its files."
COPY_REMEDY: Final = "Copy the folder again, or export again: an export is read as a whole or not at all."
_METADATA: Final = "metadata"
_POSITION: Final = re.compile(
    r"^SHOW (?:MASTER|BINARY LOG) STATUS:\s*\n\s*Log:\s*(?P<log>\S+)\s*\n\s*Pos:\s*(?P<pos>[^\n]+?)\s*$", re.MULTILINE
)
_TIDB_LOG: Final = "tidb-binlog"
_FINISHED: Final = "\nFinished dump at:"
_TABLE_FILE: Final = re.compile(
    r"(?P<database>[^./]+)\.(?P<table>[^./]+?)"
    r"(?P<rest>-schema\.sql|-schema-view\.sql|-schema-sequence\.sql|\.(?P<index>\d+)\.(?P<form>csv|sql))"
    r"(?P<packed>\.gz|\.zst)?"
)
_OTHER_FILE: Final = re.compile(r".+-(schema-create|placement-policy-create)\.sql(\.gz|\.zst)?|[^.]+|\..*")
"""Of databases and policies; names without a suffix, and hidden ones."""
_DATA: Final = re.compile(r"\.(csv|sql|parquet|snappy)(\.|$)")
_ESCAPED: Final = re.compile(r"%([0-9A-F]{2})")
_COMPRESSION: Final = {None: None, ".gz": "gzip", ".zst": "zstd"}
_READ_BYTES: Final = 8 << 20


class ExportForm(StrEnum):
    """How the rows of a table are written (`--filetype`)."""

    CSV = "csv"
    SQL = "sql"


class ExportFile(Struct, frozen=True):
    """One file."""

    url: str
    path: str
    """Relative to the folder."""
    compression: str | None = None
    """As Arrow names it."""

    def blocks(self, size: int = _READ_BYTES) -> Iterable[bytes]:
        """The content, in blocks that end with a line; only the last one may be cut.

        Raises:
            DamagedFileError: The compressed data are cut off or damaged.
            LakeUnavailableError: The storage does not answer.
        """
        with lake_errors(self.url):
            files, path = arrow_file_system(self.url)
            stream = files.open_input_stream(path, compression=self.compression)
        with stream:
            rest = b""
            while block := self._read(stream, size):
                end = block.rfind(b"\n") + 1
                if end:
                    yield rest + block[:end]
                    rest = block[end:]
                else:
                    rest += block
            if rest:
                yield rest

    def _read(self, stream: pa.NativeFile, size: int) -> bytes:
        if self.compression is None:
            with lake_errors(self.url):
                return bytes(stream.read(size))
        try:
            return bytes(stream.read(size))
        except (OSError, pa.ArrowInvalid) as error:
            raise DamagedFileError(
                f"the file cannot be read to its end: {error}", file=self.path, remedy=COPY_REMEDY
            ) from error


class ExportedTable(Struct, frozen=True):
    """A table of an export."""

    create: ExportFile
    """CREATE TABLE."""
    form: ExportForm
    files: tuple[ExportFile, ...]
    """Its rows; none if it has no rows."""


class DumplingExport(Struct, frozen=True):
    """An export: all tables as they were at one timestamp."""

    tso: int
    """The rows are those that were committed up to it."""
    tables: dict[TableName, ExportedTable]


def read_export(url: str) -> DumplingExport:
    """What a folder holds.

    Args:
        url: Of the folder: a local path or any URL that `files/storage.py` opens.

    Raises:
        Usage: The folder is no export by Dumpling of TiDB at one timestamp.
        BadData: A file has no table, or a table has two files of one number or of two forms.
        LakeUnavailableError: The storage does not answer.
    """
    root = url.rstrip("/")
    paths = [url_of_file[len(root) + 1 :] for url_of_file in list_files(root)]
    if _METADATA not in paths:
        raise Usage(f"{root} is no export by Dumpling: it has no file {_METADATA}", remedy=HOW_TO_EXPORT)
    tso = _tso(b"".join(ExportFile(f"{root}/{_METADATA}", _METADATA).blocks()).decode(errors="replace"), root)
    names = {path: match for path in paths if (match := _TABLE_FILE.fullmatch(path)) is not None}
    strange = [path for path in paths if path not in names and _is_data(path)]
    if strange:
        raise BadData(
            f"{strange[0]} is no file of a table by its name, so that rows may be missing from the others",
            file=root,
            remedy="Export with the default names, to CSV or SQL, plain, gzip or zstd; give a folder with one export.",
        )
    return DumplingExport(tso, _tables(root, names))


def _is_data(path: str) -> bool:
    name = path.rpartition("/")[2]
    return _DATA.search(name) is not None and ("/" in path or _OTHER_FILE.fullmatch(name) is None)


def _tso(metadata: str, root: str) -> int:
    position = _POSITION.search(metadata)
    reasons = {
        "it is not finished": _FINISHED not in metadata,
        "it has no position": position is None,
        "it is of MySQL or MariaDB, not of TiDB": position is not None and position["log"] != _TIDB_LOG,
        "its position is no timestamp of TiDB": position is not None and not position["pos"].isdigit(),
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise Usage(f"the export cannot be taken: {reason}", file=f"{root}/{_METADATA}", remedy=HOW_TO_EXPORT)
    return int(position["pos"]) if position else 0


def _tables(root: str, names: dict[str, re.Match[str]]) -> dict[TableName, ExportedTable]:
    creates: dict[TableName, ExportFile] = {}
    data: dict[TableName, dict[int, tuple[str, ExportFile]]] = {}
    others: set[TableName] = set()
    for path, match in names.items():
        name = TableName(_unescaped(match["database"]), _unescaped(match["table"]))
        file = ExportFile(f"{root}/{path}", path, _COMPRESSION[match["packed"]])
        if match["rest"] == "-schema.sql":
            _refuse_two(creates.setdefault(name, file), file)
        elif match["index"] is None:
            others.add(name)
        else:
            first = data.setdefault(name, {}).setdefault(int(match["index"]), (match["form"], file))
            _refuse_two(first[1], file)
    for name in data:
        if name not in creates:
            raise BadData(
                "the table has rows and no CREATE TABLE",
                table=str(name),
                file=root,
                remedy="Export without --no-schemas and --sql, and copy the whole folder.",
            )
    return {name: _table(name, file, data.get(name, {})) for name, file in creates.items() if name not in others}


def _refuse_two(first: ExportFile, file: ExportFile) -> None:
    if first is not file:
        raise BadData(f"{first.path} and {file.path} are the same part of a table", remedy=COPY_REMEDY)


def _table(name: TableName, create: ExportFile, data: dict[int, tuple[str, ExportFile]]) -> ExportedTable:
    forms = {form for form, _ in data.values()}
    if len(forms) > 1:
        raise BadData("the table has files of two exports, CSV and SQL", table=str(name), remedy=COPY_REMEDY)
    form = ExportForm(next(iter(forms), ExportForm.CSV))
    return ExportedTable(create, form, tuple(file for _, (_, file) in sorted(data.items())))


def _unescaped(name: str) -> str:
    return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), name)
