"""Random DDL: what people write most often, and the odd corners; each statement fits the tables that are there.
Not here: running it (`differential.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.schema.replay.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

PLAIN_TYPES = [
    "int", "int unsigned", "INT(11)", "bigint", "bigint(20) unsigned", "smallint", "tinyint(1)", "mediumint",
    "varchar(20)",
    "varchar(255)", "VARCHAR(64)", "varchar(800)", "char(10)", "text", "datetime", "timestamp", "date",
    "decimal(10,2)", "double", "float", "bool", "json", "longtext", "blob", "enum('a','b','c')", "set('x','y')",
    "datetime(6)", "time(3)",
]  # fmt: skip
ODD_TYPES = [
    "int(5) zerofill", "tinyint(1) unsigned", "int1", "int8 unsigned", "middleint", "integer", "dec(5)", "decimal(0)",
    "numeric(12)", "fixed(6,3)", "float(24)", "float(25)", "float(7,3)", "double precision", "real", "float4",
    "float8",
    "bit", "bit(17)", "boolean", "serial", "nchar(5)", "national char(3)", "nvarchar(7)", "national varchar(9)",
    "nchar varchar(4)", "national character varying(6)", "char varying(8)", "character(3)", "char", "char(0)",
    "varchar(0)", "binary", "binary(5)", "varbinary(30)", "char(4) byte", "char(5) binary", "varchar(5) ascii",
    "varchar(6) unicode", "char(3) character set latin1", "varchar(9) charset utf8mb4 collate utf8mb4_bin",
    "text character set ucs2", "text(10)", "text(300)", "text(70000)", "blob(100)", "blob(70000)", "tinytext",
    "mediumtext",
    "text binary", "tinyblob", "mediumblob", "longblob", "long", "long varchar", "long varbinary",
    "long char varying",
    "year", "year(4)", "time", "timestamp(6)", "datetime(0)", "geometry", "point", "linestring srid 4326", "polygon",
    "multipoint", "geometrycollection", "geomcollection", "enum('a ','b\\'c','d\"e','f\\\\g')",
    "enum('é','ü') charset latin1",
    "set('a','b') collate utf8mb4_general_ci", "enum('x') charset binary", "set(0x41,'b')", "vector", "vector(5)",
    "varchar(10) charset binary", "text charset binary", "varchar(19.5)", "json",
]  # fmt: skip
ATTRIBUTES = [
    "", "", "", "not null", "not null", "null", "default null", "comment 'it''s'", "not null comment \"c\"",
    "invisible",
    "unique", "unique key", "/*!80023 invisible */", "/*!99999 not null */", "collate utf8mb4_bin", "visible",
    "check (1)", "constraint check (1) not enforced", "column_format fixed", "storage disk",
]  # fmt: skip
DEFAULTS = {
    "int": ["default 5", "not null default '7'", "default 1.6", "default -3", "default true"],
    "bigint": ["default 0", "not null default 10"],
    "varchar": ["default 'x'", "not null default ''", "default 'abc '", "default (concat('a','b'))", "default 5"],
    "char": ["default 'q '", "not null default ''"],
    "decimal": ["default 1.005", "not null default '0.00'"],
    "double": ["default 1e30", "default 0.1"],
    "float": ["default 1.25"],
    "datetime": [
        "default now()", "default current_timestamp on update current_timestamp", "default '2020-1-2 3:4:5'",
    ],
    "timestamp": [
        "null", "not null default current_timestamp on update current_timestamp", "null default null",
        "default '2020-01-02 03:04:05'", "not null default now()",
    ],
    "date": ["default '20200102'", "not null default '2020-01-02'"],
    "enum": ["default 'a'", "not null default 'B'"],
    "set": ["default 'y,x'"],
    "bit": ["default b'101'", "default 3"],
    "binary": ["default 'ab'", "default 0x4100"],
    "varbinary": ["default 'ab'"],
    "json": ["default (json_array())"],
    "text": ["default ('x')"],
    "year": ["default 2020", "default '70'"],
    "time": ["default '10:11:12'"],
}  # fmt: skip
CHARSETS = ["utf8mb4", "latin1", "utf8", "utf8mb3", "ascii", "ucs2", "binary", "cp1251", "gbk"]
COLLATIONS = ["utf8mb4_bin", "utf8mb4_0900_as_cs", "latin1_bin", "utf8_general_ci", "utf8mb4_unicode_ci"]
NAMES = [
    "a",
    "b",
    "c",
    "d",
    "id",
    "name",
    "Value",
    "`key`",
    "`odd name`",
    "`q``q`",
    "état",
    "created_at",
    "x1",
    "`select`",
]
TABLES = ["t", "u", "v", "`w w`"]


class Sequence:
    """Statements of one sequence; it keeps what the tables should look like, to name what is there."""

    def __init__(self, random: Random, database: str) -> None:
        self.random = random
        self.database = database
        self.catalog = Catalog()
        self.context = DdlContext(database)
        self.catalog.put_database(database, "utf8mb4_0900_ai_ci")
        self.refused = False
        self.has_temporary = False

    def statements(self, count: int) -> Iterator[str]:
        """Statements of which the server takes `count`, if four times as many are enough for that.

        Each is chosen when it is asked for, after the one before was taken or refused.
        """
        taken = 0
        for _ in range(4 * count):
            self.refused = False
            statement = self.statement()
            yield statement
            if not self.refused:
                self.catalog.apply(read_ddl_or_gap(statement, self.context))
                taken += 1
            if taken == count:
                break

    def refuse(self, _statement: str) -> None:
        """The server did not take the last statement."""
        self.refused = True

    def statement(self) -> str:
        tables = self.tables()
        kind = self.random.random()
        if not tables or kind < 0.15:
            return self.create_table()
        table = self.random.choice(tables)
        if kind < 0.78:
            return self.alter_table(table)
        if kind < 0.84:
            return self.create_index(table)
        if kind < 0.87:
            return self.drop_index(table)
        return self.rare(table)

    def tables(self) -> list[str]:
        return [name.table for name, definition in self.catalog if isinstance(definition, TableDefinition)]

    # Parts --------------------------------------------------------------------------------------

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def new_name(self) -> str:
        return self.random.choice(NAMES)

    def column_type(self) -> str:
        return self.random.choice(PLAIN_TYPES if self.random.random() < 0.6 else ODD_TYPES)

    def column(self, name: str) -> str:
        column_type = self.column_type()
        base = column_type.lower().split("(")[0].split(" ")[0]
        roll = self.random.random()
        if roll < 0.35 and base in DEFAULTS:
            attributes = self.random.choice(DEFAULTS[base])
        elif roll < 0.42 and base in {"int", "bigint", "varchar", "double"}:
            attributes = self.pick("as (1+1)", "generated always as (2*3) stored", "as (1) virtual not null")
        elif roll < 0.85:
            attributes = self.random.choice(ATTRIBUTES)
        else:
            attributes = " ".join(self.random.sample(ATTRIBUTES, 2))
        return f"{name} {column_type} {attributes}".strip()

    def columns_of(self, table: str) -> list[str]:
        definition = self.catalog.get(TableName(self.database, table))
        assert isinstance(definition, TableDefinition)
        return [quote(column.name) for column in definition.columns]

    def existing(self, table: str) -> str:
        return self.random.choice(self.columns_of(table))

    def keys_of(self, table: str) -> list[str]:
        definition = self.catalog.get(TableName(self.database, table))
        assert isinstance(definition, TableDefinition)
        return [quote(key.name) for key in definition.keys]

    def key_parts(self, columns: list[str]) -> str:
        chosen = self.random.sample(columns, min(len(columns), self.random.choice([1, 1, 2, 3])))
        return ", ".join(c + self.pick("", "", "", "(3)", "(5)", " desc", " asc") for c in chosen)

    def key(self, columns: list[str]) -> str:
        parts = self.key_parts(columns)
        kind = self.pick(
            "primary key", "key", "index", "unique", "unique key", "unique index", "key", "fulltext", "spatial"
        )
        name = self.pick("", "", "k1", "k2", "`k 3`") if kind != "primary key" else ""
        lead = self.pick("", "", "", "constraint cc ") if kind.startswith(("unique", "primary")) else ""
        tail = self.pick("", "", "", " using btree", " comment 'x'", " invisible", " key_block_size=4")
        if self.random.random() < 0.1:
            return f"key {self.pick('', 'fk1')} (({columns[0]} is null))"
        if self.random.random() < 0.1:
            return f"{self.pick('', 'constraint fc ')}foreign key ({columns[0]}) references p (id) on delete cascade"
        return f"{lead}{kind} {name} ({parts}){tail}"

    def table_options(self) -> str:
        return " ".join(
            self.pick(*choices)
            for choices in (
                # MyISAM takes a fifth of InnoDB's time.
                ("", "engine=innodb", "engine memory", *["ENGINE = MyISAM"] * 6),
                (
                    "",
                    "",
                    f"charset={self.random.choice(CHARSETS)}",
                    f"default character set {self.random.choice(CHARSETS)}",
                ),
                ("", "", "", f"collate {self.random.choice(COLLATIONS)}"),
                ("", "", "comment='a (b'", "auto_increment=5", "row_format=compact", "stats_persistent=0, checksum=1"),
                ("", "", "", "", "/*!50100 partition by hash(1) partitions 2 */"),
            )
        )

    # Statements ---------------------------------------------------------------------------------

    def create_table(self) -> str:
        name = self.random.choice(TABLES)
        others = [table for table in self.tables() if quote(table) != name]
        lead = f"create table {self.pick('', '', 'if not exists ')}{name}"
        # LIKE a temporary table is logged as CREATE TABLE without its charset: no binlog holds the answer.
        if others and not self.has_temporary and self.random.random() < 0.15:
            return f"{lead} {self.pick('like {0}', '(like {0})').format(quote(self.random.choice(others)))}"
        if others and self.random.random() < 0.1:
            source = self.random.choice(others)
            return f"{lead} {self.pick('', '(id int primary key, extra varchar(3))')} as select * from {quote(source)}"
        names = self.random.sample(NAMES, self.random.randint(1, 7))
        elements = [self.column(name) for name in names]
        if self.random.random() < 0.5:
            elements[0] = (
                f"{names[0]} {self.pick('int', 'bigint unsigned', 'int(11)')} not null auto_increment primary key"
            )
        elements += [self.key(names) for _ in range(self.random.choice([0, 0, 1, 1, 2]))]
        return f"{lead} ({', '.join(elements)}) {self.table_options()}"

    def position(self, table: str) -> str:
        return self.pick("", "", "", " first", f" after {self.existing(table)}")

    def alter_table(self, table: str) -> str:
        steps = [self.step(table) for _ in range(self.random.choice([1, 1, 1, 2, 3, 4]))]
        return f"alter table {quote(table)} {', '.join(steps)}"

    def new_default(self, table: str, column: str) -> str:
        definition = self.catalog.get(TableName(self.database, table))
        assert isinstance(definition, TableDefinition)
        is_timestamp = any(
            quote(one.name) == column and one.column_type.startswith("timestamp") for one in definition.columns
        )
        # With implicit defaults an expression makes a TIMESTAMP current on update, and the event does not say that the
        # session has them; the golden case `timestamps` has what it says.
        return self.pick("3", "'x'", "null", *([] if is_timestamp else ["(1+1)"]))

    def step(self, table: str) -> str:
        column = self.existing(table)
        common = [
            lambda: f"add {self.pick('', 'column ')}{self.column(self.new_name())}{self.position(table)}",
            lambda: f"drop {self.pick('', 'column ')}{column}",
            lambda: f"modify {self.pick('', 'column ')}{self.column(column)}{self.position(table)}",
            lambda: f"change {column} {self.column(self.new_name())}{self.position(table)}",
            lambda: f"add {self.key(self.columns_of(table))}",
        ]
        odd = [
            lambda: f"add ({self.column(self.new_name())}, {self.column(self.new_name())})",
            lambda: f"rename column {column} to {self.new_name()}",
            lambda: f"alter {column} set default {self.new_default(table, column)}",
            lambda: f"alter column {column} drop default",
            lambda: f"alter {column} set {self.pick('visible', 'invisible')}",
            lambda: f"convert to character set {self.random.choice(CHARSETS)}",
            lambda: f"convert to charset utf8mb4 collate {self.random.choice(['utf8mb4_bin', 'utf8mb4_general_ci'])}",
            lambda: f"default charset {self.random.choice(CHARSETS)}",
            lambda: f"collate {self.random.choice(COLLATIONS)}",
            lambda: self.pick("engine=innodb", "engine=myisam", "comment 'x, y'", "force", "auto_increment=3"),
            lambda: self.pick("algorithm=copy", "lock=default", "row_format=dynamic", "disable keys", "enable keys"),
            lambda: f"order by {column}",
            lambda: "drop primary key",
            lambda: f"rename {self.pick('to ', 'as ', '')}{self.random.choice(TABLES)}",
            lambda: self.key_step(table),
            lambda: self.key_step(table),
            lambda: self.pick("drop constraint cc", "drop foreign key fc", "add constraint chk check (1)"),
        ]
        return self.random.choice(common if self.random.random() < 0.65 else odd)()

    def key_step(self, table: str) -> str:
        keys = self.keys_of(table)
        if not keys:
            return f"add key ({self.existing(table)})"
        key = self.random.choice(keys)
        return self.pick(
            f"drop key {key}", f"drop index {key}", f"rename index {key} to k9", f"alter index {key} invisible"
        )

    def create_index(self, table: str) -> str:
        kind = self.pick("", "", "unique ", "fulltext ", "spatial ")
        return (
            f"create {kind}index {self.pick('i1', 'i2')} on {quote(table)} ({self.key_parts(self.columns_of(table))})"
        )

    def drop_index(self, table: str) -> str:
        keys = self.keys_of(table)
        return f"drop index {self.random.choice(keys)} on {quote(table)}" if keys else self.create_index(table)

    def rare(self, table: str) -> str:
        name, other = quote(table), self.random.choice(TABLES)
        chosen = self.pick(
            f"drop table {name}",
            f"drop table if exists {name}, {other}",
            f"rename table {name} to {other}",
            f"rename table {name} to zz, {other} to {name}, zz to {other}",
            f"truncate table {name}",
            f"create or replace view vw as select * from {name}",
            "drop view if exists vw",
            f"alter database {quote(self.database)} character set {self.random.choice(CHARSETS)}",
            f"alter database {quote(self.database)} collate {self.random.choice(COLLATIONS)}",
            f"create temporary table {other} (temp int)",
            f"drop temporary table if exists {other}",
            f"analyze table {name}",
            "set sql_mode = ''",
            "set sql_mode = 'ANSI_QUOTES,REAL_AS_FLOAT,STRICT_ALL_TABLES'",
            "set sql_mode = 'NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
            "set sql_mode = default",
            "set names latin1",
            "set names utf8mb4",
            "set default_collation_for_utf8mb4 = utf8mb4_general_ci",
            "set explicit_defaults_for_timestamp = 0",
            "set explicit_defaults_for_timestamp = 1",
            "set sql_generate_invisible_primary_key = 1",
            "set sql_generate_invisible_primary_key = 0",
        )
        if chosen.startswith("create temporary"):
            self.has_temporary = True
        return chosen


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
