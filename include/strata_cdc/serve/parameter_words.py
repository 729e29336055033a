"""What is wrong with the parameters of an address, in words.
Not here: what an answer does with it (`app.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request  # noqa: TC002  FastAPI looks at the types of a dependency's parameters

from strata_cdc.counted import counted
from strata_cdc.errors import Usage, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHOWN: Final = 40
_LISTS: Final = frozenset({"key"})
"""Parameters with several values."""
_WORDS: Final = {
    "int_parsing": "is no whole number",
    "int_parsing_size": "is too large a number",
    "int_from_float": "is no whole number",
    "float_parsing": "is no number",
    "finite_number": "is no finite number",
    "bool_parsing": "is neither true nor false",
    "greater_than": "is not greater than {gt}",
    "greater_than_equal": "is less than {ge}, the least that there is",
    "less_than": "is not less than {lt}",
    "less_than_equal": "is greater than {le}, the most that there is",
    "literal_error": "is not one of {expected}",
}
"""By the kind of an error of Pydantic's, what is wrong with a value."""


def refused_parameters(errors: Iterable[Mapping[str, Any]]) -> Usage:
    """An error about parameters that are not what their route takes.

    Args:
        errors: As Pydantic lists them.
    """
    return Usage(
        "; ".join(_words(error) for error in errors),
        remedy="Correct the address, or begin at the first page and follow its links.",
    )


def refuse_repeated(request: Request) -> None:
    """Refuses a parameter that is there twice: which of its values is meant is not known.

    Raises:
        Usage: There is such a parameter.
    """
    names = Counter(name for name, _ in request.query_params.multi_items() if name not in _LISTS)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        raise Usage(
            f"the parameter {_name(repeated[0])} is given more than once", remedy="Leave all but one of its values out."
        )


def _words(error: Mapping[str, Any]) -> str:
    kind, bounds = error["type"], error.get("ctx") or {}
    what, name = "the parameter", next((part for part in error["loc"][1:] if isinstance(part, str)), "")
    if error["loc"][0] == "body":
        what = "the field"
    if kind == "missing":
        return f"{what} {_name(name)} is missing"
    if kind == "string_too_long":
        return f"{what} {_name(name)} has more than {counted(bounds['max_length'], 'character')}"
    if kind == "too_long":
        return f"{what} {_name(name)} is given more than {counted(bounds['max_length'], 'time')}"
    if kind not in _WORDS:
        return f"{what} {_name(name)} cannot be read: {error['msg']}"
    value = one_line(str(error.get("input"))[:_SHOWN])
    return f"{what} {_name(name)}: {value!r} {_WORDS[kind].format(**bounds)}"


def _name(name: str) -> str:
    return f"'{one_line(name[:_SHOWN])}'"
