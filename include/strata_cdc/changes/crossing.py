"""Whether rows that contradict the valid version of their table fit the version before or after it, and the sentence
about that.
Not here: which versions these are (`schema/history/neighbours.py`), what is done with the rows (`decode_plans.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.changes.table_map_check import disagreements
from strata_cdc.errors import Crossing
from strata_cdc.schema.model.quadrants import Quadrant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.binlog.events.model import TableMap
    from strata_cdc.schema.history.neighbours import Neighbour


def find_crossing(table_map: TableMap, neighbours: Iterable[Neighbour]) -> tuple[str, Crossing | None]:
    """Which neighbour of the valid version a TABLE_MAP agrees with.

    Args:
        table_map: It contradicts the valid version.
        neighbours: The versions before and after that one, as far as they are known.

    Returns:
        A sentence without a full stop, and the DDL that the rows lie across; None if they fit no neighbour, or if it is
        not known which of both.
    """
    fitting = [near for near in neighbours if not disagreements(near.read_definition(), table_map)]
    if not fitting:
        return "the versions next to it do not fit either", None
    sentence = ", and also ".join(map(_fits, fitting))
    if len(fitting) > 1:
        return f"the TABLE_MAP fits {sentence}: the rows do not show which of them it was", None
    (near,) = fitting
    crossing = Crossing(str(near.kind), str(near.quadrant), near.ddl)
    return f"the rows are {near.quadrant}: their TABLE_MAP fits {sentence}", crossing


def _fits(near: Neighbour) -> str:
    if near.quadrant is Quadrant.OLD_NEW:
        return f"the version before {near.kind} at {near.ddl}, which was {near.made_by}"
    return f"the version after {near.kind} at {near.ddl}"
