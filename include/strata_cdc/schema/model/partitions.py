"""Partitions whose rows can be determined from values: RANGE and LIST, with or without COLUMNS.
Not here: reading them from statements (`schema/ddl/partitions.py`), which partitions a table has at which time
(`schema/history/partition_lifetimes.py`), rows (`tables/partition_rows.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.schema.model.folding import fold_name

BorderValue = int | str | None
"""A literal: a number, a text, or NULL."""
NULL_STAYS: Final = "no list has NULL any more, and the server may keep such rows in any partition"
"""With LIST of an expression, MySQL 9.7 and MariaDB 11.8 keep them; with LIST COLUMNS they drop them."""


class Function(StrEnum):
    """The function that a partitioning expression applies to its column."""

    ITSELF = ""
    YEAR = "YEAR"
    TO_DAYS = "TO_DAYS"
    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"


class Partition(Struct, frozen=True):
    """One partition."""

    name: str
    below: tuple[BorderValue, ...] = ()
    """RANGE: all rows are below this, column by column; NULL stands for MAXVALUE."""
    values: tuple[tuple[BorderValue, ...], ...] = ()
    """LIST: the values of its rows, including NULL if NULL is written."""


class Partitioning(Struct, frozen=True):
    """All partitions of a table, those of RANGE in order."""

    is_range: bool
    columns: tuple[str, ...]
    function: Function
    partitions: tuple[Partition, ...]

    def names(self, wanted: tuple[str, ...]) -> bool:
        """Whether it has partitions with all of these names."""
        return {fold_name(name) for name in wanted} <= {fold_name(partition.name) for partition in self.partitions}

    def around(self, names: tuple[str, ...]) -> Partitioning:
        """The part of it that is needed to determine the rows of some partitions: these, and for RANGE the one below
        each."""
        wanted = {fold_name(name) for name in names}
        ordinals = {at for at, partition in enumerate(self.partitions) if fold_name(partition.name) in wanted}
        if self.is_range:
            ordinals |= {at - 1 for at in ordinals}
        return replace(
            self, partitions=tuple(partition for at, partition in enumerate(self.partitions) if at in ordinals)
        )

    def with_added(self, added: tuple[Partition, ...]) -> Partitioning:
        """With these partitions after the last one."""
        return replace(self, partitions=self.partitions + added)

    def without(self, names: tuple[str, ...]) -> Partitioning:
        """Without some partitions. For RANGE, their ranges belong to the next partition from now on."""
        gone = {fold_name(name) for name in names}
        return replace(
            self, partitions=tuple(partition for partition in self.partitions if fold_name(partition.name) not in gone)
        )

    def reorganized(self, names: tuple[str, ...], into: tuple[Partition, ...]) -> Partitioning:
        """With some adjacent partitions replaced by others."""
        gone = {fold_name(name) for name in names}
        first = next(at for at, partition in enumerate(self.partitions) if fold_name(partition.name) in gone)
        left = self.without(names).partitions
        return replace(self, partitions=(*left[:first], *into, *left[first:]))

    def unlisted(self, names: tuple[str, ...], into: tuple[Partition, ...]) -> Partitioning | str:
        """What partitions by LIST lose if others replace them: only the values that are in no list any more.

        Args:
            names: The partitions that are replaced.
            into: Those that replace them.

        Returns:
            The partitions that lose values, with these values; a text says why they are not known.
        """
        if not self.names(names):
            return f"it had no partition {', '.join(names)} that is known"
        gone = {fold_name(name) for name in names}
        replaced = [partition for partition in self.partitions if fold_name(partition.name) in gone]
        old = {value for partition in replaced for value in partition.values}
        new = {value for partition in into for value in partition.values}
        lost, added = old - new, new - old
        if (None,) in lost:
            return NULL_STAYS
        if lost and added and any(isinstance(value, str) for values in (*lost, *added) for value in values):
            return "only the server knows which of the new values equal which of the old ones"
        parts = (
            replace(partition, values=tuple(value for value in partition.values if value in lost))
            for partition in replaced
        )
        return replace(self, partitions=tuple(part for part in parts if part.values))


class HeldRows(Struct, frozen=True):
    """The rows of some partitions of a table."""

    partitioning: Partitioning
    names: tuple[str, ...]
