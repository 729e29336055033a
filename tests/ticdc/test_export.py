"""Mirrors that begin from an export by Dumpling: whatever its form and its timestamp, they are the tables of TiDB."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc import mirrors
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import BadData, StrataError, Usage
from strata_cdc.files.storage import write_file
from strata_cdc.pipeline.dump_source import take_dumpling
from strata_cdc.schema.model.definition import TableName
from tests.mirrors.test_apply import Died, dying
from tests.model.sink import SinkDdl, applied, users_rows
from tests.model.through_folder import EXACT, longest_histories, write_table
from tests.ticdc.exports import Export, ExportForm
from tests.ticdc.generator import START, Feed, Row, SinkColumn
from tests.ticdc.test_values import TYPES
from tests.ticdc.world import ID, NAME, OLD_VALUES, SinkWorld, named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.mirrors.dump.dump_tables import DumpReport
    from tests.model.jobs import Kind

MORE = 'mirrors = ["shop.*"]\ntime_zone = "UTC"'
RAW = SinkColumn("raw", "VARBINARY", precision="20")
FORMS = {
    "csv": ExportForm(),
    "parts": ExportForm(rows_of_a_file=1, terminator="\n", compress="gzip"),
    "delimiters": ExportForm(separator="|+|", delimiter="'", compress="zstd"),
    "tab": ExportForm(separator="\t"),
    "sql": ExportForm("sql"),
    "complete sql": ExportForm("sql", complete_insert=True, rows_of_a_statement=1, compress="gzip"),
}


def taken(world: SinkWorld, *tables: str, export: str = "export", **more: Any) -> DumpReport:
    return take_dumpling("s", tables, settings=world.settings, url=str(world.folder / export), **more)


def rows(world: SinkWorld, table: TableName | str) -> list[dict[str, Any]]:
    found = mirrors.open(str(world.folder / "lake"), "s", table).to_arrow().drop_columns(["_seq"])
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def test_the_generator_writes_as_dumpling_does(tmp_path: Path) -> None:
    """By Dumpling's source: every field, in both forms."""
    columns = (ID, NAME, RAW)
    held = [{"id": 1, "name": 'a"\\\n', "raw": b"\0'"}, {"id": 2, "name": None, "raw": None}]
    for form, expected in (
        (ExportForm(), b'"id","name","raw"\r\n1,"a\\"\\\\\\n","\\0\'"\r\n2,\\N,\\N\r\n'),
        (
            ExportForm("sql"),
            b"/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"
            b"INSERT INTO `a` VALUES\n(1,'a\\\"\\\\\\n',x'0027'),\n(2,NULL,NULL);\n",
        ),
    ):
        folder = tmp_path / form.filetype
        Export(folder, START, form).table("a", columns, held)
        assert (folder / f"shop.a.000000000.{form.filetype}").read_bytes() == expected


# Forms and values -------------------------------------------------------------------------------

TEXTS = st.none() | st.text(st.sampled_from("a\",\\|+\t\r\n\0N'()\x1a;é\x1f nqbrZ0"), max_size=8)
IMAGES = st.fixed_dictionaries({"name": TEXTS, "raw": st.none() | st.binary(max_size=6)})


@settings(max_examples=20)
@given(images=st.lists(IMAGES, min_size=1, max_size=6), form=st.sampled_from(sorted(FORMS)))
def test_texts_and_bytes_come_as_they_are(images: list[Any], form: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        world = SinkWorld(Path(name), MORE)
        feed = Feed(world.sink, OLD_VALUES)
        more = {"raw": RAW} if FORMS[form].filetype == "sql" else {}
        columns = (ID, NAME, *more.values())
        feed.write(feed.table("a", columns), [Row(START + 9, named(99, raw=b""))])
        feed.checkpoint(START + 20)
        held = [
            {"id": key, "name": image["name"], **{name: image[name] for name in more}}
            for key, image in enumerate(images)
        ]
        Export(world.folder / "export", START + 5, FORMS[form]).table("a", columns, held)
        assert taken(world, "shop.a", feed_start=START).tables[0].rows == len(held)
        assert rows(world, "shop.a") == held


@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_that_the_sink_gives(tmp_path: Path, form: str) -> None:
    """One row of every type, once as a change and once from an export."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, OLD_VALUES)
    is_sql = FORMS[form].filetype == "sql"
    types = [one for one in TYPES if is_sql or (not isinstance(one[1], bytes) and one[0].type != "BIT")]
    columns = (ID, *(column for column, _, _ in types))
    nothing = {column.name: None for column, _, _ in types}
    held = [{"id": 1, **{column.name: value for column, value, _ in types}}, {"id": 2, **nothing}]
    changed, exported = feed.table("changed", columns), feed.table("exported", columns)
    feed.write(changed, [Row(START + 1, held[0]), Row(START + 2, held[1])])
    feed.write(exported, [Row(START + 9, {"id": 3, **nothing})])
    feed.checkpoint(START + 10)
    export = Export(world.folder / "export", START + 1, FORMS[form])
    export.table("exported", columns, held)
    export.table("changed", columns, held[:1])
    report = taken(world, time_zone="UTC")
    assert not report.failed
    assert [table.invalid for table in report.tables] == [{"dz": 1, "dx": 1}] * 2
    world.run()
    assert rows(world, "shop.exported")[:2] == rows(world, "shop.changed")
    assert len(rows(world, "shop.exported")) == 3


@pytest.mark.parametrize("column", [RAW, SinkColumn("raw", "BIT", precision="3"), SinkColumn("raw", "BLOB")])
def test_bytes_are_read_from_sql_only(tmp_path: Path, column: SinkColumn) -> None:
    """With `--csv-output-dialect` the same text in CSV is other bytes."""
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, OLD_VALUES)
    feed.write(feed.table("a", (ID, column)), [Row(START + 9, {"id": 2, "raw": None})])
    feed.checkpoint(START + 10)
    Export(world.folder / "export", START + 5).table("a", (ID, column), [{"id": 1, "raw": None}])
    refused(world, "no file of CSV shows how its bytes are written.*--filetype sql", feed_start=START)


def test_timestamps_need_the_time_zone_of_the_export(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path, 'mirrors = ["shop.*"]\ntime_zone = "+08:00"')
    feed = Feed(world.sink, OLD_VALUES)
    columns = (ID, SinkColumn("ts", "TIMESTAMP"))
    feed.write(feed.table("a", columns), [Row(START + 9, {"id": 2, "ts": "2026-07-01 12:00:00"})])
    feed.checkpoint(START + 10)
    held = [{"id": 1, "ts": "2026-07-01 12:00:00"}]
    Export(world.folder / "export", START + 5).table("a", columns, held)
    with pytest.raises(Usage, match=r"in which time zone the export has it.*--params time_zone"):
        taken(world, "shop.a", feed_start=START)
    taken(world, "shop.a", feed_start=START, time_zone="Europe/Berlin")
    world.run()
    assert [row["ts"].hour for row in rows(world, "shop.a")] == [10, 4]


# Timestamps -------------------------------------------------------------------------------------


def life(seed: int, count: int) -> list[tuple[int, str, Row]]:
    """Changes of two tables, several in one commit, with their timestamps."""
    random, held, changes = Random(seed), {name: dict[int, Any]() for name in "ab"}, []
    for at in range(1, count):
        for name in random.choice(["a", "b", "ab"]):
            key = random.randint(1, 5)
            old = held[name].get(key)
            new = None if old is not None and random.random() < 0.4 else {"id": key, "name": f"v{at}"}
            changes.append((START + 10 * at, name, Row(START + 10 * at, new, old)))
            held[name][key] = new
    return changes


def state(changes: Iterable[tuple[int, str, Row]], table: str, until: int) -> list[dict[str, Any]]:
    held = {(row.new or row.old)["id"]: row.new for ts, name, row in changes if name == table and ts <= until}
    return [row for _, row in sorted(held.items()) if row is not None]


@pytest.mark.parametrize("seed", range(2))
def test_an_export_in_the_middle_of_a_life(tmp_path: Path, seed: int) -> None:
    """The feed began in the middle, too; exports of many timestamps, also with that of a commit, in one lake: each has
    tables of its own, with the same rows."""
    changes = life(seed, 14)
    begun = START + 35
    exported = (begun, *(START + at for at in (69, 70, 95, 129)))
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, OLD_VALUES)
    tables = {(name, tso): feed.table(f"{name}{tso}", (ID, NAME)) for name in "ab" for tso in exported}
    for first, end in ((begun, 100), (START + 100, 10_000)):
        for ts, name, row in changes:
            if first < ts <= START + end:
                for tso in exported:
                    feed.write(tables[name, tso], [row])
        feed.checkpoint(START + end)
        for tso in exported:
            if first <= tso < START + end:
                export = Export(world.folder / str(tso), tso)
                for name in "ab":
                    export.table(f"{name}{tso}", (ID, NAME), state(changes, name, tso))
                assert len(taken(world, export=str(tso), feed_start=begun).tables) == 2
        world.run()
    for name, tso in tables:
        assert rows(world, f"shop.{name}{tso}") == state(changes, name, START + 10_000), (name, tso)


TIMES = 4


@pytest.mark.parametrize("kind", EXACT)
def test_an_export_before_and_after_a_ddl(tmp_path: Path, kind: Kind) -> None:
    """Histories of the model, with rows of nodes that are behind: an export of each timestamp, with tables of its own,
    gives users' rows."""
    histories = longest_histories(kind, 4)
    last = max(_ts(change) for history in histories for change in history.stream.changes)
    exported = range(0, last + 1, max(1, last // TIMES))
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, OLD_VALUES)
    tables = {
        (f"t{number}_{tso}", tso): (history, write_table(feed, f"t{number}_{tso}", history))
        for number, history in enumerate(histories)
        for tso in exported
    }
    feed.checkpoint(START + 1_000_000)
    world.run()
    begun: list[TableName] = []
    for tso in exported:
        export = Export(world.folder / str(tso), START + tso)
        for name in [name for name, its_own in tables if its_own == tso]:
            held: dict[Any, Any] = {}
            columns = feed_columns(feed, name, START + tso)
            for change in tables[name, tso][1]:
                if (change.finished_ts if isinstance(change, SinkDdl) else change.commit_ts) <= tso:
                    held = applied(held, change)
            export.table(name, columns, [row for _, row in sorted(held.items())])
        report = taken(world, export=str(tso), feed_start=START)
        begun += [table.table for table in report.tables]
        # A table whose first row comes after its DDL has no columns before it.
        assert all("not known" in one.message for one in report.failed)
    world.run()
    for (name, _), (history, _) in tables.items():
        if f"shop.{name}" in map(str, begun):
            assert rows(world, f"shop.{name}") == [row for _, row in sorted(users_rows(history).items())], name
    assert len(begun) >= TIMES


def _ts(change: Any) -> int:
    return int(getattr(change, "finished_ts", 0) or change.commit_ts)


def feed_columns(feed: Feed, name: str, ts: int) -> tuple[SinkColumn, ...]:
    """The columns that a table has at a timestamp, by the schema files."""
    found = max(
        (int(path.name.split("_")[1]), path)
        for path in (feed.folder / "shop" / name / "meta").glob("schema_*")
        if int(path.name.split("_")[1]) <= ts
    )[1]
    columns = json.loads(found.read_text())["TableColumns"]
    return tuple(
        SinkColumn(
            column["ColumnName"],
            column["ColumnType"],
            pk="ColumnIsPk" in column,
            nullable="ColumnNullable" not in column,
        )
        for column in columns
    )


def test_killed_before_any_write(tmp_path: Path) -> None:
    """There is no mirror, or the whole one; the same command makes it, and once is enough."""
    base = SinkWorld(tmp_path / "base", MORE)
    base.folder.mkdir()
    feed = Feed(base.sink, OLD_VALUES)
    feed.write(feed.table("a", (ID, NAME)), [Row(START + 9, named(9)), Row(START + 11, None, named(1))])
    feed.checkpoint(START + 20)
    Export(base.folder / "export", START + 10).table("a", (ID, NAME), [named(1), named(9)])
    base.run()
    deaths = 0
    for at in range(100):
        world = replace(base, folder=tmp_path / str(at))
        shutil.copytree(base.folder, world.folder)
        try:
            with dying(at):
                taken(world)
        except Died:
            deaths += 1
        else:
            break
        world.run()
        taken(world)
        world.run()
        assert rows(world, "shop.a") == [named(9)]
    assert deaths >= 2
    assert not taken(world).tables


# Refusals ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_world(tmp_path_factory: pytest.TempPathFactory) -> SinkWorld:
    world = SinkWorld(tmp_path_factory.mktemp("world"), MORE)
    feed = Feed(world.sink, OLD_VALUES)
    feed.write(feed.table("a", (ID, NAME)), [Row(START + 10, named(1)), Row(START + 20, named(2))])
    feed.checkpoint(START + 30)
    world.run()
    return world


@pytest.fixture
def world(run_world: SinkWorld, tmp_path: Path) -> SinkWorld:
    """A copy of it for each test."""
    shutil.copytree(run_world.folder, tmp_path, dirs_exist_ok=True)
    return replace(run_world, folder=tmp_path)


def refused(world: SinkWorld, match: str, **more: Any) -> None:
    with pytest.raises(StrataError, match=match):
        taken(world, "shop.a", **more)
    assert not list((world.folder / "lake").glob("mirrors/s/shop/a/_delta_log/*.json"))


@pytest.mark.parametrize(
    ("tso", "more", "match"),
    [
        (9, {}, "before the sink's first commit at .*--feed-start"),
        (9, {"feed_start": START + 10}, "the changefeed has no commits up to"),
        (30, {}, "all commits below .* only.*Wait until"),
        (1000, {}, "Wait until"),
    ],
)
def test_an_export_that_the_sink_does_not_continue(
    world: SinkWorld, tso: int, more: dict[str, int], match: str
) -> None:
    Export(world.folder / "export", START + tso).table("a", (ID, NAME), [named(1)])
    refused(world, match, **more)


METADATA = "Started dump at: 2026\nSHOW MASTER STATUS:\n\tLog: {}\n\tPos: {}\n\tGTID:\n\n{}"


@pytest.mark.parametrize(
    ("metadata", "match"),
    [
        (None, "no export by Dumpling"),
        (METADATA.format("tidb-binlog", START + 15, ""), "not finished"),
        (METADATA.format("bin.000001", START + 15, "Finished dump at: 2026"), "of MySQL or MariaDB"),
        (METADATA.format("tidb-binlog", "2026-11-27 10:00:00", "Finished dump at: 2026"), "no timestamp of TiDB"),
        ("\nFinished dump at: 2026", "it has no position"),
    ],
)
def test_a_folder_that_does_not_say_its_timestamp(world: SinkWorld, metadata: str | None, match: str) -> None:
    export = Export(world.folder / "export", START + 15)
    export.table("a", (ID, NAME), [named(1)])
    (export.folder / "metadata").unlink()
    if metadata is not None:
        (export.folder / "metadata").write_text(metadata)
    refused(world, match)


OTHER_TABLES = {
    "another column": ((ID, NAME, SinkColumn("n")), "has the columns id, name, n, and the sink has the columns id"),
    "a column less": ((ID,), "has the columns id, and the sink"),
    "another type": ((ID, SinkColumn("name", "VARCHAR", precision="30")), r"name as varchar\(30\)"),
    "a sign": ((replace(ID, type="INT UNSIGNED"), NAME), "id as int unsigned NOT NULL"),
    "another key": ((replace(ID, pk=False), replace(NAME, pk=True)), r"primary key \(name\)"),
}


@pytest.mark.parametrize("what", OTHER_TABLES)
def test_another_tables_schema(world: SinkWorld, what: str) -> None:
    columns, match = OTHER_TABLES[what]
    Export(world.folder / "export", START + 15).table("a", columns, [named(1, n=1)])
    refused(world, match)


@pytest.mark.parametrize(
    ("name", "replaced", "match"),
    [
        ("a.000000000.csv", (b'"n1"\r\n', b'"n'), "ends in the middle of a row"),
        ("a.000000000.csv", (b'1,"n1"\r\n', b"1\r\n"), "row 1 of the file: it has another number of fields"),
        ("a.000000000.csv", (b'1,"n1"', b'x,"n1"'), "row 1 of the file: a field is neither"),
        ("a.000000000.csv", (b'1,"n1"', b'1.5,"n1"'), "row 1 of the file: column id: a value is no int"),
        ("a.000000000.csv", (b'2,"n2"', b'2,"n""2"'), "row 2 of the file: a field is neither"),
        ("a.000000000.csv", (b'2,"n2"', b'2,"n\n2"'), "row 2 of the file: a field is neither"),
        ("a.000000000.csv", (b'2,"n2"', b'2,"C:\\xyz"'), "row 2 of the file: a field is neither"),
        ("a.000000000.csv", (b'2,"n2"', b"2,NULL"), "row 2 of the file: a field is neither"),
        ("a.000000000.csv", (b'2,"n2"', b'2,"\xff"'), "row 2 of the file: column name: a value is no varchar"),
        ("a.000000000.csv", (b'"id","name"', b'"id","label"'), "has the columns id, label; the table has id, name"),
        ("a.000000000.csv", (b'"id","name"\r\n', b""), "no header"),
        ("a-schema.sql", (b"`a`", b"`b`"), "makes no table shop.a"),
        ("a-schema.sql", (b"int(11)", b"int(("), "cannot be taken"),
    ],
)
def test_files_that_are_not_whole(world: SinkWorld, name: str, replaced: tuple[bytes, bytes], match: str) -> None:
    export = Export(world.folder / "export", START + 15)
    export.table("a", (ID, NAME), [named(1), named(2)])
    path = export.folder / f"shop.{name}"
    assert replaced[0] in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(*replaced) if replaced[1] != b'"n' else path.read_bytes()[:-4])
    refused(world, match)


@pytest.mark.parametrize(("compress", "cut"), [("gzip", 12), ("zstd", 6), (None, 20)])
def test_a_cut_file_of_statements(world: SinkWorld, compress: str | None, cut: int) -> None:
    export = Export(world.folder / "export", START + 15, ExportForm("sql", compress=compress))
    export.table("a", (ID, NAME), [named(at) for at in range(1, 9)])
    (path,) = export.folder.glob("shop.a.000000000.sql*")
    path.write_bytes(path.read_bytes()[:-cut])
    refused(world, "ends in the middle|cannot be read to its end|no row of an INSERT")


def test_a_file_of_statements_that_lacks_its_last_rows(world: SinkWorld) -> None:
    export = Export(world.folder / "export", START + 15, ExportForm("sql"))
    export.table("a", (ID, NAME), [named(1), named(2)])
    path = export.folder / "shop.a.000000000.sql"
    path.write_bytes(path.read_bytes().replace(b"(2,'n2');\n", b""))
    refused(world, "ends in the middle of a statement")


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("shop.a.csv", "no file of a table by its name"),
        ("result.000000001.csv", "no CREATE TABLE|no file of a table"),
        ("more/shop.a.000000001.csv", "no file of a table by its name"),
        ("shop.a.000000001.csv.snappy", "no file of a table by its name"),
        ("shop.a.000000001.parquet", "no file of a table by its name"),
        ("shop.z.000000000.csv", "rows and no CREATE TABLE"),
        ("shop.a.000000000.csv.gz", "same part of a table"),
        ("shop.a.000000001.sql", "files of two exports"),
        ("shop.a.000000001.csv", "no rows"),
    ],
)
def test_files_that_no_export_has(world: SinkWorld, name: str, match: str) -> None:
    export = Export(world.folder / "export", START + 15)
    export.table("a", (ID, NAME), [named(1)])
    (export.folder / name).parent.mkdir(exist_ok=True)
    (export.folder / name).write_bytes(b"")
    refused(world, match)


def test_generated_columns_are_not_in_an_export(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, OLD_VALUES)
    feed.write(feed.table("a", (ID, NAME, SinkColumn("g"))), [Row(START + 10, named(1, g=2))])
    feed.checkpoint(START + 30)
    more = ["  `g` int(11) GENERATED ALWAYS AS (`id` + 1) STORED"]
    Export(world.folder / "export", START + 15).table("a", (ID, NAME), [named(1)], more)
    refused(world, "column g is generated")


def test_a_table_of_which_nothing_has_landed_waits(world: SinkWorld) -> None:
    """The others are made."""
    export = Export(world.folder / "export", START + 15)
    export.table("a", (ID, NAME), [named(1)])
    export.table("z", (ID, NAME), [named(1)])
    said = world.strata("dump", "--from-dumpling", str(export.folder))
    assert "shop.a  1 row read" in said.stdout
    assert "no row and no DDL of it has landed" in said.stdout
    assert said.returncode == BadData.exit_code
    world.run()
    assert rows(world, "shop.a") == [named(1), named(2)]


def test_an_empty_table_and_names_with_signs(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path, MORE)
    feed = Feed(world.sink, replace(OLD_VALUES, protocol="canal-json", table_ids=True))
    tables = {name: feed.table(name, (ID, NAME), id=at) for at, name in enumerate(["a.b-schema", "e"], start=100)}
    for table in tables.values():
        feed.write(table, [Row(START + 10, named(1))])
    feed.checkpoint(START + 30)
    export = Export(world.folder / "export", START + 5)
    export.table("a.b-schema", (ID, NAME), [named(7)])
    export.table("e", (ID, NAME), [])
    assert len(taken(world, feed_start=START).tables) == 2
    world.run()
    assert rows(world, "shop.e") == [named(1)]
    assert rows(world, TableName("shop", "a.b-schema")) == [named(1), named(7)]


def test_an_export_in_a_bucket(tmp_path: Path, lake: str) -> None:
    world = SinkWorld(tmp_path, MORE, url=f"{lake}-sink", lake=lake)
    feed = Feed(world.sink, OLD_VALUES)
    feed.write(feed.table("a", (ID, NAME)), [Row(START + 10, named(1)), Row(START + 20, named(2))])
    feed.checkpoint(START + 30)
    world.copy()
    Export(tmp_path / "export", START + 15, FORMS["parts"]).table("a", (ID, NAME), [named(1), named(7)])
    for path in sorted((tmp_path / "export").iterdir()):
        write_file(f"{lake}-export/{path.name}", path.read_bytes())
    take_dumpling("s", settings=world.settings, url=f"{lake}-export")
    world.run()
    found = mirrors.open(lake, "s", "shop.a").to_arrow().drop_columns(["_seq"]).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [named(1), named(2), named(7)]


def test_a_server_takes_no_export_of_tidb(tmp_path: Path) -> None:
    path = tmp_path / "strata.toml"
    path.write_text('lake = "lake"\n[sources.m]\nconnection = "m"\n')
    settings = load_settings({"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_M": "mysql://u@h"})
    with pytest.raises(Usage, match="an export by Dumpling is of TiDB"):
        take_dumpling("m", settings=settings, url=str(tmp_path))
