"""The beginning of a table's history under a former name: a RENAME makes a new mirror from the rows of the old one.
Not here: beginnings of one mirror (`beginning.py`), the changes under each name (`history.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.mirrors.histories.beginning import Beginning, beginning_of
from strata_cdc.mirrors.rows_from import RowsFrom

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.tables.lifetimes import TableLifetime

    FormerMirror = Callable[[TableName, int], Mirror | None]
    """The mirror of a name before a transaction; None if there is none, or if its rows are not known to be right."""


def earliest(beginning: Beginning, lifetime: TableLifetime, former: FormerMirror) -> Beginning:
    """The earliest beginning of a table's history, under the first of its names for which there is one.

    Args:
        beginning: Of the mirror of its name now.
        lifetime: The table's lifetime.
        former: Opens mirrors of former names.

    Raises:
        DamagedFileError: The log of a mirror is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    while True:
        before = _before_rename(beginning, lifetime, former)
        if before is None:
            return beginning
        beginning = Beginning(before.mirror, {**before.emptied_at, **beginning.emptied_at})


def _before_rename(beginning: Beginning, lifetime: TableLifetime, former: FormerMirror) -> Beginning | None:
    """The beginning of the mirror from which a RENAME made this one; None if none did, or if it is not there."""
    position = beginning.mirror.position
    versions = [span.version_id for span in lifetime.spans]
    at = versions.index(position.schema_version) if position.schema_version in versions else 0
    span = lifetime.spans[at]
    is_renamed = at > 0 and lifetime.spans[at - 1].name != span.name and position.seq == span.begins
    if not is_renamed or beginning.mirror.rows_from is not RowsFrom.MIRROR:
        return None
    mirror = former(lifetime.spans[at - 1].name, span.begins)
    # The name may have been another table's.
    if mirror is None or mirror.position.schema_version not in versions[:at]:
        return None
    before = beginning_of(mirror)
    if before is None or before.mirror.position.schema_version not in versions[:at]:
        return None
    return before
