"""The parts of the demo that judge: a proof that cannot fail proves nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from demo.shop import EARLY_KEYS, EARLY_ROWS, chapters
from scripts.dag_runs import _log_lines
from scripts.demo import start_afresh
from scripts.demo_proof import first_difference
from scripts.processes import FleetError
from scripts.state import FleetState

SERVER = pa.table({"id": [2, 1], "name": ["b", None]})


@pytest.mark.parametrize(
    ("replayed", "said"),
    [
        ({"id": [1, 2], "name": [None, "b"]}, None),
        ({"id": [1, 2], "name": [None, "B"]}, "name is b on the server, B replayed"),
        ({"id": [1, 2], "name": ["", "b"]}, "name is None on the server,  replayed"),
        ({"id": [1], "name": [None]}, "+1 rows on the server"),
        ({"id": [1, 3], "name": [None, "b"]}, "id is 2 on the server, 3 replayed"),
    ],
)
def test_the_proof_finds_every_difference(replayed, said):
    assert first_difference(SERVER, pa.table(replayed), ["id"]) == said


def test_the_life_has_every_kind_of_ddl_in_its_middle():
    story = chapters()
    assert len(story) == 7
    statements = [statement for chapter in story for statement in chapter.statements]
    text = " ".join(statements)
    for ddl in (" FIRST", "RENAME COLUMN", "DROP COLUMN", "MODIFY", "ENUM", "RENAME TABLE", "DROP TABLE", " LIKE "):
        assert ddl in text, ddl
    assert all(statement.split()[0] not in {"ALTER", "RENAME", "DROP"} for statement in story[0].statements)
    assert set(EARLY_ROWS) == set(EARLY_KEYS)


def test_edited_settings_stop_the_demo_from_removing_anything(tmp_path):
    state = FleetState(tmp_path)
    state.settings_file.write_text("# mine")
    (tmp_path / "lake").mkdir()
    with pytest.raises(FleetError, match="make clean"):
        start_afresh(state, None)
    assert (tmp_path / "lake").exists()


def test_a_task_log_is_shown_as_its_messages_and_what_was_raised(tmp_path):
    log = tmp_path / "attempt=1.log"
    error = {"exc_type": "SchemaGapError", "exc_value": "no schema for shop.orders"}
    entries = [{"event": "::group::Pre Execute"}, {"event": "Task failed", "error_detail": [error]}]
    log.write_text("\n".join(json.dumps(entry) for entry in entries) + "\nplain\n")
    assert _log_lines(log) == ["Task failed", "SchemaGapError: no schema for shop.orders", "plain"]
