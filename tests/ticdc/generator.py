"""Writes folders as TiCDC's storage sink does, of every form, with the faults that it has: files that no index names,
rows that are written again, tables that move. Not here: what the reader has to make of them (`test_*.py`)."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START = 466_000_000_000_000_000
"""A commit timestamp; TiDB's clock had it in 2026."""
DATES = {"none": "", "year": "2026", "month": "2026-11", "day": "2026-11-27"}


@dataclass(frozen=True)
class SinkColumn:
    """A column of a schema file."""

    name: str
    type: str = "INT"
    pk: bool = False
    nullable: bool = True
    default: Any = None
    precision: str | None = None
    scale: str | None = None
    elems: tuple[str, ...] = ()
    id: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As TiCDC writes it: what has its default is absent."""
        written = {
            "ColumnId": None if self.id is None else str(self.id),
            "ColumnName": self.name,
            "ColumnType": self.type,
            "ColumnDefault": self.default,
            "ColumnPrecision": self.precision,
            "ColumnScale": self.scale,
            "ColumnNullable": None if self.nullable else "false",
            "ColumnIsPk": "true" if self.pk else None,
            "ColumnElems": list(self.elems) or None,
        }
        return {name: value for name, value in written.items() if value is not None}


@dataclass(frozen=True)
class Row:
    """A change as TiCDC gets it. `old` or `new` is None where there is none."""

    ts: int
    new: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    key: bytes | None = None
    """TiKV's key of the row, which canal-json may have."""

    @property
    def op(self) -> str:
        return {(True, False): "I", (False, True): "D", (True, True): "U"}[self.new is not None, self.old is not None]


@dataclass(frozen=True)
class FeedForm:
    """The settings of a changefeed."""

    protocol: str = "csv"
    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    terminator: str = "\r\n"
    header: bool = False
    old_value: bool = False
    commit_ts: bool = True
    binary: str = "base64"
    digits: int = 20
    date: str = "day"
    table_ids: bool = False
    extension: bool = True
    only_updated: bool = False
    column_ids: bool = False


@dataclass
class SinkTable:
    """A table as the changefeed sees it now."""

    database: str
    name: str
    columns: tuple[SinkColumn, ...]
    version: int
    id: int = 100
    versions: dict[int, tuple[SinkColumn, ...]] = field(default_factory=dict)


class Feed:
    """A changefeed that writes into a folder."""

    def __init__(self, folder: Path, form: FeedForm = FeedForm()) -> None:
        self.folder, self.form = folder, form
        self.numbers: Counter[tuple[str, str]] = Counter()
        folder.mkdir(parents=True, exist_ok=True)
        self.checkpoint(START)

    def checkpoint(self, ts: int) -> None:
        (self.folder / "metadata").write_text(json.dumps({"checkpoint-ts": ts}))

    # Schemas --------------------------------------------------------------------------------------

    def table(self, name: str, columns: Iterable[SinkColumn], ts: int = START, id: int = 100) -> SinkTable:  # noqa: A002
        """The state of a table when the feed begins."""
        table = SinkTable("shop", name, (), ts, id)
        self.ddl(table, ts, 0, "", columns)
        return table

    def ddl(
        self, table: SinkTable, ts: int, kind: int, query: str, columns: Iterable[SinkColumn] | None = None
    ) -> Path:
        """A new version of a table; with an empty query its state after it moved."""
        table.columns = table.columns if columns is None else tuple(columns)
        table.version, table.versions[ts] = ts, table.columns
        return self.schema_file(table.database, table.name, self.table_folder(table), ts, kind, query, table.columns)

    def database(self, name: str, ts: int, kind: int, query: str) -> Path:
        return self.schema_file(name, "", name, ts, kind, query, None)

    def schema_file(
        self,
        database: str,
        name: str,
        folder: str,
        ts: int,
        kind: int,
        query: str,
        columns: tuple[SinkColumn, ...] | None,
    ) -> Path:
        listed = None if columns is None else [column.to_json() for column in columns]
        content = {"Table": name, "Schema": database, "Version": 1, "TableVersion": ts, "Query": query, "Type": kind}
        content |= {"TableColumns": listed, "TableColumnsTotal": len(listed or ())}
        ordered = None if listed is None else sorted(listed, key=lambda column: column["ColumnName"])
        summed = {"Table": name, "Schema": database, "Version": 0}
        summed |= {"TableColumns": ordered, "TableColumnsTotal": len(listed or ())}
        checksum = zlib.crc32(json.dumps(summed, indent=4, ensure_ascii=False).encode())
        path = self.folder / folder / "meta" / f"schema_{ts}_{checksum:010}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=4, ensure_ascii=False))
        return path

    def table_folder(self, table: SinkTable) -> str:
        return str(table.id) if self.form.table_ids else f"{table.database}/{table.name}"

    # Data -----------------------------------------------------------------------------------------

    def write(
        self,
        table: SinkTable,
        rows: Iterable[Row],
        version: int | None = None,
        dispatcher: str = "",
        partition: int = 0,
        date: str | None = None,
        indexed: bool = True,
    ) -> Path:
        """A file of rows in the directory of a version; without `indexed` TiCDC died before it wrote the index."""
        version = version or table.version
        columns = table.versions[version]
        parts = [self.table_folder(table), str(version), str(partition or ""), date or DATES[self.form.date]]
        directory = "/".join(part for part in parts if part)
        number = self.numbers[directory, dispatcher] + 1
        suffix = "csv" if self.form.protocol == "csv" else "json"
        middle = f"_{dispatcher}_" if dispatcher else ""
        path = self.folder / directory / f"CDC{middle}{number:0{self.form.digits}}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("".join(self.lines(table, columns, rows)).encode())
        if indexed:
            self.numbers[directory, dispatcher] = number
            index = path.parent / "meta" / f"CDC{f'_{dispatcher}' if dispatcher else ''}.index"
            index.parent.mkdir(exist_ok=True)
            index.write_text(f"{path.name}\n")
        return path

    def lines(self, table: SinkTable, columns: tuple[SinkColumn, ...], rows: Iterable[Row]) -> Iterable[str]:
        if self.form.protocol != "csv":
            return [self.canal_line(table, columns, row) for row in rows]
        header = ["operation", "table", "schema", "commit-ts", *(["is-update"] if self.form.old_value else [])]
        names = [*(f"ticdc-meta${name}" for name in header), *(column.name for column in columns)]
        first = [self.form.delimiter.join(names) + self.form.terminator] if self.form.header else []
        return [*first, *(line for row in rows for line in self.csv_lines(table, columns, row))]

    def csv_lines(self, table: SinkTable, columns: tuple[SinkColumn, ...], row: Row) -> Iterable[str]:
        images = [(row.op, row.new if row.new is not None else row.old)]
        if self.form.old_value and row.op == "U":
            images = [("D", row.old), ("I", row.new)]
        for op, image in images:
            fields = [op, table.name, table.database]
            written = [self.csv_field(text) for text in fields]
            written += [str(row.ts)] if self.form.commit_ts else []
            written += [str(row.op == "U").lower()] if self.form.old_value else []
            written += [self.csv_field(self.csv_value(column, image[column.name])) for column in columns]
            yield self.form.delimiter.join(written) + self.form.terminator

    def csv_value(self, column: SinkColumn, value: Any) -> Any:
        if isinstance(value, bytes):
            return value.hex() if self.form.binary == "hex" else base64.b64encode(value).decode()
        return value

    def csv_field(self, value: Any) -> str:
        if value is None:
            return self.form.null
        if not isinstance(value, str):
            return str(value)
        if self.form.quote:
            return self.form.quote + value.replace(self.form.quote, self.form.quote * 2) + self.form.quote
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        return escaped.replace(self.form.delimiter, "".join(f"\\{letter}" for letter in self.form.delimiter))

    def canal_line(self, table: SinkTable, columns: tuple[SinkColumn, ...], row: Row) -> str:
        names = [column.name for column in columns]
        data = self.canal_image(columns, row.new if row.new is not None else row.old)
        old = self.canal_image(columns, row.old) if row.op == "U" else None
        if old and self.form.only_updated:
            old = {name: value for name, value in old.items() if data[name] != value}
        keys = [column.name for column in columns if column.pk]
        line = {"id": 0, "database": table.database, "table": table.name, "pkNames": keys or None, "isDdl": False}
        line |= {"type": {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[row.op], "es": row.ts >> 18, "ts": 1, "sql": ""}
        line |= {"sqlType": dict.fromkeys(names, 4), "mysqlType": {one.name: one.type.lower() for one in columns}}
        line |= {"old": None if old is None else [old], "data": [data]}
        if self.form.extension:
            line["_tidb"] = {"commitTs": row.ts}
            if row.key is not None:
                line["_tidb"]["rowkey"] = base64.b64encode(row.key).decode()
        return json.dumps(line, separators=(",", ":"), ensure_ascii=False) + self.form.terminator

    def canal_image(self, columns: tuple[SinkColumn, ...], image: dict[str, Any]) -> dict[str, str | None]:
        return {column.name: self.canal_value(column, image[column.name]) for column in columns}

    def canal_value(self, column: SinkColumn, value: Any) -> str | None:
        if isinstance(value, bytes):
            return value.decode("latin-1")
        if value is not None and column.type == "ENUM":
            return str(column.elems.index(value) + 1)
        if value is not None and column.type == "SET":
            return str(sum(1 << column.elems.index(label) for label in value.split(",") if label))
        return None if value is None else str(value)


def with_ids(columns: Iterable[SinkColumn], first: int = 1) -> tuple[SinkColumn, ...]:
    """Columns with TiDB's ids."""
    return tuple(replace(column, id=at) for at, column in enumerate(columns, start=first))
