"""Where all sources of a group are, and the tokens of it: each place is packed once, when its source has moved.
Not here: what tokens mean (`position/token.py`), the form of their text (`position/token_text.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from msgspec.structs import replace

from strata_cdc.position.source_position import PartialTransaction, SourcePosition
from strata_cdc.position.token import Token
from strata_cdc.position.token_packed import PackedPlace, packed_place
from strata_cdc.position.token_seal import StepTexts, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.streams.events import TransactionPlace


class GroupPosition:
    """Where each source of a group is; a value."""

    __slots__ = ("_places", "packed")

    def __init__(self, places: Mapping[str, SourcePosition], packed: Mapping[str, PackedPlace]) -> None:
        """Takes places by source, in the order of the names, and the same packed."""
        self._places = places
        self.packed = packed
        """By source, in the order of the names."""

    @classmethod
    def of(cls, places: Iterable[SourcePosition] = ()) -> Self:
        """Takes a place for each source that is somewhere."""
        ordered = {place.source: place for place in sorted(places, key=lambda place: place.source)}
        return cls(ordered, {source: packed_place(place) for source, place in ordered.items()})

    def moved(self, place: SourcePosition) -> GroupPosition:
        """The same with one source at another place."""
        if place.source not in self._places:
            return GroupPosition.of((*self._places.values(), place))
        # A key that is there keeps its place in the order.
        return GroupPosition(
            {**self._places, place.source: place}, {**self.packed, place.source: self._repacked(place)}
        )

    def _repacked(self, place: SourcePosition) -> PackedPlace:
        """A source's place packed, as far as it is another one than it was."""
        known = self._places[place.source]
        stands = known.position == place.position
        return packed_place(place, self.packed[place.source] if known.lineage == place.lineage else None, stands=stands)

    @property
    def places(self) -> Mapping[str, SourcePosition]:
        """By source."""
        return self._places

    @property
    def token(self) -> Token:
        """As a token."""
        return Token(tuple(self._places.values()))

    @property
    def text(self) -> str:
        """As the text of a token."""
        return text_of(self.packed.values())

    def inside(self, place: SourcePosition) -> StepTexts:
        """The texts of the steps inside of a transaction of one source, while the others are where they are."""
        if place.source not in self._places:
            return self.moved(place).inside(place)
        packed = {**self.packed, place.source: self._repacked(place)}
        return StepTexts(tuple(packed.values()), list(packed).index(place.source))


NOWHERE: Final = GroupPosition({}, {})
"""Where no source is."""


def inside_of(transaction: TransactionPlace, steps: int) -> SourcePosition:
    """Where a source is when so many steps of a transaction have been given."""
    record = transaction.record
    if record.gtid is None:
        raise RuntimeError("a stream by GTID set has a transaction without one")
    return replace(
        transaction.before, committed_at=record.committed_at, parts=(PartialTransaction(record.gtid, steps),)
    )
