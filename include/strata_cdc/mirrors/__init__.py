"""Mirrors: every table as it is on the server, as a Delta table that says its position (docs/mirrors.md).
Not here: change tables (`tables`), bringing mirrors up to date (`mirrors/follow`).

    mirror = strata_cdc.mirrors.open("/data/lake", "shop", "shop.orders")
    mirror.position            # an event token
    mirror.to_arrow()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa

    from strata_cdc.mirrors.histories.history import MirrorHistory
    from strata_cdc.mirrors.opened import At, OpenMirror


def open(  # noqa: A001  as `gzip.open`
    lake: str,
    source: str,
    table: str,
    at: At | None = None,
    *,
    lineage: str = "",
    copied_from: Mapping[str, str] | None = None,
) -> OpenMirror:
    """The mirror of a table as it is, or as it was.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: `database.table`.
        at: An event token (or its text), a GTID set (or its text), or a time of the commit clock, with a zone: the
            newest state that the mirror still has and that is not behind it. `position` of what is opened says which.
        lineage: Of the source, as the settings have it: tokens of another one do not compare with the mirror's.
        copied_from: Other sources whose GTIDs it has by copy, and their lineages: their tokens do.

    Raises:
        Usage: There is no such mirror, or it does not reach back so far.
        DamagedFileError: It is not whole.
        LakeUnavailableError: The storage does not answer.
    """
    # Imported here: rooms that only name this one must not load Arrow.
    from strata_cdc.mirrors.opened import open_mirror  # noqa: PLC0415  see above
    from strata_cdc.mirrors.position import Naming  # noqa: PLC0415  see above

    return open_mirror(lake, source, table, at, Naming(lineage, copied_from or {}))


def history(
    lake: str,
    source: str,
    table: str,
    store: sa.Engine | str,
    *,
    lineage: str = "",
    copied_from: Mapping[str, str] | None = None,
) -> MirrorHistory:
    """Every version of every row of a mirrored table, with the span in which it held, as a view for other engines.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: `database.table`.
        store: The source's store, or its URL: it has the versions of the table.
        lineage: As for `open`.
        copied_from: As for `open`.

    Raises:
        Usage: There is no such mirror, or no state of it is left that its history could begin with.
        LostTableError: Of a change table something was deleted, or its log is not whole.
        DamagedFileError: The mirror is not whole.
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The database does not answer.
    """
    # Imported here: as above.
    from strata_cdc.mirrors.histories.history import open_history  # noqa: PLC0415  see above
    from strata_cdc.mirrors.position import Naming  # noqa: PLC0415  see above

    return replace(open_history(lake, source, table, store), naming=Naming(lineage, copied_from or {}))
