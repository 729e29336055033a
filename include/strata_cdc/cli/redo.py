"""`strata redo`: SQL that makes changes again which were taken back. It is printed, never executed.
Not here: its options and its run (`cli/undo.py`)."""

from __future__ import annotations

from strata_cdc.cli.undo import command_of

redo = command_of("redo", "Prints SQL that makes changes again which were taken back; nothing is executed.")
