"""Statements that are compiled once for all stores of a process. SQLAlchemy compiles each again for each engine, which
was a quarter of the time to open a source.
Not here: engines (`database.py`), which are not shared: a connection must not be used after a fork, belongs to the
file that its path led to, and ends when its engine is disposed of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.util import LRUCache

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

_MOST: Final = 500
"""Statements that are kept; SQLAlchemy keeps as many for each engine."""

_PLAIN: Final = (str, int, tuple, type(None))
_OWN: Final = frozenset({"_bind_typing_render_casts"})
"""An attribute that a dialect sets when it compiles its first statement. If it counted, each dialect would compile for
itself."""


class CompiledStatements(LRUCache[Any, Any]):
    """A `compiled_cache` for SQLAlchemy. SQLAlchemy's keys begin with the dialect, an object of each engine; here two
    dialects are equal if they know the same of their servers."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        """The statement compiled, if it has been."""
        return super().get(_shared(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        """Stores a compiled statement."""
        super().__setitem__(_shared(key), compiled)


COMPILED: Final = CompiledStatements(_MOST)


def _shared(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return _known_to(key[0]), *key[1:]


def _known_to(dialect: Dialect) -> tuple[Any, ...]:
    """What a dialect's SQL depends on: its class, its options, and what it has learnt from its server: the version, SQL
    modes, the driver. Read each time, because it learns with its first connection."""
    known = vars(dialect).items()
    learnt = frozenset((name, value) for name, value in known if name not in _OWN and isinstance(value, _PLAIN))
    return type(dialect), dialect.identifier_preparer.initial_quote, learnt
