"""Writes exports as Dumpling does, of every form: CSV and INSERT statements, in parts, compressed.
Not here: what the reader has to make of them (`test_export.py`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.ticdc.generator import SinkColumn

_ESCAPES = {b"\0": b"0", b"\n": b"n", b"\r": b"r", b"\\": b"\\"}
_SUFFIX = {"gzip": ".gz", "zstd": ".zst"}
_NUMBERS = {"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
_WITH_LENGTH = {"char", "varchar", "binary", "varbinary", "bit", "decimal", "tinyint", "year"}
_BYTES = {"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BIT"}


@dataclass(frozen=True)
class ExportForm:
    """The options of Dumpling."""

    filetype: str = "csv"
    separator: str = ","
    delimiter: str = '"'
    null: str = "\\N"
    escape: bool = True
    header: bool = True
    terminator: str = "\r\n"
    compress: str | None = None
    rows_of_a_file: int = 1000
    rows_of_a_statement: int = 2
    complete_insert: bool = False


def column_type(column: SinkColumn) -> str:
    """The type as SHOW CREATE TABLE has it."""
    name, _, unsigned = column.type.lower().replace("var_string", "varchar").partition(" ")
    if column.elems:
        name += "(" + ",".join("'" + label.replace("'", "''") + "'" for label in column.elems) + ")"
    elif column.type in {"DATETIME", "TIMESTAMP", "TIME"}:
        name += f"({column.scale})" if column.scale else ""
    elif name in _WITH_LENGTH and column.precision is not None:
        name += f"({column.precision}{f',{column.scale}' if column.scale is not None else ''})"
    elif name == "int":
        name += "(11)"
    return f"{name} {unsigned}".strip()


class Export:
    """A folder that Dumpling has written."""

    def __init__(self, folder: Path, tso: int, form: ExportForm = ExportForm()) -> None:
        self.folder, self.form = folder, form
        folder.mkdir(parents=True, exist_ok=True)
        self.write("shop-schema-create.sql", b"/*!40101 SET NAMES binary*/;\nCREATE DATABASE `shop`;\n")
        (folder / "metadata").write_text(
            "Started dump at: 2026-11-27 10:40:19\nSHOW MASTER STATUS:\n\tLog: tidb-binlog\n"
            f"\tPos: {tso}\n\tGTID:\n\nFinished dump at: 2026-11-27 10:40:20\n"
        )

    def table(
        self, name: str, columns: Sequence[SinkColumn], rows: Iterable[dict[str, Any]], more: Sequence[str] = ()
    ) -> None:
        """A table with its rows; `more` are lines of its CREATE TABLE."""
        lines = [
            f"  `{column.name}` {column_type(column)}{'' if column.nullable else ' NOT NULL'}" for column in columns
        ]
        keys = ", ".join(f"`{column.name}`" for column in columns if column.pk)
        lines += [*more, *([f"  PRIMARY KEY ({keys}) /*T![clustered_index] CLUSTERED */"] if keys else [])]
        create = f"CREATE TABLE `{name}` (\n" + ",\n".join(lines)
        create += "\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;\n"
        base = f"shop.{_file_name(name)}"
        self.write(f"{base}-schema.sql", f"/*!40101 SET NAMES binary*/;\n{create}".encode())
        held = list(rows)
        size = self.form.rows_of_a_file
        for number, begin in enumerate(range(0, len(held), size)):
            part = held[begin : begin + size]
            content = self.csv(columns, part) if self.form.filetype == "csv" else self.sql(name, columns, part)
            self.write(f"{base}.{number:09}.{self.form.filetype}", content)

    def write(self, name: str, content: bytes) -> None:
        path = str(self.folder / f"{name}{_SUFFIX.get(self.form.compress or '', '')}")
        with pa.output_stream(path, compression=self.form.compress) as stream:
            stream.write(content)

    def csv(self, columns: Sequence[SinkColumn], rows: Sequence[dict[str, Any]]) -> bytes:
        separator, end = self.form.separator.encode(), self.form.terminator.encode()
        header = [separator.join(self._quoted(column.name.encode()) for column in columns)] if self.form.header else []
        lines = [separator.join(self._csv_field(shown(column, row)) for column in columns) for row in rows]
        return b"".join(line + end for line in (*header, *lines))

    def _csv_field(self, value: Any) -> bytes:
        if value is None:
            return self.form.null.encode()
        if isinstance(value, int):
            return str(value).encode()
        return self._quoted(value.encode() if isinstance(value, str) else value)

    def _quoted(self, value: bytes) -> bytes:
        quote = self.form.delimiter.encode()
        if not self.form.escape:
            return quote + value.replace(quote, quote * 2) + quote
        special = quote or self.form.separator.encode()[:1]
        return quote + _escaped(value, {**_ESCAPES, special: special}) + quote

    def sql(self, name: str, columns: Sequence[SinkColumn], rows: Sequence[dict[str, Any]]) -> bytes:
        named = f" ({','.join(f'`{column.name}`' for column in columns)})" if self.form.complete_insert else ""
        parts = [b"/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"]
        size = self.form.rows_of_a_statement
        for begin in range(0, len(rows), size):
            tuples = [
                b"(" + b",".join(_sql_field(shown(column, row)) for column in columns) + b")"
                for row in rows[begin : begin + size]
            ]
            parts.append(f"INSERT INTO `{name}`{named} VALUES\n".encode() + b",\n".join(tuples) + b";\n")
        return b"".join(parts)


class Number(int):
    """A number as the server shows it."""

    text = ""

    @classmethod
    def shown(cls, text: str) -> Number:
        made = cls()
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def shown(column: SinkColumn, row: dict[str, Any]) -> Any:
    """The value as Dumpling gets it from the driver: texts and bytes, and numbers of the types that it knows as such.
    Unsigned types have a name in the driver that Dumpling does not know."""
    value = row[column.name]
    if value is None:
        return None
    if column.type == "BIT":
        return int(value).to_bytes((int(column.precision or 1) + 7) // 8, "big")
    if column.type in _BYTES:
        return bytes(value)
    return Number.shown(str(value)) if column.type in _NUMBERS else str(value)


def _sql_field(value: Any) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, bytes):
        return b"x'" + value.hex().encode() + b"'"
    if isinstance(value, str):
        return b"'" + _escaped(value.encode(), {**_ESCAPES, b"'": b"'", b'"': b'"', b"\x1a": b"Z"}) + b"'"
    return str(value).encode()


def _escaped(value: bytes, codes: dict[bytes, bytes]) -> bytes:
    bytes_of = (value[at : at + 1] for at in range(len(value)))
    return b"".join(b"\\" + codes[byte] if byte in codes else byte for byte in bytes_of)


def _file_name(name: str) -> str:
    return re.sub(r'[\x00-\x1f%"*./:<>?\\|]|-(?i:schema)', lambda found: f"%{ord(found[0][0]):02X}{found[0][1:]}", name)
