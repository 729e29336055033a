"""Arrays of records: what a walk keeps and writes, with the same names in Python and in machine code.
Not here: which records exist (`layout.py`)."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, overload

import numpy as np

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Ints

    _Void = object
else:
    # It is final for the type checkers, although numpy itself derives `np.record` from it.
    _Void = np.void


class Record(_Void):
    """Integers of 64 bits with names; a subclass lists them. An object of it is an element of an array."""

    kind: ClassVar[np.dtype[Any]]
    """The type of an array of records."""

    def __init_subclass__(cls) -> None:
        """Names the fields. `np.record` does this, too, but takes four times as long."""
        for name in cls.__annotations__:
            setattr(cls, name, _field(name))
        # Aligned: else the compiler reads them byte by byte on some processors.
        fields = np.dtype([(name, np.int64) for name in cls.__annotations__], align=True)
        cls.kind = np.dtype((cls, fields))


def _field(name: str) -> property:
    def write(record: Any, value: int) -> None:
        record[name] = value

    return property(itemgetter(name), write)


Kind = TypeVar("Kind", bound=Record)

if TYPE_CHECKING:

    class Records(np.ndarray[tuple[int], np.dtype[np.void]], Generic[Kind]):
        """A one-dimensional array of records of one kind, as in `layout.py`."""

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
    """A new array with the records of both."""
    return cast("Records[Kind]", np.concatenate((first, second)))
