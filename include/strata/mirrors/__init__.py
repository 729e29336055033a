"""Mirrors: every table as it is on the server, as a Delta table that says its position (docs/mirrors.md).
Not here: change tables (`strata/tables`), bringing mirrors up to date (`strata/jobs/mirror`).

    mirror = strata.mirrors.open("/data/lake", "shop", "shop.orders")
    mirror.position            # an event token
    mirror.to_arrow()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strata.mirrors.opened import At, OpenMirror


def open(lake: str, source: str, table: str, at: At | None = None) -> OpenMirror:  # noqa: A001  as `gzip.open`
    """The mirror of a table as it is, or as it was.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: `database.table`.
        at: An event token (or its text), a GTID set (or its text), or a time of the commit clock, with a zone: the
            newest state that the mirror still has and that is not behind it. `position` of what is opened says which.

    Raises:
        Usage: There is no such mirror, or it does not reach back so far.
        DamagedFileError: It is not whole.
        LakeUnavailableError: The storage does not answer.
    """
    # Imported here: rooms that only name this one must not load Arrow.
    from strata.mirrors.opened import open_mirror  # noqa: PLC0415  see above

    return open_mirror(lake, source, table, at)
