"""Keys that are too long for their engine: what the server made of them is exact, or in doubt where no binlog tells."""

from __future__ import annotations

import pytest

from strata_cdc.flavour import Flavour
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.replay.baseline import read_baseline
from strata_cdc.schema.replay.catalog import Catalog

STRICT = 0x200000
T = TableName("d", "t")


def lengths(*statements: str, sql_mode: int = 0, version: int = 90704) -> dict[str, list[tuple[int | None, ...]]]:
    """The possible prefix lengths of each part of each key."""
    catalog = Catalog()
    catalog.put_database("d", "utf8mb4_0900_ai_ci")
    for statement in statements:
        catalog.apply(read_ddl(statement, DdlContext("d", sql_mode=sql_mode, flavour=Flavour.mysql(version))))
    return {key.name: [part.lengths for part in key.parts] for key in catalog.get(T).keys}


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ("a varchar(1000), key (a)", "", (250, 768)),
        ("a varchar(255), key (a)", "", (None, 250)),
        ("a varchar(250), key (a)", "", (None,)),
        ("a varchar(255), key (a(100))", "", (100,)),
        ("a varbinary(4000), key (a)", "", (1000, 3072)),
        ("a text, key (a(2000))", "charset latin1", (1000, 2000)),
        ("a int, key (a)", "", (None,)),
        ("a varchar(1000), key (a)", "engine = innodb", (768,)),
        ("a varchar(1000), key (a)", "engine = innodb row_format = compact", (191,)),
        ("a varchar(1000), key (a)", "engine = innodb row_format = default", (768,)),
        ("a varchar(1000), key (a)", "engine = myisam row_format = compact", (250,)),
        ("a varchar(1000), key (a)", "row_format = redundant", (191, 250, 768)),
        ("a varchar(1000), key (a)", "engine = rocksdb", (250, 768)),
        # An engine that would have refused another key of the table is not the table's.
        ("a varchar(1000), b varchar(251) unique, key (a)", "", (768,)),
        ("a varchar(1000), b varchar(251) primary key, key (a)", "", (768,)),
        ("a varchar(1000), b varchar(250), c int, key (a), key (b, c)", "", (768,)),
        ("a varchar(1000), b varchar(250), c int, key (a), key (b)", "", (250, 768)),
    ],
)
def test_outside_strict_mode(columns: str, options: str, expected: tuple[int | None, ...]):
    assert lengths(f"create table t ({columns}) {options}")["a"] == [expected]


@pytest.mark.parametrize("options", ["", "engine = innodb", "engine = nosuch", "row_format = default"])
def test_strict_mode_cuts_nothing(options: str):
    assert lengths(f"create table t (a varchar(255), key (a)) {options}", sql_mode=STRICT) == {"a": [(None,)]}


@pytest.mark.parametrize(
    ("version", "expected"),
    [(50650, (191, 250, 768)), (50744, (191, 250, 768)), (80036, (250, 768))],
    ids=["5.6", "5.7", "8.0"],
)
def test_what_innodb_takes_was_a_setting_before_8_0(version: int, expected: tuple[int, ...]):
    assert lengths("create table t (a varchar(1000), key (a))", version=version) == {"a": [expected]}
    said = "create table t (a varchar(1000), key (a)) engine = innodb"
    assert lengths(said, version=version)["a"] == [tuple(one for one in expected if one != 250)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("engine = myisam", {"a": [(250,)]}),
        ("engine = innodb", {"a": [(250, 768)]}),
        ("engine = innodb, row_format = compact", {"a": [(191,)]}),
        ("modify a varchar(250)", {"a": [(None,)]}),
        ("modify a varchar(500)", {"a": [(None, 250)]}),
        ("modify a int", {"a": [(None,)]}),
        ("rename column a to z", {"a": [(250, 768)]}),
        ("drop column a, add column a varchar(800)", {"a": [(250, 768)]}),
        ("convert to character set latin1", {"a": [(250, 768)]}),
        ("drop key a, add key (a(10))", {"a": [(10,)]}),
        ("add primary key (b)", {"PRIMARY": [(None,)], "a": [(250, 768)]}),
        # MyISAM would have cut the key that is there, and refused this one.
        ("add unique key u (c)", {"a": [(250, 768)], "u": [(None,)]}),
        ("drop column a", {}),
    ],
)
def test_a_length_in_doubt_along_an_alter(change: str, expected: dict[str, list[tuple[int | None, ...]]]):
    made = "create table t (a varchar(1000), b int, c varchar(600), key (a))"
    assert lengths(made, f"alter table t {change}") == expected


def test_copies_and_names_keep_the_doubt():
    made = "create table x (a varchar(1000), key (a))"
    assert lengths(made, "create table t like x") == {"a": [(250, 768)]}
    assert lengths(made, "rename table x to t") == {"a": [(250, 768)]}


def test_a_dump_has_the_lengths_that_the_server_keeps():
    baseline = read_baseline("create database d; use d; create table t (a varchar(255), key (a), key b (a(251)));", "f")
    assert [part.lengths for key in baseline.tables[0].definition.keys for part in key.parts] == [(None,), (251,)]
