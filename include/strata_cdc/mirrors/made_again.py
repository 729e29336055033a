"""What makes the mirror of a table again if its files cannot be used.
Not here: what blocks a mirror (`follow/blocked.py`), dumps (`dump/`)."""

from __future__ import annotations

from typing import Final

MADE_AGAIN: Final = (
    "dump the table again (`strata dump`); of a TiCDC sink move the mirror's folder away, and `strata mirror update` "
    "makes it again from its CREATE TABLE on."
)
"""The end of a sentence: code that has only the mirror does not know of what kind its source is."""
