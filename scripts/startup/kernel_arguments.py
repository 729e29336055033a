"""How a kernel's arguments become words of a C function, and arrays again inside of it.
Not here: compiling and linking (`link_kernels.py`)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

from strata_cdc.binlog.kernels import layout
from strata_cdc.binlog.kernels.records import Record

_ARRAYS: dict[str, tuple[tuple[str, ...], int]] = {
    "Bytes": (("uint8",), 1),
    "Flags": (("uint16",), 1),
    "Shorts": (("int16",), 1),
    "Ints": (("int64",), 1),
    "CodePoints": (("int32",), 1),
    "Offsets": (("int32",), 1),
    "Slots": (("int32",), 1),
    "Days": (("int32",), 1),
    "Cells": (("uint32",), 1),
    "Integers": (("int8", "int16", "int32", "int64"), 1),
    "ByteRows": (("uint8",), 2),
    "CrcRows": (("uint32",), 2),
    "IntRows": (("int64",), 2),
    "WordRows": (("uint64",), 2),
    "IntBlocks": (("int64",), 3),
}
"""What the names of `binlog/kernels/arrays.py` mean: kinds of elements, and dimensions."""

RECORDS = tuple(kind.__name__ for kind in Record.__subclasses__())
"""Records of `binlog/kernels/layout.py`, whose types have their names in the generated text."""


class Argument(Protocol):
    """One argument; `at` is its name in the generated text."""

    def names(self, at: str) -> list[str]:
        """Its words in the C function."""

    def c_types(self) -> list[str]:
        """Their types."""

    def rebuilt(self, at: str) -> str:
        """The argument in the kernel's form, from those words."""

    def handed(self, at: str) -> list[str]:
        """The words, in Python."""

    def fits(self, at: str) -> list[str]:
        """Conditions, in Python, under which they may be passed."""


@dataclass(frozen=True)
class Array:
    """A pointer and its lengths."""

    kind: str
    dimensions: int

    def names(self, at: str) -> list[str]:
        """As `Argument`."""
        return [at, *(f"{at}_{k}" for k in range(self.dimensions))]

    def c_types(self) -> list[str]:
        """As `Argument`."""
        return ["char *", *["int64_t"] * self.dimensions]

    def rebuilt(self, at: str) -> str:
        """As `Argument`."""
        lengths = "".join(f"{name}, " for name in self.names(at)[1:])
        return f"carray({at}, ({lengths}), {self.kind})"

    def handed(self, at: str) -> list[str]:
        """As `Argument`."""
        lengths = [f"len({at})"] if self.dimensions == 1 else [f"{at}.shape[{k}]" for k in range(self.dimensions)]
        return [f"memory({at})", *lengths]

    def fits(self, at: str) -> list[str]:
        """As `Argument`."""
        same = "==" if self.kind in RECORDS else "is"
        return [f"{at}.dtype {same} {self.kind}", f"{at}.ndim == {self.dimensions}"]


@dataclass(frozen=True)
class Number:
    """A 64-bit integer; the call refuses anything else."""

    def names(self, at: str) -> list[str]:
        """As `Argument`."""
        return [at]

    def c_types(self) -> list[str]:
        """As `Argument`."""
        return ["int64_t"]

    def rebuilt(self, at: str) -> str:
        """As `Argument`."""
        return at

    def handed(self, at: str) -> list[str]:
        """As `Argument`."""
        return [at]

    def fits(self, at: str) -> list[str]:  # noqa: ARG002 - as above
        """As `Argument`."""
        return []


@dataclass(frozen=True)
class ArgumentGroup:
    """A tuple of other arguments; `constructor` is the class of a named tuple."""

    parts: tuple[Argument, ...]
    constructor: str = ""

    def names(self, at: str) -> list[str]:
        """As `Argument`."""
        return [name for k, part in enumerate(self.parts) for name in part.names(f"{at}_{k}of")]

    def c_types(self) -> list[str]:
        """As `Argument`."""
        return [kind for part in self.parts for kind in part.c_types()]

    def rebuilt(self, at: str) -> str:
        """As `Argument`."""
        parts = [part.rebuilt(f"{at}_{k}of") for k, part in enumerate(self.parts)]
        return f"{self.constructor}({''.join(f'{part}, ' for part in parts)})"

    def handed(self, at: str) -> list[str]:
        """As `Argument`."""
        return [word for k, part in enumerate(self.parts) for word in part.handed(f"{at}[{k}]")]

    def fits(self, at: str) -> list[str]:
        """As `Argument`."""
        return [condition for k, part in enumerate(self.parts) for condition in part.fits(f"{at}[{k}]")]


def read_annotation(text: str) -> list[Argument]:
    """The arguments for an annotation: several if it leaves the type of an array's elements open.

    Raises:
        KeyError: It is not one of the names in `binlog/kernels/arrays.py`, nor of the groups in `layout.py`.
    """
    if text == "Int":
        return [Number()]
    if text in _ARRAYS:
        kinds, dimensions = _ARRAYS[text]
        return [Array(kind, dimensions) for kind in kinds]
    if text.startswith("Records["):
        return [Array(text.removeprefix("Records[").removesuffix("]"), 1)]
    if text.startswith("tuple["):
        return _groups(text.removeprefix("tuple[").removesuffix("]").split(", "), "")
    fields = vars(layout)[text].__annotations__.values()
    return _groups([getattr(field, "__forward_arg__", field) for field in fields], text)


def _groups(texts: list[str], constructor: str) -> list[Argument]:
    return [ArgumentGroup(parts, constructor) for parts in itertools.product(*map(read_annotation, texts))]
