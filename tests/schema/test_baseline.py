"""Baselines from scripts: what a script makes, and what it leaves open."""

from __future__ import annotations

import pytest

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.ddl.script import split_script
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.replay.baseline import read_baseline
from strata_cdc.store.database import open_store
from tests.schema.streams import A, Stream, track

DUMP = """-- MySQL dump 10.13  Distrib 9.7.4, for Linux (x86_64)
--
-- Host: 127.0.0.1    Database: shop
-- ------------------------------------------------------
-- Server version\t9.7.4-0ubuntu1

/*!40101 SET @saved_cs_client     = @@character_set_client */;
DROP TABLE IF EXISTS `t`;
CREATE TABLE `t` (
  `a;b` int NOT NULL, -- a comment; with a delimiter
  `c` varchar(10) DEFAULT 'x;''y\\';' /*!80023 INVISIBLE */,
  PRIMARY KEY (`a;b`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
DELIMITER ;;
/*!50003 CREATE*/ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; END */;;
DELIMITER ;
/*!50001 CREATE VIEW `v` AS SELECT 1 AS `a`*/;
"""


def test_statements_end_where_the_client_ends_them():
    pieces = [piece.text for piece in split_script(DUMP)]
    assert len(pieces) == 5
    assert pieces[2].startswith("CREATE TABLE `t`")
    assert "BEGIN SET @a = 1; END" in pieces[3]
    assert "a comment" not in pieces[2]
    for piece in split_script(DUMP):
        assert DUMP[piece.offset :].lstrip().startswith(piece.text[:5]) or "DELIMITER" not in piece.text


def test_a_dump_of_one_database_says_which():
    baseline = read_baseline(DUMP, "dump.sql")
    [entry] = baseline.tables
    assert entry.name == TableName("shop", "t")
    assert [(column.name, column.invisible, column.default) for column in entry.definition.columns] == [
        ("a;b", False, None),
        ("c", True, "x;'y';"),
    ]
    assert [str(view) for view in baseline.views] == ["shop.v"]
    assert baseline.others_unknown


def test_use_and_create_database():
    baseline = read_baseline(
        "CREATE DATABASE `a`` b` CHARACTER SET latin1; USE `a`` b`;\ncreate table t (x varchar(3)); use c;"
        "create table c.t (x int); # the end",
        "x.sql",
    )
    assert {str(entry.name) for entry in baseline.tables} == {"a` b.t", "c.t"}
    assert {entry.name: entry.collation for entry in baseline.databases} == {"a` b": "latin1_swedish_ci", "c": None}


def test_a_dump_of_everything_leaves_nothing_open():
    assert (
        read_baseline("CREATE DATABASE mysql; CREATE DATABASE d; CREATE TABLE d.t (a int)", "x").others_unknown is None
    )


@pytest.mark.parametrize(
    ("text", "match"), [("CREATE TABLE t (a int)", "no default database"), ("SELECT 1", "no tables")]
)
def test_what_cannot_be_a_baseline(text, match):
    with pytest.raises(Usage, match=match):
        read_baseline(text, "x.sql")


def test_databases_that_it_names_are_complete_others_are_open():
    store = SchemaStore(open_store("sqlite://"))
    stream = Stream(gno=10, executed=GtidSet.parse(f"{A}:1-10"))
    baseline = read_baseline("CREATE DATABASE d; CREATE TABLE d.t (a int); CREATE TABLE d.odd (a frob)", "x.sql")
    report = track(
        store,
        stream,
        *("alter table t add b int", "create table if not exists u (a int)", "create table if not exists e.u (a int)"),
        baseline=baseline,
    )
    history = History(store, "s")

    def names(table, seq):
        return [column.name for column in history.at(TableName(*table.split(".")), AtSeq(seq)).definition.columns]

    assert names("d.t", 0) == ["a"]
    assert history.at(TableName("d", "t"), AtSeq(0)).origin == "baseline"
    assert names("d.t", 1) == ["a", "b"]
    assert names("d.u", 2) == ["a"]
    for table, seq in (("e.u", 3), ("d.odd", 0), ("e.u", 0)):
        with pytest.raises(SchemaGapError):
            names(table, seq)
    assert report.gaps == 2
