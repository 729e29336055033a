"""The position up to which mirrors are known to equal their tables, if nothing has changed since the last commit.
Not here: the positions of commits (`position.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.files.storage import read_file, write_file
from strata_cdc.files.stored import decode_stored
from strata_cdc.mirrors.layout import mirrors_url
from strata_cdc.mirrors.position import MirrorPosition  # noqa: TC001  msgspec needs it to read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.mirrors.table import Mirror

FORMAT: Final = 1
_NAME: Final = "confirmed.json"


class ConfirmedPosition(Struct, frozen=True):
    """At one commit, a mirror equals its table up to this position, which is later than the commit's position."""

    delta_version: int
    identity: str
    position: MirrorPosition


class _StoredPositions(Struct, frozen=True):
    tables: dict[str, ConfirmedPosition]
    format: int = FORMAT


def confirm(lake: str, source: str, confirmations: Mapping[str, ConfirmedPosition]) -> None:
    """Stores the positions. Those of other mirrors stay, and a position never gets earlier.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    if not confirmations:
        return
    known = _read(lake, source)
    merged = dict(known)
    for table, confirmed in confirmations.items():
        before = known.get(table)
        if before is None or before.identity != confirmed.identity or before.position.seq < confirmed.position.seq:
            merged[table] = confirmed
    if merged != known:
        write_file(f"{mirrors_url(lake, source)}/{_NAME}", msgspec.json.encode(_StoredPositions(merged)))


def position_now(lake: str, mirror: Mirror) -> MirrorPosition:
    """The position up to which a mirror, in its current state, equals its table."""
    confirmed = _read(lake, mirror.source).get(str(mirror.table))
    if confirmed is None or (confirmed.delta_version, confirmed.identity) != (mirror.snapshot.version, mirror.identity):
        return mirror.position
    return confirmed.position if confirmed.position.seq > mirror.position.seq else mirror.position


def _read(lake: str, source: str) -> dict[str, ConfirmedPosition]:
    url = f"{mirrors_url(lake, source)}/{_NAME}"
    content = read_file(url)
    if content is None:
        return {}
    remedy = "Delete the file: the next update of the mirrors writes it anew."
    return decode_stored(content, _StoredPositions, newest=FORMAT, file=url, remedy=remedy).tables
