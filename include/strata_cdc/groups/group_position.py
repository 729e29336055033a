"""The positions of all sources of a group, and its tokens: each position is packed once, when its source has moved.
Not here: what tokens mean (`position/token.py`), the form of their text (`position/token_text.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.position.token import Token
from strata_cdc.position.token_packed import PackedSourcePosition, packed_source_position
from strata_cdc.position.token_seal import StepTexts, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.streams.events import StreamTransaction


class GroupPosition(Struct, frozen=True, eq=False):
    """The position of each source of a group, by source, in the order of the names."""

    positions: Mapping[str, SourcePosition]
    packed: Mapping[str, PackedSourcePosition]
    """The same positions, packed."""

    @classmethod
    def from_positions(cls, positions: Iterable[SourcePosition] = ()) -> Self:
        """Makes it from a position for each source that has one."""
        ordered = {position.source: position for position in sorted(positions, key=lambda position: position.source)}
        return cls(ordered, {source: packed_source_position(position) for source, position in ordered.items()})

    def moved(self, position: SourcePosition) -> GroupPosition:
        """Returns it with one source at another position."""
        positions = {**self.positions, position.source: position}
        packed = {**self.packed, position.source: packed_source_position(position)}
        if position.source in self.positions:
            # A key that exists keeps its place in the order.
            return GroupPosition(positions, packed)
        return GroupPosition(dict(sorted(positions.items())), dict(sorted(packed.items())))

    @property
    def token(self) -> Token:
        """The positions as a token."""
        return Token(tuple(self.positions.values()))

    @property
    def text(self) -> str:
        """The text of the token."""
        return text_of(self.packed.values())

    def inside(self, position: SourcePosition) -> StepTexts:
        """Returns the texts of the steps inside a transaction of one source; the other sources stay where they are."""
        if position.source not in self.positions:
            return self.moved(position).inside(position)
        packed = {**self.packed, position.source: packed_source_position(position)}
        return StepTexts(tuple(packed.values()), list(packed).index(position.source))


def inside_of(transaction: StreamTransaction, steps: int) -> SourcePosition:
    """Returns the position of a source when `steps` steps of a transaction have been yielded."""
    [part] = transaction.inside.parts
    return replace(transaction.inside, parts=(replace(part, steps=steps),))
