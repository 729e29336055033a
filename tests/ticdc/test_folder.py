"""What is read of a folder, and what is refused: its layout is known by shape, and nothing that only a listing shows is
taken."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import BadData, DamagedFileError, Usage
from strata_cdc.ticdc.folder import read_contents
from strata_cdc.ticdc.schema_files import checksums
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.reading import read

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = (SinkColumn("id", pk=True, nullable=False),)


def row(at: int) -> Row:
    return Row(START + at, {"id": at})


def ids(got: Any) -> list[int]:
    return [after["id"] for _, _, _, _, after in got.rows]


def test_checksums_are_those_of_ticdc() -> None:
    """The numbers are from TiCDC's own test of these columns (pkg/cloudstorage/schema_file_test.go)."""
    columns = [
        {"ColumnName": "Id", "ColumnType": "INT", "ColumnDefault": 10, "ColumnPrecision": "11"},
        {"ColumnName": "LastName", "ColumnType": "VARCHAR", "ColumnDefault": "Default LastName"},
        {"ColumnName": "FirstName", "ColumnType": "VARCHAR", "ColumnDefault": "Default FirstName"},
        {"ColumnName": "Birthday", "ColumnType": "DATETIME", "ColumnDefault": 12345678},
    ]
    columns[0] |= {"ColumnNullable": "false", "ColumnIsPk": "true"}
    columns[1] |= {"ColumnPrecision": "128", "ColumnNullable": "false"}
    columns[2] |= {"ColumnPrecision": "64"}
    table = {"Table": "table1", "Schema": "schema1", "TableColumns": columns, "TableColumnsTotal": 4}
    assert checksums(table) == {3752767265}
    database = {"Table": "", "Schema": "schema1", "TableColumns": None, "TableColumnsTotal": 0}
    assert 3233644819 in checksums(database)


@pytest.mark.parametrize("date", ["none", "year", "month", "day"])
@pytest.mark.parametrize("partition", [0, 2024])
@pytest.mark.parametrize("dispatcher", ["", "a_1"])
@pytest.mark.parametrize("digits", [6, 20])
def test_layouts(tmp_path: Path, date: str, partition: int, dispatcher: str, digits: int) -> None:
    feed = Feed(tmp_path, FeedForm(date=date, digits=digits))
    table = feed.table("7", COLUMNS)
    for at in range(1, 4):
        feed.write(table, [row(at)], dispatcher=dispatcher, partition=partition)
    feed.checkpoint(START + 9)
    before = content_of(tmp_path)
    assert ids(read(tmp_path)) == [1, 2, 3]
    assert content_of(tmp_path) == before


def content_of(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("database", "name", "table_ids"), [("7", "8", False), ("shop", "t", True), ("meta", "meta", False)]
)
def test_names_that_look_like_other_levels(tmp_path: Path, database: str, name: str, table_ids: bool) -> None:
    """`7/8/2024` is a version of table 8, or table 7 in a year: the schema files decide."""
    feed = Feed(tmp_path, FeedForm(date="year" if table_ids else "none", table_ids=table_ids))
    table = feed.table(name, COLUMNS, ts=2024, id=7)
    shutil.rmtree(tmp_path / "shop", ignore_errors=True)
    table.database = database
    feed.ddl(table, START, 0, "")
    feed.write(table, [row(1)])
    feed.checkpoint(START + 9)
    got = read(tmp_path)
    assert [one[1] for one in got.rows] == [f"{database}.{name}"]


def test_only_what_an_index_names_is_read(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    feed.write(table, [row(1)])
    feed.write(table, [row(2)], indexed=False)
    feed.checkpoint(START + 9)
    assert ids(read(tmp_path)) == [1]
    assert read_contents(str(tmp_path)).unindexed == 1
    feed.write(table, [row(3)])
    assert ids(read(tmp_path)) == [1, 3]


def test_rows_from_the_checkpoint_on_wait(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    feed.write(table, [row(at) for at in range(1, 6)])
    feed.ddl(table, START + 3, 7, "CREATE INDEX i ON t (id)")
    feed.checkpoint(START + 3)
    first = read(tmp_path)
    assert ids(first) == [1, 2]
    assert not first.ddl
    feed.checkpoint(START + 9)
    rest = read(tmp_path, begin=first.end, known=first.state)
    assert ids(rest) == [3, 4, 5]
    assert [one.statement for one in rest.ddl] == ["CREATE INDEX i ON t (id)"]
    # A row with the timestamp of the DDL is before it.
    assert [rest.seqs[0][0] < rest.ddl[0].seq < rest.seqs[1][0]] == [True]


def test_files_that_expired_are_holes_unless_they_were_read(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    paths = [feed.write(table, [row(at)]) for at in range(1, 4)]
    feed.checkpoint(START + 3)
    first = read(tmp_path)
    paths[0].unlink()
    paths[1].unlink()
    assert not read_contents(str(tmp_path), first.state).holes
    (hole,) = read_contents(str(tmp_path)).holes
    assert "2 data files missing, numbers 1 to 2" in str(hole)
    assert f"shop/t/{START}/2026-11-27" in str(hole)
    shutil.rmtree(paths[2].parent)
    (hole,) = read_contents(str(tmp_path), first.state).holes
    assert "numbers 3 to 3" in str(hole)


def test_an_empty_file_is_written_again_after_a_restart(tmp_path: Path) -> None:
    """TiCDC died while it wrote the newest one, and uses its number again."""
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    empty = [feed.write(table, rows) for rows in ([], [row(1)], [])][-1]
    feed.checkpoint(START + 3)
    first = read(tmp_path)
    assert [(state.indexed, state.read) for state in first.state.sequences.values()] == [(3, 2)]
    empty.write_bytes("".join(feed.lines(table, table.columns, [row(4)])).encode())
    feed.checkpoint(START + 6)
    assert ids(read(tmp_path, begin=first.end, known=first.state)) == [4]


def test_an_empty_file_of_a_day_that_is_over_may_expire(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    empty = feed.write(table, [])
    feed.write(table, [row(1)], date="2026-11-28")
    feed.checkpoint(START + 3)
    first = read(tmp_path)
    shutil.rmtree(empty.parent)
    assert not read_contents(str(tmp_path), first.state).holes


def refusal(folder: Path, kind: type[Exception] = BadData, known: Any = None) -> str:
    with pytest.raises(kind) as caught:
        read(folder, known=known) if known else read(folder)
    return str(caught.value)


def test_a_folder_that_is_no_sink(tmp_path: Path) -> None:
    assert "no folder of a TiCDC storage sink" in refusal(tmp_path, Usage)
    Feed(tmp_path / "one")
    assert "these folders in it are: one" in refusal(tmp_path, Usage)
    (tmp_path / "one" / "metadata").write_text("{}")
    assert "metadata" in refusal(tmp_path / "one", Usage)


def test_two_changefeeds_in_a_folder(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.write(feed.table("t", COLUMNS), [row(1)])
    feed.checkpoint(START + 5)
    state = read(tmp_path).state
    other = Feed(tmp_path, FeedForm(protocol="canal-json"))
    assert "its checkpoint fell" in refusal(tmp_path, known=state)
    path = other.write(other.table("u", COLUMNS), [row(1)])
    assert "two changefeeds" in refusal(tmp_path)
    path.unlink()
    Feed(tmp_path / "inner")
    assert "another changefeed writes into inner" in refusal(tmp_path)


def test_schema_files_that_contradict_their_names(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    path = feed.ddl(table, START + 1, 7, "CREATE INDEX i ON t (id)")
    state = read(tmp_path).state
    content = json.loads(path.read_text())
    for changed, message in (
        ({"TableVersion": 5}, "its version is 5"),
        ({"TableColumnsTotal": 2}, "number of columns"),
        ({"TableColumns": [{"ColumnName": "id", "ColumnType": "BIGINT"}]}, "checksum"),
        ({"Table": "u"}, "checksum"),
    ):
        path.write_text(json.dumps({**content, **changed}))
        assert message in refusal(tmp_path, DamagedFileError)
    path.write_text("{")
    assert path.name in refusal(tmp_path, DamagedFileError)
    # Another consumer has emptied the DDL: the checksum does not show it.
    path.write_text(json.dumps({**content, "Query": ""}))
    assert "has changed" in refusal(tmp_path, DamagedFileError, state)
    path.rename(path.with_name(f"schema_{START + 1}_0000000001.json"))
    assert "checksum" in refusal(tmp_path, DamagedFileError)


def test_two_schemas_of_one_version(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    feed.ddl(table, START, 5, "ALTER TABLE t ADD c INT", (*COLUMNS, SinkColumn("c")))
    assert "have one version" in refusal(tmp_path)


def test_data_without_its_schema(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    feed.write(table, [row(1)])
    shutil.rmtree(tmp_path / "shop" / "t" / "meta")
    assert "no schema file has its version" in refusal(tmp_path, DamagedFileError)


def test_an_index_that_cannot_be_read(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    path = feed.write(feed.table("t", COLUMNS), [row(1)])
    (path.parent / "meta" / "CDC.index").write_text("CDC_x_000001.csv")
    assert "CDC.index" in refusal(tmp_path, DamagedFileError)


TORN = {
    "csv": (FeedForm(), "in the middle"),
    "no quotes": (FeedForm(quote="", delimiter="||"), "in the middle"),
    "canal": (FeedForm(protocol="canal-json"), "in the middle"),
}


@pytest.mark.parametrize("form", TORN)
@pytest.mark.parametrize("cut", [1, 2, 3, 9, 20])
def test_files_that_are_cut(tmp_path: Path, form: str, cut: int) -> None:
    """All rows before are kept; nothing is made of a half."""
    feed = Feed(tmp_path, TORN[form][0])
    table = feed.table("t", (*COLUMNS, SinkColumn("c", "VARCHAR", precision="9")))
    rows = [Row(START + at, {"id": at, "c": "a\r\nb"}) for at in range(1, 31)]
    path = feed.write(table, rows)
    feed.checkpoint(START + 99)
    path.write_bytes(path.read_bytes()[:-cut])
    got = read(tmp_path)
    assert ids(got) == list(range(1, 29))
    assert "row 30 of the file" in str(got.error)
    assert path.name in str(got.error)


@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
def test_files_without_commit_timestamps(tmp_path: Path, protocol: str) -> None:
    feed = Feed(tmp_path, FeedForm(protocol=protocol, commit_ts=False, extension=False))
    feed.write(feed.table("t", COLUMNS), [row(1)])
    feed.checkpoint(START + 9)
    got = read(tmp_path)
    assert "no commit timestamps" in str(got.error)
    assert ("include-commit-ts" if protocol == "csv" else "enable-tidb-extension") in str(got.error)


def test_rows_with_other_columns_or_of_another_table(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", COLUMNS)
    path = feed.write(table, [row(1), row(2), row(3)])
    feed.checkpoint(START + 9)
    whole = path.read_text()
    path.write_text(whole.replace(",2\n", ",2,2\n"))
    got = read(tmp_path)
    assert ids(got) == []
    assert "row 2" in str(got.error)
    path.write_text(whole.replace(",1\n", ",1,1\n"))
    assert "it has 6 fields" in str(read(tmp_path).error)
    path.write_text(whole.replace(f'"t","shop",{START + 3}', f'"u","shop",{START + 3}'))
    got = read(tmp_path)
    assert ids(got) == [1]
    assert "no change of shop.t" in str(got.error)


@pytest.mark.parametrize("text", [b"\xff", b"\\udc00", b"\xed\xb0\x80"])
def test_canal_json_that_is_no_utf_8(tmp_path: Path, text: bytes) -> None:
    """Arrow takes it for text, and nobody could read the Parquet file."""
    feed = Feed(tmp_path, FeedForm(protocol="canal-json"))
    table = feed.table("t", (*COLUMNS, SinkColumn("name", "VARCHAR", precision="20")))
    rows = [Row(START + at, {"id": at, "name": f"n{at}"}) for at in (1, 2, 3)]
    path = feed.write(table, rows)
    feed.checkpoint(START + 9)
    path.write_bytes(path.read_bytes().replace(b"n2", text))
    assert "row 2 of the file: it is no such line" in str(read(tmp_path).error)


def test_timestamps_that_fall_within_a_file(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.write(feed.table("t", COLUMNS), [row(1), row(3), row(2)])
    feed.checkpoint(START + 9)
    assert "smaller than that of the row before" in str(read(tmp_path).error)


LINES = """
"I","update_pk","test",450253245302439944,1,"example1"
"I","update_pk","test",450253245302439944,2,"example2"

# an update of both keys at once
"U","update_pk","test",450253245485940746,1,"example2"
"U","update_pk","test",450253245485940746,2,"example1"

# an update of a key, split
"D","update_pk","test",450253245485940749,2,"example1"
"I","update_pk","test",450253245485940749,3,"example1"
"""
WITH_OLD = """
"I","update_pk","test",450253245302439944,false,1,"example1"

"D","update_pk","test",450253245485940746,true,1,"example1"
"I","update_pk","test",450253245485940746,true,1,"example2"

"D","update_pk","test",450253245485940749,false,1,"example2"
"I","update_pk","test",450253245485940749,false,3,"example2"
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(LINES, ["insert 1", "insert 2", "update 1", "update 2", "delete 2", "insert 3"]),
     (WITH_OLD, ["insert 1", "update 1 example1", "delete 1", "insert 3"])],
)  # fmt: skip
def test_lines_as_ticdc_writes_them_for_updates_of_keys(tmp_path: Path, lines: str, expected: list[str]) -> None:
    """In the form of the results of TiCDC's integration tests (csv_storage_update_pk_clustered)."""
    feed = Feed(tmp_path, FeedForm(terminator="\n"))
    table = feed.table("update_pk", (SinkColumn("id", pk=True), SinkColumn("v", "VARCHAR", precision="20")), ts=1)
    table.database = "test"
    feed.ddl(table, 1, 0, "")
    shutil.rmtree(tmp_path / "shop")
    path = feed.write(table, [])
    path.write_text("".join(f"{line}\n" for line in lines.splitlines() if line.startswith('"')))
    feed.checkpoint(450253245485940750)
    got = read(tmp_path)
    assert got.error is None
    shown = [
        f"{op} {(after or before)['id']} {((op == 'update' and before) or {}).get('v', '')}"
        for _, _, op, before, after in got.rows
    ]
    assert [one.strip() for one in shown] == expected
