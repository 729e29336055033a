"""Random DDL of MariaDB: what `sequences.py` has, and what only MariaDB reads.
Not here: running it (`mariadb_differential.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.model.definition import TableDefinition, TableName
from tests.schema import sequences
from tests.schema.sequences import DEFAULTS, NAMES, TABLES, Sequence, quote

if TYPE_CHECKING:
    from random import Random

    from strata_cdc.flavour import Flavour

TYPES = [
    "uuid", "inet4", "inet6", "json", "varchar(20) compressed", "text compressed", "tinyblob compressed=zlib",
    "varbinary(9) compressed", "mediumtext compressed charset latin1", "point ref_system_id=4326", "year(2)",
    "text(300) compressed",
    "varchar(9) character set utf8mb4 collate uca1400_ai_ci", "char(4) collate latin1_nopad_bin", "int unsigned",
    "varchar(30000)", "mariadb_schema.date", "timestamp(3)", "double precision", "national varchar(5)",
]  # fmt: skip
NEWER_TYPES = ["vector(3)", "vector(16)", "varchar(5) collate utf8mb4_0900_ai_ci"]
_NOT_HERE = {"linestring srid 4326", "vector", "vector(5)", "varchar(19.5)", "enum('é','ü') charset latin1"}
"""The last: CONVERT TO keeps the bytes of labels, and MariaDB shows those that are no text as `?`."""
_MYSQLS_TYPES = [one for one in sequences.PLAIN_TYPES + sequences.ODD_TYPES if one not in _NOT_HERE]
ATTRIBUTES = [
    "", "", "not null", "null", "default null", "comment 'it''s'", "invisible", "unique", "check (1)",
    "/*!50700 not null */", "/*M! not null */", "/*M!100301 comment 'm' */",
    "/*!40000 comment 'o' */", "/*M!999999 not null */", "collate utf8mb4_bin", "without system versioning",
    "collate utf8mb4_nopad_bin", "key", "primary key", "default (1)",
]  # fmt: skip
MORE_DEFAULTS = {
    "uuid": ["default uuid()", "default 'AABBCCDD-0000-1111-2222-333344445555'"],
    "inet6": ["default '::1'", "default '1:0:3:4:5:6:7:8'", "not null default '::ffff:1.2.3.4'"],
    "inet4": ["default '1.2.3.4'"],
    "json": ["default '{}'", "default (json_array())"],
    "text": ["default 'x'", "default ('x')", "default concat('a', 'b')"],
    "blob": ["default 'x'"],
    "int": ["default (1 + 2)", "default case when 1 then 2 else 3 end", "default (5)", "default -3", "default (-3)"],
    "datetime": ["default now() on update now()", "default (now())", "default '2020-01-02 03:04:05.6'"],
    "timestamp": ["default current_timestamp() on update current_timestamp", "null default 0"],
    "year": ["default 70", "default '5'", "default 2020"],
    "varchar": ["default user()", "default (_latin1'a')", "default 'x'", "default 1.50"],
    "binary": ["default x'4100'", "default 'ab'"],
    "varbinary": ["default x'410042'", "default 'ab'"],
}
CHARSETS = ["utf8mb4", "latin1", "utf8", "utf8mb3", "ascii", "ucs2", "binary", "cp1251", "gbk"]
COLLATIONS = ["utf8mb4_bin", "utf8mb4_nopad_bin", "latin1_bin", "utf8_general_ci", "utf8mb4_uca1400_as_cs"]
NEWER = (11, 5)


class MariadbSequence(Sequence):
    """Statements of one sequence for a version."""

    def __init__(self, random: Random, database: str, flavour: Flavour) -> None:
        super().__init__(random, database)
        self.context = DdlContext(database, flavour=flavour, server_collation="latin1_swedish_ci")
        self.is_newer = flavour.version >= NEWER
        self.types = _MYSQLS_TYPES + 3 * TYPES + (NEWER_TYPES if self.is_newer else [])

    def column_type(self) -> str:
        return self.random.choice(self.types)

    def column(self, name: str) -> str:
        column_type = self.column_type()
        base = column_type.lower().split("(")[0].split(" ")[0]
        roll = self.random.random()
        defaults = MORE_DEFAULTS.get(base, []) + [one for one in DEFAULTS.get(base, []) if "json_array" not in one]
        if roll < 0.35 and defaults:
            attributes = self.random.choice(defaults)
        elif roll < 0.42 and base in {"int", "bigint", "varchar", "double"}:
            attributes = self.pick(
                "as (1+1)", "generated always as (2*3) stored", "as (1) persistent", "as (1) virtual"
            )
        elif roll < 0.85:
            attributes = self.random.choice(ATTRIBUTES)
        else:
            attributes = " ".join(self.random.sample(ATTRIBUTES, 2))
        return f"{name} {column_type} {attributes}".strip()

    def key(self, columns: list[str]) -> str:
        if self.random.random() < 0.06:
            return f"spatial key ({columns[0]})"
        parts = self.key_parts(columns)
        kind = self.pick("primary key", "key", "index", "unique", "unique key", "unique", "key", "fulltext")
        name = self.pick("", "", "k1", "k2", "`k 3`") if kind != "primary key" else ""
        guard = self.pick("", "", "", "if not exists") if kind in {"key", "index"} and name else ""
        lead = self.pick("", "", "", "constraint cc ") if kind.startswith(("unique", "primary")) else ""
        tail = self.pick("", "", "", " using btree", " comment 'x'", " ignored", " key_block_size=4", " using hash")
        if kind == "fulltext" or ("hash" in tail and not kind.startswith("unique")):
            tail = ""  # whether an index serves a foreign key also depends on its algorithm
        if self.random.random() < 0.1:
            return f"{self.pick('', 'constraint fc ')}foreign key ({columns[0]}) references p (id) on delete cascade"
        return f"{lead}{kind} {guard} {name} ({parts}){tail}"

    def table_options(self) -> str:
        return " ".join(
            self.pick(*choices)
            for choices in (
                ("", "engine=innodb", "engine memory", "engine=aria", *["ENGINE = MyISAM"] * 4),
                (
                    "",
                    "",
                    f"charset={self.random.choice(CHARSETS)}",
                    f"default character set {self.random.choice(CHARSETS)}",
                ),
                ("", "", "", f"collate {self.random.choice(COLLATIONS)}"),
                ("", "", "comment='a (b'", "auto_increment=5", "transactional=0", "`encrypted`=no", "page_checksum=1"),
                ("", "", "", "with system versioning"),
                ("", "", "", "", "partition by hash(1) partitions 2"),
            )
        )

    def create_table(self) -> str:
        name = self.random.choice(TABLES)
        others = [table for table in self.tables() if quote(table) != name]
        lead = f"create {self.pick('', '', 'or replace ')}table {name}"
        if " or " not in lead:
            lead = f"create table {self.pick('', 'if not exists ')}{name}"
        roll = self.random.random()
        if others and roll < 0.12:
            return f"{lead} {self.pick('like {0}', '(like {0})').format(quote(self.random.choice(others)))}"
        if others and roll < 0.24:
            source = self.random.choice(others)
            columns = self.pick(
                "", "", "(id int, extra varchar(3) default 'x')", "(k int primary key default 3, j json)"
            )
            return f"{lead} {columns} {self.pick('', 'charset latin1')} as select * from {quote(source)}"
        if roll < 0.3:
            return f"{lead} (id int, d1 date, d2 date, period for p (d1, d2), unique kp (id, p without overlaps))"
        if roll < 0.34:
            return (
                f"{lead} (x int, rs timestamp(6) generated always as row start, re timestamp(6) as row end, "
                "period for system_time (rs, re)) with system versioning"
            )
        names = self.random.sample(NAMES, self.random.randint(1, 7))
        elements = [self.column(one) for one in names]
        if self.random.random() < 0.5:
            elements[0] = f"{names[0]} {self.pick('int', 'bigint unsigned', 'uuid', 'int(11)')} not null primary key"
        elements += [self.key(names) for _ in range(self.random.choice([0, 0, 1, 1, 2]))]
        if self.random.random() < 0.1:
            elements.append("constraint tc check (1)")
        return f"{lead} ({', '.join(elements)}) {self.table_options()}"

    def alter_table(self, table: str) -> str:
        steps = [self.step(table) for _ in range(self.random.choice([1, 1, 1, 2, 3, 4]))]
        if len(steps) > 1:
            # A table renamed and rebuilt in one statement is sometimes there under both names (11.8.9, 10.11.18).
            steps = [one for one in steps if not one.startswith(("rename to", "rename as", "rename "))] or ["force"]
        lead = self.pick("", "", "", "/*M!100301 ", "set statement lock_wait_timeout=3 for ")
        tail = " */" if "/*" in lead else ""
        wait = self.pick("", "", "", " wait 5", " nowait")
        guard = self.pick("", "", "", "if exists ")
        return f"{lead}alter {self.pick('', '', 'ignore ')}table {guard}{quote(table)}{wait} {', '.join(steps)}{tail}"

    def step(self, table: str) -> str:
        if self.random.random() < 0.55:
            step = super().step(table)
            return "drop constraint if exists cx" if " set visible" in step or " set invisible" in step else step
        column, other = self.existing(table), self.new_name()
        some = self.pick(column, other)
        definition = self.catalog.get(TableName(self.database, table))
        assert isinstance(definition, TableDefinition)
        return self.random.choice(
            [
                lambda: f"add column if not exists {self.column(some)}{self.position(table)}",
                lambda: f"add if not exists ({self.column(some)}, {self.column(self.new_name())})",
                lambda: f"drop column if exists {some}",
                lambda: f"modify if exists {self.column(some)}",
                lambda: f"change column if exists {some} {self.column(self.new_name())}",
                lambda: f"rename column if exists {some} to {self.new_name()}",
                lambda: f"alter column if exists {some} set default {self.pick('3', 'null', '(1 + 1)')}",
                lambda: f"alter if exists {some} drop default",
                lambda: f"drop {self.pick('key', 'index')} if exists {self.pick('k1', 'k2', *self.keys_of(table))}",
                lambda: f"add {self.pick('key', 'index')} if not exists {self.pick('k1', 'k2')} ({column})",
                lambda: f"rename index if exists {self.pick('k1', *self.keys_of(table))} to k9",
                lambda: f"alter index {self.pick('k1', *self.keys_of(table))} {self.pick('ignored', 'not ignored')}",
                lambda: self.pick("add system versioning", "drop system versioning"),
                lambda: "drop constraint if exists cx",
                lambda: "add constraint if not exists ck2 check (1)",
                lambda: f"convert to character set {self.random.choice(CHARSETS)}",
                lambda: f"convert to charset utf8mb4 collate {self.pick('uca1400_as_ci', 'utf8mb4_nopad_bin')}",
                lambda: f"default charset {self.random.choice(CHARSETS)}",
                lambda: f"collate {self.random.choice(COLLATIONS)}",
                lambda: self.pick("force", "engine=innodb", "engine=aria", "comment='c'", "algorithm=inplace"),
                lambda: "drop period for p",
                lambda: "add period for p (d1, d2)",
            ]
        )()

    def create_index(self, table: str) -> str:
        kind = self.pick("", "", "unique ", "fulltext ")
        replaces = self.pick("", "", "or replace ")
        guard = "" if replaces else self.pick("", "", "if not exists ")
        parts = self.key_parts(self.columns_of(table))
        wait = self.pick("", "", " wait 3")
        return f"create {replaces}{kind}index {guard}{self.pick('i1', 'i2')} on {quote(table)} ({parts}){wait}"

    def drop_index(self, table: str) -> str:
        keys = [*self.keys_of(table), "i1"]
        return f"drop index {self.pick('', 'if exists ')}{self.random.choice(keys)} on {quote(table)}"

    def rare(self, table: str) -> str:
        name, other = quote(table), self.random.choice(TABLES)
        newer = [
            "create or replace sequence sq as int",
            "create or replace sequence sq as smallint unsigned engine=innodb",
            "alter sequence sq as bigint",
            "set character_set_collations = ''",
            "set character_set_collations = 'utf8mb4=uca1400_as_ci,latin1=latin1_bin'",
            "set character_set_collations = default",
        ]
        return self.pick(
            f"drop table {name}",
            f"drop table if exists {name}, {other}",
            f"rename table {name} to {other}",
            f"rename table if exists {name} wait 3 to {other}, nosuch to alsonot",
            f"rename table {name} to zz, {other} to {name}, zz to {other}",
            f"truncate table {name}",
            f"create or replace view vw as select * from {name}",
            "drop view if exists vw",
            f"alter database {quote(self.database)} character set {self.random.choice(CHARSETS)}",
            f"alter database {quote(self.database)} collate {self.random.choice(COLLATIONS)}",
            f"analyze table {name}",
            f"optimize table {name}",
            "create or replace sequence sq start with 5 cache 10",
            "create sequence if not exists sq",
            "drop sequence if exists sq, sq2",
            "alter sequence sq restart 10",
            "rename table sq to sq2",
            "set sql_mode = ''",
            "set sql_mode = 'ANSI_QUOTES,REAL_AS_FLOAT,STRICT_ALL_TABLES'",
            "set sql_mode = 'NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
            "set sql_mode = 'TIME_ROUND_FRACTIONAL'",
            "set sql_mode = default",
            "set names latin1",
            "set names utf8mb4",
            "set explicit_defaults_for_timestamp = 0",
            "set explicit_defaults_for_timestamp = 1",
            "set sql_if_exists = 1",
            "set sql_if_exists = 0",
            "create or replace database e1 charset latin1",
            "create table e1.t (a char(3), b text)",
            "drop database if exists e1",
            "set collation_server = latin1_bin",
            "set binlog_alter_two_phase = 1",
            "set binlog_alter_two_phase = 0",
            *(newer if self.is_newer else []),
        )
