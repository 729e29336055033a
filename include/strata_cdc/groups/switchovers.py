"""Switchovers (in journals and options: hops): new sources take over from old sources, at positions that a journal or
two tokens name (resharding, and back).
Not here: following them in a stream (`membership.py`), the merge (`merge.py`), copies (`copy_filter.py`).

A journal is a file of JSON:

    {"format": 2, "hops": [{"name": "split", "from": {"shard_a": "GTID SET"}, "to": {"shard_a1": "GTID SET", ...}}]}

Nothing of an old source is wanted after its position in `from`, and nothing of a new source before its position in
`to`. If a new source has GTIDs of an old source (filtered replication copied them), these transactions came from the
old source, and do not come again.

Positions that are no longer known are null. Then the old sources are read as far as they have landed. The new sources
are read from the smallest time that the old sources reached, minus the possible difference of the clocks. What may
come twice then is marked as a possible duplicate.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta, Struct

from strata_cdc.clock import to_micros
from strata_cdc.errors import InvalidGtidSetError, SettingsError, Usage
from strata_cdc.position.executed import NOTHING, is_executed, parse_executed
from strata_cdc.position.token_text import from_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.position.port import Executed
    from strata_cdc.streams.positions import Mask

FORMAT: Final = 2
"""Number of the journal's format; journals of all older formats can still be read. In format 1 each source had a
position."""

_Name = Annotated[str, Meta(min_length=1)]
_Positions = Annotated[dict[_Name, str | None], Meta(min_length=1)]


class Switchover(Struct, frozen=True):
    """A switchover: new sources take over from old sources."""

    name: str
    old: Mapping[str, Executed | None]
    """What each source had executed when the group left it; None: what has landed of it."""
    new: Mapping[str, Executed | None]
    """What each source had executed when it took over; None: it begins at a time (`Clocks.earliest`)."""
    copied_until: int | None = None
    """Nothing was copied from the old sources after this time of the group (microseconds UTC); None: not known."""

    @property
    def copied(self) -> Executed:
        """Transactions that came from the old sources, as far as the switchover names them."""
        return reduce(or_, (executed for executed in self.old.values() if executed is not None), NOTHING)

    @property
    def is_by_time(self) -> bool:
        """Whether the new sources begin at a time, so that some transactions may come twice."""
        return None in self.new.values()

    def may_be_copies(self, committed_at: Ints, copied_until: int | None) -> Mask:
        """Returns which transactions of a new source may be copies of what came from an old source, as far as their
        times show.

        Args:
            committed_at: Commit times by the new source's own clock, microseconds UTC.
            copied_until: Nothing was copied from this time on, by the same clock; None: not known.
        """
        if self.is_by_time and copied_until is not None:
            return committed_at < copied_until
        return np.full(len(committed_at), self.is_by_time)


def switchover_between(old: str, new: str, name: str) -> Switchover:
    """Makes the switchover between two tokens that the user has.

    Args:
        old: Token of the positions at which the group left the old sources.
        new: Token of the positions at which the new sources took over.
        name: Name of the switchover.

    Raises:
        InvalidTokenError: One of the texts is not a token.
        Usage: A position is inside a transaction, or of a source without GTIDs.
    """
    return Switchover(name, _positions(old), _positions(new))


def switchovers_by_hand(pairs: Iterable[str]) -> list[Switchover]:
    """Makes the switchovers between tokens that the user wrote as `FROM,TO`. Raises the same errors as
    `switchover_between`."""
    switchovers = []
    for number, pair in enumerate(pairs, start=1):
        old, comma, new = pair.partition(",")
        if not comma:
            raise Usage("a hop is between two tokens", remedy="Write it as --hop FROM,TO.")
        switchovers.append(switchover_between(old, new, f"by hand {number}"))
    return switchovers


def _positions(token: str) -> dict[str, Executed]:
    positions = {}
    for position in from_text(token).positions:
        if not is_executed(position.position) or position.parts:
            raise Usage(
                "a hop is between transactions of sources that have GTIDs",
                source=position.source,
                remedy="Take a token from a line with `commit`.",
            )
        positions[position.source] = position.position
    return positions


class _StoredSwitchover(Struct, forbid_unknown_fields=True):
    name: _Name
    old: _Positions = msgspec.field(name="from")
    new: _Positions = msgspec.field(name="to")
    copied_until: datetime | None = None


class _Journal(Struct, forbid_unknown_fields=True):
    format: int
    switchovers: list[_StoredSwitchover] = msgspec.field(name="hops", default_factory=list)


def read_journal(path: str) -> list[Switchover]:
    """Reads the switchovers of a journal, in their order. If the same switchover is written twice, it counts once.

    Raises:
        SettingsError: The journal cannot be read, or contradicts itself.
    """
    try:
        journal = msgspec.json.decode(Path(path).read_bytes(), type=_Journal)
    except OSError as error:
        raise _wrong(f"the journal cannot be read: {error.strerror}", path) from None
    except msgspec.DecodeError as error:
        raise _wrong(f"the journal is not what it should be: {error}", path) from None
    if journal.format > FORMAT:
        raise SettingsError(
            f"the journal has format {journal.format}", file=path, remedy="Use a newer version of Strata."
        )
    return once([_read(stored, path) for stored in journal.switchovers], path)


def once(switchovers: Iterable[Switchover], path: str | None = None) -> list[Switchover]:
    """Returns each switchover once, in order.

    Raises:
        SettingsError: Two switchovers with the same name are different, or a source takes over twice.
    """
    known: dict[str, Switchover] = {}
    for switchover in switchovers:
        if known.setdefault(switchover.name, switchover) != switchover:
            raise _wrong(f"the journal has two hops {switchover.name!r} that are different", path)
    _check(list(known.values()), path)
    return list(known.values())


def check_names(
    switchovers: Sequence[Switchover], current: Collection[str], known: Collection[str], path: str | None
) -> None:
    """Checks switchovers against the sources that there are.

    Args:
        switchovers: The switchovers, in order.
        current: Sources of the group.
        known: All sources of the settings.
        path: Path of the journal.

    Raises:
        SettingsError: A source is not known, or the switchovers do not lead to the group's sources.
    """
    for switchover in switchovers:
        unknown = sorted({*switchover.old, *switchover.new} - set(known))
        if unknown:
            raise _wrong(
                f"the hop {switchover.name!r} names {', '.join(unknown)}, which the settings do not have "
                "as a server outside of other groups",
                path,
            )
    old = {source for switchover in switchovers for source in switchover.old}
    new = {source for switchover in switchovers for source in switchover.new}
    missing = new - old - set(current)
    if missing:
        raise _wrong(f"a hop leads to {', '.join(sorted(missing))}, which the group does not have", path)
    gone = old & set(current)
    if gone:
        raise _wrong(f"a hop leaves {', '.join(sorted(gone))}, which the group still has", path)


def _check(switchovers: Sequence[Switchover], path: str | None) -> None:
    left: set[str] = set()
    entered: set[str] = set()
    for switchover in switchovers:
        _check_positions(switchover, path)
        twice = sorted(
            (switchover.old.keys() & left)
            | (switchover.new.keys() & (entered | left))
            | (switchover.old.keys() & switchover.new.keys())
        )
        if twice:
            raise _wrong(
                f"the hop {switchover.name!r} leaves or enters {', '.join(twice)} once more: a server that comes back "
                "needs another name as a source",
                path,
            )
        left |= switchover.old.keys()
        entered |= switchover.new.keys()


def _check_positions(switchover: Switchover, path: str | None) -> None:
    for side, positions in (("from", switchover.old), ("to", switchover.new)):
        if len({position is None for position in positions.values()}) > 1:
            raise _wrong(f"the hop {switchover.name!r} has positions of some sources in {side!r} and not of all", path)
    if None in switchover.old.values() and not switchover.is_by_time:
        raise _wrong(
            f"the hop {switchover.name!r} says where the new sources begin and not where the old ones end: what is "
            "between would be lost",
            path,
        )
    if switchover.copied_until is not None and not switchover.is_by_time:
        raise _wrong(f"the hop {switchover.name!r} has positions, so that copied_until says nothing", path)


def _read(stored: _StoredSwitchover, path: str) -> Switchover:
    try:
        old, new = _parsed(stored.old), _parsed(stored.new)
    except InvalidGtidSetError as error:
        raise _wrong(f"the hop {stored.name!r} has a position that is none: {error.message}", path) from None
    time = stored.copied_until
    if time is not None and time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return Switchover(stored.name, old, new, None if time is None else to_micros(time))


def _parsed(positions: Mapping[str, str | None]) -> dict[str, Executed | None]:
    return {source: None if text is None else parse_executed(text) for source, text in positions.items()}


def _wrong(what: str, path: str | None) -> SettingsError:
    return SettingsError(what, file=path, remedy="docs/groups.md shows a journal.")
