"""What lies before the changes that a run decodes, `past.json`: what its checks have to know of its tables' history.
Not here: making it (`jobs/plan/pasts.py`), the plan itself (`run_plan.py`).

It is no part of the plan: it changes while others publish, and the plan of the same work is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from strata.schema.model.lives import TableLife  # noqa: TC001  msgspec asks for it when it decodes
from strata.wire.stored import decode_stored

if TYPE_CHECKING:
    from strata.wire.storage import Folder

PAST = "past.json"
FORMAT = 1
"""Number of the stored form."""


class TablePast(Struct, frozen=True):
    """What lies before the changes of a table that a run decodes: what its checks have to know of it."""

    database: str
    table: str
    lives: tuple[TableLife, ...] = ()
    """Of the tables that have had the name."""
    untold: tuple[int, ...] = ()
    """Ordinals of transactions that changed its rows without row events, or that are missing; rising."""
    unpublished: tuple[int, ...] = ()
    """Starts of intervals with rows that are neither published nor in the run: of those in front of the run the last
    one, and all between its own; rising."""


class RunPast(Struct, frozen=True):
    """What lies before a run."""

    tables: tuple[TablePast, ...] = ()
    """Those of its plan, by name."""
    format: int = FORMAT

    def of(self, database: str, table: str) -> TablePast | None:
        """What lies before a table's changes; None if nobody has said."""
        return next((past for past in self.tables if (past.database, past.table) == (database, table)), None)


def write_past(folder: Folder, past: RunPast) -> None:
    """Stores it in a run folder."""
    folder.write(PAST, msgspec.json.encode(past))


def read_past(folder: Folder) -> RunPast:
    """What `write_past` stored; empty in a run of an older version.

    Raises:
        DamagedFileError: It is not whole.
        StoreFormatError: A newer version wrote it.
        LakeUnavailableError: The storage does not answer.
    """
    if not folder.exists(PAST):
        return RunPast()
    remedy = "Run `strata plan` again: what it planned is still owed."
    return decode_stored(folder.read(PAST), RunPast, newest=FORMAT, file=folder.join(PAST), remedy=remedy)
