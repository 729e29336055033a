"""`strata version`: this version, and the formats that it writes.
Not here: `--version`, which is the number alone (`main.py`)."""

from __future__ import annotations

import importlib.metadata
import json

import typer

from strata_cdc.cli.terminal import say
from strata_cdc.extras import DISTRIBUTION


def formats() -> dict[str, int]:
    """The number of each stored format that this version writes; it reads all smaller ones."""
    from strata_cdc.binlog.events import index
    from strata_cdc.mirrors import position
    from strata_cdc.mirrors.dump import manifest
    from strata_cdc.runs import run_folder, run_past, run_plan
    from strata_cdc.schema.model import definition
    from strata_cdc.store import migrations
    from strata_cdc.tables import quarantine

    return {
        "store": migrations.FORMAT,
        "table definition": definition.FORMAT,
        "index of a segment": index.FORMAT,
        "plan of a run": run_plan.PLAN_FORMAT,
        "files of a run": run_folder.FORMAT,
        "state before a run": run_past.FORMAT,
        "quarantine": quarantine.FORMAT,
        "mirror": position.FORMAT,
        "dump": manifest.FORMAT,
    }


def version(context: typer.Context) -> None:
    """Shows this version, and the newest stored formats that it reads and writes.

    It reads all older formats, too. CHANGELOG.md has the formats of each version.
    """
    number = importlib.metadata.version(DISTRIBUTION)
    if context.obj["json"]:
        typer.echo(json.dumps({"version": number, "formats": formats()}))
        return
    say(f"strata {number}")
    for name, newest in formats().items():
        say(f"  {name:<20}{newest:>3}")
