"""Decodes what a real server has written, and asks the same server what is true."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.changes.blocks import RowReader
from strata_cdc.changes.decode import decode_blocks
from strata_cdc.changes.decode_plans import DecodePlans, OnMismatch
from strata_cdc.changes.jsonl import JsonLines
from strata_cdc.changes.partial_json import differences_of, rebuilt
from strata_cdc.changes.plan import Slice
from strata_cdc.changes.port import ChangeBatch, DecodedItem, TableVersion
from strata_cdc.changes.windows import read_windows
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from strata_cdc.schema.model.types import SPATIAL, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pymysql

    from tests.mysql_server import MysqlServer

_NUMBERS = count()


class Live:
    """A database of its own on a server, with one connection."""

    def __init__(self, server: MysqlServer) -> None:
        self.server = server
        self.database = f"rows_{next(_NUMBERS)}"
        self.connection: pymysql.Connection = server.connect()
        self.run(f"CREATE DATABASE {self.database}")
        self.run(f"USE {self.database}")
        self.run("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")
        self.vendor = Flavour.parse(self.connection.get_server_info()).vendor

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def insert(self, table: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
        """Many rows by few statements."""
        marks = ", ".join(["%s"] * len(rows[0])) if rows else ""
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO `{table}` ({columns}) VALUES ({marks})", rows)

    def definition(self, table: str) -> TableDefinition:
        rows = self.run(
            "SELECT column_name, column_type, is_nullable, character_set_name FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            self.database,
            table,
        )
        # MariaDB marks columns in an old format, which the model does not distinguish.
        return TableDefinition(
            tuple(
                Column(name, str(kind).replace(" /* mariadb-5.3 */", ""), null == "YES", charset)
                for name, kind, null, charset in rows
            )
        )

    @contextmanager
    def recorded(self) -> Iterator[list[Path]]:
        """Collects the binlog of what the block does: the file is in the list afterwards."""
        found: list[Path] = []
        self.run("FLUSH BINARY LOGS")
        path = self.server.binlogs()[-1]
        yield found
        self.run("FLUSH BINARY LOGS")
        found.append(path)

    def truth(self, table: str, definition: TableDefinition) -> list[dict[str, Any]]:
        """The rows of a table as JSON lines have them, by SELECT."""
        expressions = ", ".join(_expression(column, self.vendor) for column in definition.columns)
        names = [column.name for column in definition.columns]
        readers = [_reader(column) for column in definition.columns]
        rows = self.run(f"SELECT {expressions} FROM `{table}` ORDER BY 1")
        return [
            {
                name: None if value is None else read(value)
                for name, read, value in zip(names, readers, row, strict=True)
            }
            for row in rows
        ]


def _expression(column: Column, vendor: Vendor) -> str:
    kind, name = parse_column_type(column.column_type).kind, f"`{column.name}`"
    is_mysql = vendor is Vendor.MYSQL
    if kind in (TypeKind.BIT, TypeKind.YEAR):
        return f"{name} + 0"
    if kind is TypeKind.VECTOR:
        return f"VECTOR_TO_STRING({name})" if is_mysql else f"VEC_ToText({name})"
    if kind in SPATIAL:
        order = ", 'axis-order=long-lat'" if is_mysql else ""
        return f"CONCAT(ST_SRID({name}), ' ', HEX(ST_AsWKB({name}{order})))"
    if kind is TypeKind.FLOAT:
        # As a FLOAT it is printed with six digits only.
        return f"CAST({name} AS DOUBLE)"
    if kind is TypeKind.DOUBLE:
        return name
    if column.character_set is not None or kind in _AS_TEXT:
        return f"CONVERT(CAST({name} AS CHAR) USING utf8mb4)"
    return name


_AS_TEXT = (
    *(TypeKind.DATE, TypeKind.DATETIME, TypeKind.TIMESTAMP, TypeKind.TIME, TypeKind.DECIMAL, TypeKind.JSON),
    *(TypeKind.UUID, TypeKind.INET4, TypeKind.INET6),
)


def _reader(column: Column) -> Callable[[Any], Any]:
    kind = parse_column_type(column.column_type).kind
    if kind in SPATIAL:
        return _geometry
    if kind is TypeKind.VECTOR:
        return lambda text: [float(each) for each in json.loads(text)]
    if kind in (TypeKind.BIT, TypeKind.YEAR):
        return int
    if kind is TypeKind.FLOAT:
        return lambda value: float(str(np.float32(value)))
    if kind is TypeKind.DOUBLE:
        return float
    return lambda value: b64encode(value).decode() if isinstance(value, bytes) else value


def _geometry(text: str) -> str:
    srid, wkb = text.split(" ")
    return b64encode(int(srid).to_bytes(4, "little") + bytes.fromhex(wkb)).decode()


def steps(
    path: Path, definitions: dict[TableName, TableDefinition] | None, *, on_mismatch: OnMismatch = OnMismatch.QUARANTINE
) -> Iterator[DecodedItem]:
    """Decodes a whole file, by these definitions or by its TABLE_MAPs alone."""
    with open_binlog(path) as binlog:
        begin = binlog.first_event
        whole = Slice("test", str(path), binlog.name, begin, len(binlog.buffer), begin, 1, 0, 0)
        versions = {name: TableVersion(1, definition) for name, definition in (definitions or {}).items()}
        lookup = None if definitions is None else (lambda name, _: versions.get(name))
        plans = DecodePlans(lookup, wanted=lambda _: True, on_mismatch=on_mismatch)
        windows = read_windows(binlog, whole.ranges(), chain_of(binlog, whole.begin))
        yield from decode_blocks(RowReader(binlog, plans).read_blocks(windows), binlog.name)


def changes(path: Path, definitions: dict[TableName, TableDefinition] | None) -> list[dict[str, Any]]:
    """All changes of a file as JSON lines have them; every batch must be valid."""
    lines = JsonLines()
    for step in steps(path, definitions):
        if isinstance(step, ChangeBatch):
            step.batch.validate(full=True)
            lines.write(step.table, step.definition, step.batch)
    return [json.loads(line) for line in lines.drain()]


def different(one: Any, other: Any) -> tuple[str, str]:
    """What differs between two values, with what is around it."""
    texts = str(one), str(other)
    at = next((k for k, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    return texts[0][max(0, at - 60) : at + 60], texts[1][max(0, at - 60) : at + 60]


def replayed(found: list[dict[str, Any]], key: str = "id") -> list[dict[str, Any]]:
    """What is left of a table after its changes, ordered by key."""
    state: dict[Any, dict[str, Any]] = {}
    for change in found:
        before, after = change["before"] or {}, change["after"] or {}
        if change["op"] == "insert":
            state[after[key]] = after
        elif change["op"] == "delete":
            gone = state.pop(before[key])
            assert all(gone[name] == value for name, value in before.items()), (gone, before)
        else:
            old = state.pop(before[key])
            for name, value in before.items():
                assert old[name] == value, different(old[name], value)
            new = {**old, **after}
            for name, diff in change.get("json_diffs", {}).items():
                new[name] = rebuilt(old[name], differences_of(diff))
            state[new[key]] = new
    return [state[each] for each in sorted(state)]
