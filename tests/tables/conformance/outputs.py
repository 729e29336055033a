"""The outputs that the conformance tests know, by name. A further one gets a line here, and has to pass them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.table import TableAlterer

from strata_cdc.tables.delta import log, old_generations
from strata_cdc.tables.delta.table import DeltaOutput
from tests.fakes.manifest_output import ManifestOutput

if TYPE_CHECKING:
    from strata_cdc.tables.port import Output

OUTPUTS: dict[str, Output] = {"delta": DeltaOutput(), "manifest": ManifestOutput()}

WRITES: tuple[tuple[Any, str], ...] = (
    (os, "fsync"),
    (os, "link"),
    (Path, "replace"),
    (log, "create_table_with_add_actions"),
    (DeltaTable, "create_write_transaction"),
    (TableAlterer, "add_columns"),
    (old_generations, "delete_folder"),
    (old_generations, "delete_file"),
)
"""Where any of them writes: a process is killed before each."""
