"""Each folder is a case: SQL for a real server, and the rows that a reader who comes afterwards must get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata_cdc.cli.main import run

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/up.sql"))


@pytest.mark.mysql
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_late_reader_gets_the_rows_as_they_were_written(case, mysql_server, tmp_path):
    database = f"case_{case.name}"
    mysql_server.run_sql(f"FLUSH BINARY LOGS; DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database};")
    mysql_server.run_sql((case / "up.sql").read_text(), database)
    binlog = mysql_server.binlogs()[-1]
    out = tmp_path / "rows.jsonl"
    assert run(["decode", str(binlog), "--out", str(out), "--format", "jsonl", "--table", f"{database}.*"]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    expected = [json.loads(line) for line in (case / "rows.jsonl").read_text().splitlines()]
    assert [{key: row[key] for key in ("table", "op", "before", "after")} for row in rows] == expected
    for side in ("before", "after"):
        assert [list(row[side] or ()) for row in rows] == [list(row[side] or ()) for row in expected]
    assert {row["database"] for row in rows} == {database}
    assert [(row["seq"], row["row"]) for row in rows] == sorted((row["seq"], row["row"]) for row in rows)
