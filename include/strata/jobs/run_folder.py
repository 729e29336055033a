"""The folder of one run: what its steps leave for each other, readable and kept.
Not here: the decoded rows (`tables/`), the ledgers (`store/`)."""

from __future__ import annotations

import json
from typing import Any

from strata.jobs.specs import RunPlan
from strata.wire.storage import Folder

PLAN = "plan.json"
DECODED = "decoded.json"
VERDICT = "verdict.json"


def run_folder(lake: str, source: str, run: str) -> Folder:
    """`<lake>/runs/<source>/<run>`; a run is named by its span, so doing it again finds it again."""
    return Folder.open(lake).folder(f"runs/{source}/{run}")


def write_plan(folder: Folder, plan: RunPlan) -> None:
    """Stores what is to be done."""
    folder.write(PLAN, plan.to_json().encode())


def read_plan(folder: Folder) -> RunPlan:
    """What `write_plan` stored.

    Raises:
        LakeUnavailableError: There is no plan.
    """
    return RunPlan.from_json(folder.read(PLAN).decode())


def write_json(folder: Folder, name: str, value: Any) -> None:
    """Stores a step's outcome."""
    folder.write(name, json.dumps(value, ensure_ascii=False, indent=1).encode())


def read_json(folder: Folder, name: str) -> Any:
    """What `write_json` stored.

    Raises:
        LakeUnavailableError: The step has not been done.
    """
    return json.loads(folder.read(name))
