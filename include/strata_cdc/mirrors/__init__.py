"""Mirrors: each table as it is on the server, as a Delta table that knows its position (docs/mirrors.md).
Not here: change tables (`tables`), updating mirrors (`mirrors/follow`).

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


def open(  # noqa: A001  like `gzip.open`
    lake: str,
    source: str,
    table: str,
    at: At | None = None,
    *,
    lineage: str = "",
    copied_from: Mapping[str, str] | None = None,
) -> OpenMirror:
    """Opens the mirror of a table: its newest state, or an earlier one.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: `database.table`.
        at: An event token (or its text), a GTID set (or its text), or a time of the commit clock, with a zone. The
            newest state that the mirror still has and that is not after it is opened; `position` is its position.
        lineage: The source's lineage, as in the settings: tokens of another lineage do not compare with the mirror's.
        copied_from: Other sources whose GTIDs this source has by copy, and their lineages: their tokens do compare.

    Raises:
        Usage: There is no such mirror, or its oldest state is after `at`.
        DamagedFileError: The mirror is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    # Imported here: packages that use only this package's name must not load Arrow.
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
    """Every version of every row of a mirrored table, with its time range, as a view for other engines.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        table: `database.table`.
        store: The source's store, or its URL: it has the versions of the table.
        lineage: As for `open`.
        copied_from: As for `open`.

    Raises:
        Usage: There is no such mirror, or no state is left with which its history could begin.
        LostTableError: A part of a change table was deleted, or its log is not complete.
        DamagedFileError: The mirror is not complete.
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The database does not answer.
    """
    # Imported here: as above.
    from strata_cdc.mirrors.histories.history import open_history  # noqa: PLC0415  see above
    from strata_cdc.mirrors.position import Naming  # noqa: PLC0415  see above

    return replace(open_history(lake, source, table, store), naming=Naming(lineage, copied_from or {}))
