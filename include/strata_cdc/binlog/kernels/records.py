"""Arrays of records: what a walk keeps and writes, by name in Python and in machine code alike.
Not here: which records there are (`layout.py`)."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, overload

import numpy as np

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Ints

    _Void = object
else:
    # Final to the checkers; numpy itself has `np.record` below it.
    _Void = np.void


class Record(_Void):
    """Integers of 64 bits, each by its name; a subclass lists them. An object of it is a place in an array."""

    kind: ClassVar[np.dtype[Any]]
    """The type of an array of them."""

    def __init_subclass__(cls) -> None:
        """Names the fields. `np.record` does it, too, in four times the time."""
        for name in cls.__annotations__:
            setattr(cls, name, _field(name))
        # Aligned, or the compiler reads them byte by byte where a processor wants it so.
        fields = np.dtype([(name, np.int64) for name in cls.__annotations__], align=True)
        cls.kind = np.dtype((cls, fields))


def _field(name: str) -> property:
    def write(record: Any, value: int) -> None:
        record[name] = value

    return property(itemgetter(name), write)


Kind = TypeVar("Kind", bound=Record)

if TYPE_CHECKING:

    class Records(np.ndarray[tuple[int], np.dtype[np.void]], Generic[Kind]):
        """One dimension of records of a kind that `layout.py` has."""

        @overload  # type: ignore[override]
        def __getitem__(self, at: int) -> Kind: ...
        @overload
        def __getitem__(self, at: slice) -> Records[Kind]: ...
        @overload
        def __getitem__(self, at: str) -> Ints: ...
        def __getitem__(self, at: Any) -> Any: ...


def records(kind: type[Kind], count: int) -> Records[Kind]:
    """An array of records that are all 0."""
    return cast("Records[Kind]", np.zeros(count, kind.kind))


def joined(first: Records[Kind], second: Records[Kind]) -> Records[Kind]:
    """A new array of both."""
    return cast("Records[Kind]", np.concatenate((first, second)))
