"""The output to which change tables are published.
Not here: what an output is (`port.py`), the outputs themselves (a folder each)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.tables.delta.table import DeltaOutput

if TYPE_CHECKING:
    from strata_cdc.tables.port import Output

OUTPUT: Output = DeltaOutput()
"""Delta, until there is a second output."""
