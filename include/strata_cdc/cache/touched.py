"""What the changes of a stream touch: keys, by the columns of rows before and after; whole shapes, if the columns are
not known.
Not here: the stream, the cache (`invalidator.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from strata_cdc.cache.keys import key_texts
from strata_cdc.cache.shapes import ANY_KINDS, entry_key, tables_by_name
from strata_cdc.position.executed import ExecutedBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.cache.shapes import Shape, Shapes
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Gtid
    from strata_cdc.streams.events import Ddl, RowChange, UnreadableChange

MOST_KEYS: Final = 2000
"""Of one shape in one transaction; more of them, and the shape goes as a whole: a script holds the server up."""


class TouchedEntries(Struct):
    """What one transaction touches."""

    keys: dict[str, set[str]] = field(default_factory=dict)
    """By shape, texts of keys."""
    whole: set[str] = field(default_factory=set)
    """Shapes."""

    def settle(self) -> None:
        """Leaves keys out that a whole shape has."""
        self.whole |= {name for name, keys in self.keys.items() if len(keys) > MOST_KEYS}
        self.keys = {name: keys for name, keys in self.keys.items() if keys and name not in self.whole}


class Toucher:
    """Knows the shapes of a cache, and of which kinds their keys are just now."""

    def __init__(self, shapes: Shapes) -> None:
        """No shape is served yet: all that touches one touches the whole of it."""
        self._tables = tables_by_name(shapes)
        self.kinds: dict[str, str | None] = {}

    def ddl(self, event: Ddl, touched: TouchedEntries) -> bool:
        """A statement that names or changes tables; returns whether a shape uses them."""
        names = {shape.name for table in event.tables for shape, _ in self._tables.get(table.lower(), ())}
        touched.whole |= names
        return bool(names)

    def row(self, event: RowChange, touched: TouchedEntries) -> None:
        """A row before and after."""
        for shape, columns in self._tables.get(f"{event.database}.{event.table}".lower(), ()):
            if shape.name in touched.whole:
                continue
            keys = self._keys(shape, columns, _images(event))
            if keys is None:
                touched.whole.add(shape.name)
            else:
                touched.keys.setdefault(shape.name, set()).update(keys)
                if len(touched.keys[shape.name]) > MOST_KEYS:
                    touched.whole.add(shape.name)

    def unreadable(self, event: UnreadableChange, touched: TouchedEntries) -> None:
        """A row that touches something that is not known."""
        touched.whole |= {shape.name for shape, _ in self._tables.get(f"{event.database}.{event.table}".lower(), ())}

    def _keys(self, shape: Shape, columns: tuple[str, ...], images: Iterable[dict[str, Any]]) -> set[str] | None:
        """None if the images do not have them: MINIMAL images lack columns."""
        kinds = self.kinds.get(shape.name)
        if not columns or kinds is None or kinds == ANY_KINDS:
            return None
        keys: set[str] = set()
        for image in images:
            values = _values(image, columns)
            if values is None:
                return None
            # No query by equality finds NULL.
            if None not in values:
                try:
                    keys.update(key_texts(values, kinds))
                except ValueError:
                    # The row touches something that is not known.
                    return None
        return keys


def _images(event: RowChange) -> list[dict[str, Any]]:
    """The row before and after. What the image after lacks has not changed (`binlog_row_image`)."""
    if event.before is None or event.after is None:
        return [image for image in (event.before, event.after) if image is not None]
    return [event.before, {**event.before, **event.after}]


def _values(image: dict[str, Any], columns: tuple[str, ...]) -> list[Any] | None:
    lower = image if all(name in image for name in columns) else {name.lower(): value for name, value in image.items()}
    names = columns if lower is image else tuple(name.lower() for name in columns)
    return [lower[name] for name in names] if all(name in lower for name in names) else None


class InvalidationBatch:
    """Whole transactions that go to the cache in one step."""

    def __init__(self, state_key: str, reached: Executed | None = None) -> None:
        """Empty.

        Args:
            state_key: Of the cache.
            reached: Where the one before it ended; None for the first one. What the stream has passed
                over from there to its first transaction touches nothing, and is invalidated with it.
        """
        self._state_key = state_key
        self.before = reached
        """What lies before it."""
        self.after: Executed | None = None
        """What has been invalidated with it."""
        self.whole: set[str] = set()
        self._entries: dict[str, ExecutedBuilder] = {}
        self.transactions = 0

    def add(self, before: Executed, after: Executed, gtid: Gtid, touched: TouchedEntries) -> None:
        """Takes a transaction."""
        touched.settle()
        self.stand_at(before, after)
        self.whole |= touched.whole
        self.transactions += 1
        for shape, keys in touched.keys.items():
            for key in keys:
                self._entries.setdefault(entry_key(self._state_key, shape, key), ExecutedBuilder()).add(gtid)

    def stand_at(self, before: Executed, after: Executed) -> None:
        """Adds a range of the stream in which nothing is touched."""
        if self.before is None:
            self.before = before
        self.after = after

    @property
    def is_full(self) -> bool:
        """Whether it goes to the cache before more is taken."""
        return len(self._entries) >= MOST_KEYS

    def entries(self) -> Iterator[tuple[str, str]]:
        """Keys of entries, each with the GTIDs that have changed it."""
        texts: dict[Executed, str] = {}
        for key, gtids in self._entries.items():
            built = gtids.build()
            yield key, texts.setdefault(built, str(built))
