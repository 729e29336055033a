"""Every golden case, replayed without a server: each version is what the real one showed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.model.definition import Unknown
from strata_cdc.schema.replay.catalog import Catalog
from tests.schema.golden import CASES, context_from
from tests.schema.shown import Shown, differences

if TYPE_CHECKING:
    from pathlib import Path

ALLOWED_GAPS = {"gaps"}


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_each_version_is_what_the_server_showed(path: Path):
    answer = json.loads(path.read_text())
    catalog, shown = Catalog(), {}
    for step in answer["steps"]:
        for event in step["events"]:
            catalog.apply(read_ddl_or_gap(event["statement"], context_from(event["context"])))
        shown = _after(shown, step["changed"])
        assert differences(shown, catalog) == [], step["events"]
        if path.stem not in ALLOWED_GAPS:
            assert [name for name, definition in catalog if isinstance(definition, Unknown)] == [], step["events"]


def _after(shown: Shown, changed: dict) -> Shown:
    kept = {name: facts for name, facts in shown.items() if name not in changed}
    return kept | {name: facts for name, facts in changed.items() if facts is not None}


def test_every_case_has_its_answer():
    assert {path.stem for path in CASES.glob("*.sql")} == {path.stem for path in CASES.glob("*.json")}
