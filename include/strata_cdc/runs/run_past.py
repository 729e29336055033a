"""`past.json`: what the checks of a run have to know of its tables' history before the changes that it decodes.
Not here: making it (`pipeline/plan/pasts.py`), the plan itself (`run_plan.py`).

It is not part of the plan: it changes while other runs publish, but the plan of the same work stays the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from strata_cdc.errors import DamagedFileError
from strata_cdc.files.storage import Folder
from strata_cdc.files.stored import decode_stored
from strata_cdc.schema.history.neighbours import Neighbour  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.schema.model.lifetimes import ColumnLifetimes  # noqa: TC001  msgspec asks for it when it decodes

if TYPE_CHECKING:
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.schema.model.definition import TableName

PAST = "past.json"
FORMAT = 1
"""Number of the stored form."""
_SINCE = 3
"""Format of the first plans that have a `past.json`."""


class EarlierTable(Struct, frozen=True):
    """The history of a table before the changes that a run decodes, as far as its checks have to know it."""

    database: str
    table: str
    lifetimes: tuple[ColumnLifetimes, ...] = field(default=(), name="lives")
    """Lifetimes of the tables that have had this name."""
    unlogged: tuple[int, ...] = field(default=(), name="untold")
    """Ordinals of transactions that changed its rows without row events, or that are missing; ascending."""
    unpublished: tuple[int, ...] = ()
    """Starts of intervals with rows that are neither published nor in the run: the last of those before the run, and
    all between the run's own intervals; ascending."""
    near: dict[int, tuple[Neighbour, ...]] = {}
    """By version of the plan, the versions before and after it: rows that contradict theirs may fit one of them."""


class RunPast(Struct, frozen=True):
    """The history before a run."""

    tables: tuple[EarlierTable, ...] = ()
    """The tables of its plan, by name."""
    format: int = FORMAT

    def earlier_table(self, database: str, table: str) -> EarlierTable | None:
        """The history of a table; None if the file does not have it."""
        return next((past for past in self.tables if (past.database, past.table) == (database, table)), None)


def write_past(folder: Folder, past: RunPast) -> None:
    """Stores it in a run folder."""
    folder.write(PAST, msgspec.json.encode(past))


def read_past(folder: Folder, plan: RunPlan) -> RunPast:
    """What `write_past` stored beside a plan; empty if an older version made the run without it.

    Raises:
        DamagedFileError: It is incomplete, or missing, or lacks a table of the plan.
        StoreFormatError: A newer version wrote it.
        LakeUnavailableError: The storage does not answer.
    """
    file = folder.join(PAST)
    remedy = f"Run `strata plan --source {plan.source}` again: what it planned is still pending."
    past = RunPast()
    if folder.exists(PAST):
        past = decode_stored(folder.read_file(PAST), RunPast, newest=FORMAT, file=file, remedy=remedy)
    elif plan.format >= _SINCE and plan.tables:
        raise DamagedFileError("the history before the run is missing", file=file, remedy=remedy)
    if plan.format >= _SINCE:
        # An empty database: a change by a statement that does not name its tables.
        missing = {(table.database, table.table) for table in plan.tables if table.database}
        missing -= {(table.database, table.table) for table in past.tables}
        if missing:
            name = ".".join(min(missing))
            raise DamagedFileError("a table of the plan is not in the file", file=file, table=name, remedy=remedy)
    return past


def neighbours_of(run_url: str, table: TableName, version_id: int) -> tuple[Neighbour, ...]:
    """The versions next to one that a run decodes with; none if an older version planned it.

    Raises:
        DamagedFileError: The file is incomplete.
        LakeUnavailableError: The storage does not answer.
    """
    past = _past_at(run_url).earlier_table(table.database, table.table)
    return () if past is None else past.near.get(version_id, ())


@lru_cache(maxsize=1)
def _past_at(run_url: str) -> RunPast:
    """The history before a run, which a process reads once, and only if rows contradict their version."""
    folder = Folder.open(run_url)
    if not folder.exists(PAST):
        return RunPast()
    remedy = "Plan the run again (`strata plan`): what it planned is still pending."
    return decode_stored(folder.read_file(PAST), RunPast, newest=FORMAT, file=folder.join(PAST), remedy=remedy)
