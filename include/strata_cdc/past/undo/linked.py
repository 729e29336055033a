"""Keys of rows: those that are keys of one row, one after the other, belong together.
Not here: rows (`conflicts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.past.undo.row_changes import RowKey


class LinkedKeys:
    """Keys in groups; a group is marked as a whole.

    Args:
        keys: The first keys.
    """

    def __init__(self, keys: Iterable[RowKey] = ()) -> None:
        self._keys = set(keys)
        self._parents: dict[RowKey, RowKey] = {}
        self._marked: set[RowKey] = set()

    def add(self, keys: list[RowKey]) -> None:
        """Adds the keys of one change: one, or an old and a new key."""
        self._keys.update(keys)
        for key in keys[1:]:
            one, other = self._root(keys[0]), self._root(key)
            if one != other:
                self._parents[other] = one

    def meets(self, keys: list[RowKey]) -> bool:
        """Whether a change is of a row with one of the keys; the row's new key is one of them from then on."""
        if self._keys.isdisjoint(keys):
            return False
        self._keys.update(keys)
        return True

    def add_marked(self, keys: list[RowKey]) -> None:
        """Adds the keys of one change, and marks their group."""
        self.add(keys)
        self._marked.update(keys[:1])

    @property
    def has_marked(self) -> bool:
        """Whether there is a marked group."""
        return bool(self._marked)

    def marked(self) -> set[RowKey]:
        """All keys of marked groups."""
        roots = {self._root(key) for key in self._marked}
        return {key for key in self._keys if self._root(key) in roots}

    def _root(self, key: RowKey) -> RowKey:
        while key in self._parents:
            key = self._parents[key]
        return key
