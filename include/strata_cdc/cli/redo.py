"""`strata redo`: SQL that makes changes again which were taken back. It is printed, never executed.
Not here: its options and its run (`cli/undo.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.cli.undo import command_of

if TYPE_CHECKING:
    import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    help_ = "Prints SQL that makes changes again which were taken back; nothing is executed."
    app.command("redo", help=help_)(command_of("redo"))
