"""`strata upgrade`: brings the stores of the settings to the format of this version.
Not here: what that changes (`ops/upgrade.py`)."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import say
from strata_cdc.config.settings import load_settings
from strata_cdc.values import to_plain


def upgrade(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,  # noqa: FBT002  a switch of the command line
) -> None:
    """Brings the stores of the settings to the format of this version; lakes need no change.

    End what the former version runs before, and back up the stores: the former version cannot read them afterwards.
    The first command of this version that opens a store does the same by itself.
    """
    from strata_cdc.ops.upgrade import stores_of, upgrade_store

    settings = load_settings(os.environ)
    stores = list(stores_of(settings))
    for store in stores:
        if store.is_due and not dry_run:
            upgrade_store(settings, store)
        if context.obj["json"]:
            print_line({**to_plain(store), "upgraded": store.is_due and not dry_run})
        else:
            say(f"{'would upgrade ' if store.is_due and dry_run else ''}{store.line()}")
    if not context.obj["json"]:
        say("lakes: nothing to do, files of all former formats are read")
