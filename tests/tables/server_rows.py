"""Random tables with random rows on a real server, an ALTER after the other: what the server makes of the rows, and
what `convert_rows` makes of them.
Not here: how many, and what is required of them (`test_effects_on_server.py`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pymysql

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.errors import ReadAgainError
from strata_cdc.flavour import Flavour
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.history.identified_tables import IdentifiedTables
from strata_cdc.schema.model.conversions import ValueClass, value_class
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.schema.model.row_effects import NO_EFFECT
from strata_cdc.schema.model.types import LABELLED, SPATIAL, TypeKind, parse_column_type
from strata_cdc.schema.replay.catalog import Catalog
from strata_cdc.tables.convert import convert_rows, state_schema
from tests.quality.compare_rows import FROM_SELECT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.row_effects import RowEffect
    from tests.mysql_server import MysqlServer

DATABASE = "of_rows"
ROWS = 7

TYPES = [
    "tinyint", "tinyint unsigned", "smallint", "mediumint", "mediumint unsigned", "int", "int unsigned", "bigint",
    "bigint unsigned", "int(6) zerofill",
    "decimal(5,2)", "decimal(10,4)", "decimal(12,0)", "decimal(38,10)", "decimal(65,30)", "decimal(8,3) unsigned",
    "decimal(7,2) zerofill",
    "float", "double", "double unsigned", "float(7,3)",
    "bit(1)", "bit(8)", "bit(63)", "bit(64)",
    "char(3)", "char(20)", "varchar(2)", "varchar(30)", "varchar(60) charset latin1", "char(10) charset latin1",
    "varchar(20) charset ascii", "varchar(20) charset utf8mb3", "varchar(20) charset ucs2", "varchar(9) charset cp1251",
    "varchar(20) charset gbk", "varchar(40) collate utf8mb4_bin", "tinytext", "text", "text charset latin1",
    "mediumtext", "varchar(9) charset sjis", "varchar(9) charset utf16",
    "binary(3)", "binary(20)", "varbinary(4)", "varbinary(60)", "blob", "tinyblob",
    "enum('a','b','x')", "enum('x','b','a','é')", "enum('1','2','a')", "enum('A','x') charset latin1",
    "enum('a','b','x','2020','12')",
    "enum('X','A') collate utf8mb4_bin", "set('X','Y','A')",
    "enum('','a')", "set('x','y')", "set('y','x','a')", "set('a','b','x','y','z')",
    "date", "datetime", "datetime(1)", "datetime(3)", "datetime(6)", "timestamp", "timestamp(2)", "timestamp(6)",
    "time", "time(2)", "time(6)", "year",
    "json", "geometry", "point", "linestring", "vector(2)", "vector(3)",
]  # fmt: skip
LITERALS = {
    ValueClass.INTEGER: ["0", "1", "2", "-1", "7", "12", "70", "127", "128", "255", "-128", "1999", "2020", "32767",
                         "65535", "8388607", "-8388608", "16777215", "2147483647", "4294967295", "999999",
                         "9223372036854775807", "-9223372036854775808", "18446744073709551615", "20200102"],
    ValueClass.DECIMAL: ["0", "0.5", "-0.5", "1.005", "-1.005", "2.5", "-2.5", "1.49", "999.99", "-999.99", "0.0000001",
                         "0.00000001", "-0.001", "12", "127.5", "99999999999999999999.99", "123456.7891",
                         "1e25", "20200102030405"],
    ValueClass.FLOATING: ["0", "-0.0", "0.1", "1.5", "2.5", "-2.5", "0.5", "1e20", "1e-7", "123456789.125", "3.4e38",
                          "1e300", "2.0000001", "1e15", "123456.5", "1.005", "-7"],
    ValueClass.BITS: ["0", "1", "b'1'", "5", "255", "b'111111'", "9223372036854775807", "18446744073709551615"],
    ValueClass.TEXT: ["''", "'a'", "'A'", "' b'", "'b '", "'b  '", "'12'", "'-7'", "'+7'", "'007'", "'1.5'", "'2.5'",
                      "'-0.5'", "'1e3'", "' 12'", "'12 '", "'é'", "'Ж'", "'日'", "'😀'", "'ÿ'", "'€'", "'2020-01-02'",
                      "'2020-01-02 03:04:05.678'", "'2020-01-02 23:59:59.999999'", "'10:11:12'", "'-10:11:12.6'",
                      "'x'", "'x,y'", "'y,x'", "'y,x,x'", "'x,a'", "'2020'", "'{\"a\": 1}'", "'2020-02-30'", "'abc'",
                      "'a,'", "'18446744073709551615'", "'0.1'", "'\\\\'", "'\\t'", "'70'", "'a\\0b'"],
    ValueClass.BYTES: ["''", "'a'", "x'00'", "x'FF'", "'ab'", "x'E29C93'", "x'410042'", "x'4100'", "'12'", "'a '",
                       "'abc'", "x'F09F9880'"],
    ValueClass.ENUM: ["'a'", "'b'", "'x'", "'A'", "1", "2", "'é'", "''", "'12'"],
    ValueClass.SET: ["''", "'x'", "'y'", "'x,y'", "'a'", "'a,x'", "1", "3"],
    ValueClass.DATE: ["'2020-01-02'", "'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'1969-12-31'", "'2020-02-00'",
                      "'1901-01-01'", "'2155-06-07'", "'0001-01-01'"],
    ValueClass.DATETIME: ["'2020-01-02 03:04:05.499999'", "'2020-01-02 23:59:59.5'", "'2020-12-31 23:59:59.999999'",
                          "'1969-12-31 23:59:58.75'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'",
                          "'1000-01-01 00:00:00.25'", "'2020-01-02'", "'1950-05-05 05:05:05.555555'"],
    ValueClass.TIMESTAMP: ["'2020-01-02 03:04:05.499999'", "'2020-12-31 23:59:59.999999'", "'1970-01-01 00:00:01'",
                           "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'", "'1999-09-09 09:09:09.25'"],
    ValueClass.TIME: ["'00:00:00'", "'-00:00:00.5'", "'838:59:59'", "'-838:59:59'", "'-12:34:56.789'", "'23:59:59.996'",
                      "'12:34:56.5'", "'100:00:00.45'"],
    ValueClass.YEAR: ["0", "1901", "2155", "2020", "1970", "'70'"],
    ValueClass.JSON: ["'{\"b\":1,\"a\":[1.0,null,\"é\"]}'", "'\"x\"'", "'5'", "'[]'", "'null'", "'1.50'"],
    ValueClass.GEOMETRY: ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(1 2)', 4326)",
                          "ST_GeomFromText('LINESTRING(0 0,1 1)')"],
    ValueClass.VECTOR: ["STRING_TO_VECTOR('[1,2]')", "STRING_TO_VECTOR('[1.5]')", "STRING_TO_VECTOR('[0.1,2,3]')"],
}  # fmt: skip
DEFAULTS = {
    ValueClass.INTEGER: ["0", "5", "'7'", "1.6", "TRUE"],
    ValueClass.DECIMAL: ["0", "1.005", "'2.5'", "12"],
    ValueClass.FLOATING: ["0", "0.1", "1.25", "1e10", "123456.789012", "'2.5'"],
    ValueClass.BITS: ["0", "1", "b'1'"],
    ValueClass.TEXT: ["''", "'a'", "'b '", "'é'", "5", "1.50", "x'41'", "_latin1'b'"],
    ValueClass.BYTES: ["''", "'ab'", "x'4100'", "x'00FF'", "'é'", "x'410042'"],
    ValueClass.ENUM: ["'a'", "'x'", "'A'"],
    ValueClass.SET: ["''", "'x'", "'y,x'", "'x,y'"],
    ValueClass.DATE: ["'2020-01-02'", "'0000-00-00'", "20200102"],
    ValueClass.DATETIME: ["'2020-01-02 03:04:05'", "'2020-01-02 03:04:05.678'", "CURRENT_TIMESTAMP", "'2020-1-2'"],
    ValueClass.TIMESTAMP: ["'2020-01-02 03:04:05'", "CURRENT_TIMESTAMP", "'0000-00-00 00:00:00'"],
    ValueClass.TIME: ["'10:11:12'", "'-10:11:12.678'", "101112", "0"],
    ValueClass.YEAR: ["2020", "'70'", "0", "'1999'"],
    ValueClass.JSON: ["('[]')"],
    ValueClass.GEOMETRY: [],
    ValueClass.VECTOR: [],
}
CHARSETS = ["utf8mb4", "latin1", "utf8mb3", "ascii", "ucs2", "cp1251", "gbk", "binary"]
MODES = {
    "STRICT_TRANS_TABLES": 0x200000,
    "STRICT_ALL_TABLES": 0x400000,
    "NO_ZERO_DATE": 0x1000000,
    "NO_AUTO_VALUE_ON_ZERO": 0x80000,
    "PAD_CHAR_TO_FULL_LENGTH": 1 << 31,
    "ANSI_QUOTES": 4,
}
OF_MYSQL = {"TIME_TRUNCATE_FRACTIONAL": 1 << 32}
OF_MARIADB = {"TIME_ROUND_FRACTIONAL": 1 << 34}

_EXACTLY = {TypeKind.FLOAT: "CAST({} AS DOUBLE)", TypeKind.VECTOR: "CAST({} AS BINARY)"}
"""SELECT prints six digits of a FLOAT, and PyMySQL takes a VECTOR for ASCII."""


@dataclass
class Tally:
    """What came of the statements: by the class before and after of the column that was changed, or the clause."""

    exact: Counter[str] = field(default_factory=Counter)
    read_again: Counter[str] = field(default_factory=Counter)
    """The effect says so: nothing could be known before the rows were looked at."""
    refused: Counter[str] = field(default_factory=Counter)
    """A value was refused."""
    failed: int = 0
    """The server did not take the statement."""
    wrong: list[str] = field(default_factory=list)

    def table(self) -> str:
        """A line for each class."""
        names = sorted({*self.exact, *self.read_again, *self.refused})
        lines = [f"{'':32} exact  read again  refused"]
        lines += [f"{n:32} {self.exact[n]:5}  {self.read_again[n]:10}  {self.refused[n]:7}" for n in names]
        total = [sum(one.values()) for one in (self.exact, self.read_again, self.refused)]
        lines.append(f"{'all':32} {total[0]:5}  {total[1]:10}  {total[2]:7}, {self.failed} failed on the server")
        return "\n".join(lines)


class Subject:
    """One table on the server, what the replay has of it, and its rows."""

    def __init__(self, server: MysqlServer, random: Random, tally: Tally) -> None:
        self.random = random
        self.tally = tally
        self.session = server.connect(DATABASE)
        self.observer = server.connect(DATABASE)
        for connection in (self.session, self.observer):
            run(connection, "SET time_zone = '+00:00'")
        with self.session.cursor() as cursor:
            cursor.execute("SELECT VERSION(), @@collation_server")
            version, self.collation = cursor.fetchone()
        self.flavour = Flavour.parse(version)
        is_mariadb = self.flavour.is_mariadb()
        self.types = [one for one in TYPES if not (is_mariadb and one.startswith("vector"))]
        self.modes = {**MODES, **(OF_MARIADB if is_mariadb else OF_MYSQL)}
        self.name = TableName(DATABASE, "t")
        self.mode = 0
        self.explicit = True

    def close(self) -> None:
        self.session.close()
        self.observer.close()

    # A table ------------------------------------------------------------------------------------

    def make(self) -> None:
        """A new table with rows."""
        run(self.session, "SET sql_mode = '', explicit_defaults_for_timestamp = 1")
        self.explicit = True
        run(self.session, "DROP TABLE IF EXISTS t")
        self.catalog = Catalog()
        self.catalog.put_database(DATABASE, self.collation)
        self.identified = IdentifiedTables()
        self.mode = 0
        columns = [
            self.column(f"c{number}", self.random.choice(self.types)) for number in range(self.random.randint(1, 4))
        ]
        extra = self.random.choice(["", "", "", ", g int as (id + 1) virtual", ", g varchar(99) as (hex(c0)) stored"])
        options = self.random.choice(["", "", "", " ENGINE = MyISAM", " CHARSET = latin1", " ROW_FORMAT = COMPACT"])
        ddl = f"CREATE TABLE t (id int primary key, {', '.join(columns)}{extra}){options}"
        try:
            run(self.session, ddl)
        except pymysql.Error:
            return self.make()
        self.apply(ddl)
        for number in range(ROWS):
            self.insert(number)
        self.rows = self.select()
        return None

    def column(self, name: str, column_type: str) -> str:
        return f"{name} {column_type}{self.random.choice(['', '', ' not null'])}"

    def insert(self, number: int) -> None:
        columns = [one for one in self.definition.columns if one.name != "id" and one.generated is None]
        for _ in range(5):
            values = [self.literal(column.column_type) for column in columns]
            if self.random.random() < 0.15:
                values[self.random.randrange(len(values))] = "NULL"
            names = ", ".join(["id", *(column.name for column in columns)])
            try:
                return run(self.session, f"INSERT IGNORE INTO t ({names}) VALUES ({', '.join([str(number), *values])})")
            except pymysql.Error:
                continue
        return None

    def literal(self, column_type: str) -> str:
        kind = value_class(parse_column_type(column_type).kind)
        return self.random.choice(LITERALS[kind])

    # An ALTER -----------------------------------------------------------------------------------

    def alter(self) -> None:
        """Runs a random ALTER, and compares what became of the rows."""
        before, rows = self.definition, self.rows
        self.set_mode()
        what, clauses = self.clauses()
        if self.random.random() < 0.2:
            clauses.append(f"ALGORITHM = {self.random.choice(['COPY', 'COPY', 'INPLACE', 'INSTANT'])}")
        ddl = f"ALTER TABLE t {', '.join(clauses)}"
        try:
            run(self.session, ddl)
        except pymysql.Error:
            self.tally.failed += 1
            return
        effect = self.apply(ddl)
        try:
            self.rows = self.select()
        except (pa.ArrowInvalid, ValueError):
            self.make()  # outside strict mode the server makes vectors and geometries that are none
            return
        name = self.class_of(what, before)
        try:
            found = convert_rows(rows, before, self.definition, effect)
        except ReadAgainError:
            (self.tally.read_again if effect.kind == "read_again" else self.tally.refused)[name] += 1
            return
        except (pa.ArrowInvalid, ValueError, TypeError, pa.ArrowNotImplementedError) as error:
            self.tally.wrong.append(f"{self.mode:#x} {ddl}: {type(error).__name__} {error}")
            return
        self.compare(found, rows, ddl, name, effect)

    def compare(self, found: pa.Table, rows: pa.Table, ddl: str, name: str, effect: RowEffect) -> None:
        if found.equals(self.rows):
            self.tally.exact[name] += 1
            return
        for column in found.column_names:
            one, other = found[column].to_pylist(), self.rows[column].to_pylist()
            for number, (left, right) in enumerate(zip(one, other, strict=True)):
                if repr(left) != repr(right):
                    was = rows.slice(number, 1).to_pylist()
                    before = {c.name: c.column_type for c in self.before.columns}
                    self.tally.wrong.append(
                        f"{self.mode:#x} {ddl}\n  of {before}\n"
                        f"  {effect.kind}: {column} is {left!r}, on the server {right!r}; was {was}"
                    )
                    return
        self.tally.exact[name] += 1

    def class_of(self, what: tuple[str, str | None], before: TableDefinition) -> str:
        self.before = before
        clause, name = what
        column, old = self.definition.column(name or ""), before.column(name or "")
        if clause == "modify" and column is not None and old is not None:
            kinds = [value_class(parse_column_type(one.column_type).kind).value for one in (old, column)]
            return " -> ".join(kinds)
        return clause

    def set_mode(self) -> None:
        chosen = [name for name in self.modes if self.random.random() < 0.15]
        if any(one.generated is not None for one in self.definition.columns):
            # A copy computes them anew: with blanks of a CHAR in one session and without in the next.
            chosen = [name for name in chosen if name != "PAD_CHAR_TO_FULL_LENGTH"]
        if self.random.random() < 0.6:
            chosen.append("STRICT_TRANS_TABLES")
        self.explicit = self.random.random() < 0.8
        run(self.session, f"SET sql_mode = '{','.join(chosen)}', explicit_defaults_for_timestamp = {self.explicit:d}")
        self.mode = sum({self.modes[name] for name in chosen})

    def clauses(self) -> tuple[tuple[str, str | None], list[str]]:
        columns = [one.name for one in self.definition.columns if one.name != "id" and one.generated is None]
        name = self.random.choice(columns)
        roll = self.random.random()
        if roll < 0.62:
            extra = [self.add()] if self.random.random() < 0.1 else []
            others = [one for one in columns if one != name]
            if others and self.random.random() < 0.2:
                other = self.random.choice(others)
                extra.append(f"MODIFY {self.column(other, self.other_type(other))}")
            return ("modify", name), [f"MODIFY {self.column(name, self.other_type(name))}", *extra]
        if roll < 0.80:
            return ("add", None), [self.add()]
        if roll < 0.86:
            charset = self.random.choice(CHARSETS)
            return (f"convert to {charset}", None), [f"CONVERT TO CHARACTER SET {charset}"]
        if roll < 0.90 and len(columns) > 1:
            one, other = self.random.sample(columns, 2)
            return ("swap", None), [f"RENAME COLUMN {one} TO {other}", f"RENAME COLUMN {other} TO {one}"]
        if roll < 0.93 and len(columns) > 1:
            return ("drop and add", None), [f"DROP {name}", f"ADD {self.column(name, self.random.choice(self.types))}"]
        if roll < 0.95:
            return ("change", None), [
                f"CHANGE {name} n{self.random.randint(0, 99)} {self.column('', self.random.choice(self.types))} FIRST"
            ]
        if roll < 0.975:
            return ("primary key", None), [f"DROP PRIMARY KEY, ADD PRIMARY KEY (id, {name})"]
        return ("id", None), [
            self.random.choice(
                [
                    "MODIFY id bigint",
                    "MODIFY id int auto_increment",
                    "DROP PRIMARY KEY",
                    "MODIFY id smallint AFTER " + name,
                    "ENGINE = MyISAM",
                    "ENGINE = InnoDB",
                    "FORCE",
                ]
            )
        ]

    def other_type(self, name: str) -> str:
        """Any type; half of the time one of the same class, as people do."""
        column = self.definition.column(name)
        assert column is not None
        kind = value_class(parse_column_type(column.column_type).kind)
        alike = [one for one in self.types if value_class(parse_column_type(one.partition(" c")[0]).kind) is kind]
        return self.random.choice(alike if self.random.random() < 0.5 else self.types)

    def add(self) -> str:
        column_type = self.random.choice(self.types)
        kind = value_class(parse_column_type(column_type.partition(" c")[0]).kind)
        default = (
            f" default {self.random.choice(DEFAULTS[kind])}" if self.random.random() < 0.6 and DEFAULTS[kind] else ""
        )
        place = self.random.choice(["", "", " FIRST", " AFTER id"])
        return f"ADD n{self.random.randint(100, 999)} {self.column('', column_type)}{default}{place}"

    # Reading ------------------------------------------------------------------------------------

    @property
    def context(self) -> DdlContext:
        return DdlContext(DATABASE, self.mode, self.flavour, explicit_defaults_for_timestamp=self.explicit)

    @property
    def definition(self) -> TableDefinition:
        found = self.catalog.get(self.name)
        assert isinstance(found, TableDefinition), found
        return found

    def apply(self, ddl: str) -> RowEffect:
        """What the tracker makes of a statement."""
        changes = read_ddl(ddl, self.context)
        decided = self.identified.apply(self.catalog.apply(changes), changes)
        return next((entry.effect for entry in decided if entry.effect is not None), NO_EFFECT)

    def select(self) -> pa.Table:
        """All rows, by their number."""
        return selected(self.observer, "t", self.definition)


def selected(connection: pymysql.Connection, table: str, definition: TableDefinition) -> pa.Table:
    """All rows of a table of the connection's database, by the number in `id`."""
    columns = definition.columns
    names = [_EXACTLY.get(parse_column_type(one.column_type).kind, "{}").format(one.name) for one in columns]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY id")
        rows = cursor.fetchall()
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [
        FROM_SELECT[parse_column_type(one.column_type).kind](decoded(one, value), arrow_type(one))
        for one, value in zip(columns, values, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=state_schema(definition))


def decoded(column: Column, values: Sequence[Any]) -> Sequence[Any]:
    """What PyMySQL gives otherwise than the column's other values."""
    kind = parse_column_type(column.column_type).kind
    if kind in LABELLED:
        return [value.decode() if isinstance(value, bytes) else value for value in values]
    if kind is TypeKind.VECTOR or kind in SPATIAL:  # an empty one comes as a text
        return [value.encode() if isinstance(value, str) else value for value in values]
    return values


def run(connection: pymysql.Connection, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
