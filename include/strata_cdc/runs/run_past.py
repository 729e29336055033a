"""What lies before the changes that a run decodes, `past.json`: what its checks have to know of its tables' history.
Not here: making it (`pipeline/plan/pasts.py`), the plan itself (`run_plan.py`).

It is no part of the plan: it changes while others publish, and the plan of the same work is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.stored import decode_stored
from strata_cdc.schema.model.lifetimes import TableLife  # noqa: TC001  msgspec asks for it when it decodes

if TYPE_CHECKING:
    from strata_cdc.files.storage import Folder
    from strata_cdc.runs.run_plan import RunPlan

PAST = "past.json"
FORMAT = 1
"""Number of the stored form."""
_SINCE = 3
"""Format of the first plans that have one."""


class EarlierTable(Struct, frozen=True):
    """What lies before the changes of a table that a run decodes: what its checks have to know of it."""

    database: str
    table: str
    lives: tuple[TableLife, ...] = ()
    """Of the tables that have had the name."""
    unlogged: tuple[int, ...] = field(default=(), name="untold")
    """Ordinals of transactions that changed its rows without row events, or that are missing; rising."""
    unpublished: tuple[int, ...] = ()
    """Starts of intervals with rows that are neither published nor in the run: of those in front of the run the last
    one, and all between its own; rising."""


class RunPast(Struct, frozen=True):
    """What lies before a run."""

    tables: tuple[EarlierTable, ...] = ()
    """Those of its plan, by name."""
    format: int = FORMAT

    def of(self, database: str, table: str) -> EarlierTable | None:
        """What lies before a table's changes; None if nobody has said."""
        return next((past for past in self.tables if (past.database, past.table) == (database, table)), None)


def write_past(folder: Folder, past: RunPast) -> None:
    """Stores it in a run folder."""
    folder.write(PAST, msgspec.json.encode(past))


def read_past(folder: Folder, plan: RunPlan) -> RunPast:
    """What `write_past` stored beside a plan; it may be missing, and is empty then, in a run of an older version.

    Raises:
        DamagedFileError: It is not whole, or not there, or lacks a table of the plan.
        StoreFormatError: A newer version wrote it.
        LakeUnavailableError: The storage does not answer.
    """
    file = folder.join(PAST)
    remedy = f"Run `strata plan --source {plan.source}` again: what it planned is still owed."
    found = RunPast()
    if folder.exists(PAST):
        found = decode_stored(folder.read(PAST), RunPast, newest=FORMAT, file=file, remedy=remedy)
    elif plan.format >= _SINCE and plan.tables:
        raise DamagedFileError("what lies before the run is not there any more", file=file, remedy=remedy)
    if plan.format >= _SINCE:
        # Without a name of its own is what a statement changed of tables that it does not tell.
        missing = {(one.database, one.table) for one in plan.tables if one.database}
        missing -= {(one.database, one.table) for one in found.tables}
        if missing:
            name = ".".join(min(missing))
            raise DamagedFileError("a table of the plan is not in the file", file=file, table=name, remedy=remedy)
    return found
