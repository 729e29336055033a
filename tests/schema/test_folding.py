"""Names as a server folds them that has `lower_case_table_names` = 1: its tables, columns and rows."""

from __future__ import annotations

import json

import pytest

from strata_cdc.cli.main import run
from strata_cdc.schema.model.folding import _LOWER_CASE, fold_name
from tests.mysql_server import start_server

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with start_server(tmp_path_factory.mktemp("folding"), "--lower-case-table-names=1") as server:
        yield server


def test_every_character_is_folded_as_the_server_folds_it(server):
    """In one name many, so that it is quick; those too that only newer versions of Unicode fold."""
    letters = [chr(at) for at in range(0x80, 0xFFFE) if not 0xD800 <= at < 0xE000]
    letters = [ch for ch in letters if ch.lower() != ch or ord(ch) in _LOWER_CASE]
    names = ["x" + "".join(letters[at : at + 40]) for at in range(0, len(letters), 40)]
    connection = server.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE letters")
        for name in names:
            cursor.execute(f"CREATE TABLE letters.`{name}` (a INT)")
        cursor.execute("SHOW TABLES FROM letters")
        assert {name for (name,) in cursor.fetchall()} == {fold_name(name) for name in names}
        # Columns are told apart by the same letters.
        columns = ("\u0220", "\u019e", "\u1e9e", "\u00df", "\u023a", "\u2c65")
        assert len(set(map(fold_name, columns))) == len(columns)
        cursor.execute(f"CREATE TABLE letters.c ({', '.join(f'{name} INT' for name in columns)})")


def test_rows_of_folded_names_are_decoded_and_the_option_is_named_where_it_is_missing(server, tmp_path, capsys):
    server.run_sql(
        "RESET BINARY LOGS AND GTIDS; CREATE DATABASE `G\u00c4STE`;"
        "CREATE TABLE `G\u00c4STE`.`\u0130STANBUL \u1e9e` (Id INT);"
        "INSERT INTO `g\u00c4ste`.`i\u0053tanbul \u1e9e` VALUES (1)"
    )
    out = tmp_path / "rows.jsonl"
    command = ["decode", str(server.binlogs()[-1]), "--out", str(out)]
    assert run(command) == 1
    said = capsys.readouterr().err
    assert "but there is G\u00c4STE.\u0130STANBUL \u1e9e" in said
    assert "--lower-case-table-names 1" in said
    assert run([*command, "--lower-case-table-names", "1"]) == 0
    (row,) = map(json.loads, out.read_text().splitlines())
    assert (row["database"], row["table"], row["after"]) == ("g\u00e4ste", "istanbul \u1e9e", {"Id": 1})
    assert run([*command, "--lower-case-table-names", "1", "--physical"]) == 2
