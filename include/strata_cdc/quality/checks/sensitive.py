"""Sensitive columns: what a verdict, a page or a message may show of rows that have them.
Not here: which columns these are (`selection/sensitive.py`), judging rows (`row_rules.py`, `suite.py`)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata_cdc.quality.checks.own import columns_of
from strata_cdc.quality.checks.profile import POSITION
from strata_cdc.quality.checks.rules import frame_column
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.quality.checks.rules import Rule

MASK: Final = "(sensitive)"
"""Shown instead of a value that is hidden."""
_HOLD_ALL: Final = frozenset({"_before", "_invalid"})
"""Columns of a change table that have values of all others."""
_KEPT: Final = frozenset(
    {
        *POSITION,
        "count",
        "element_count",
        "missing_count",
        "missing_percent",
        "unexpected_count",
        "unexpected_percent",
        "unexpected_percent_nonmissing",
        "unexpected_percent_total",
    }
)
"""Great Expectations' fields of a result that have no value of a row."""
_NAMES_NO_VALUE: Final = re.compile(r"expect_(?:table_|column_to_exist$)")
"""Expectations that look at no value."""
_ERROR_CLASS: Final = re.compile(r"\[[A-Z0-9_.]+\]")
"""With which a message of Spark begins."""


class Sensitive(Struct, frozen=True):
    """The sensitive columns of one table."""

    columns: frozenset[str] = frozenset()
    """As `_plain` makes them of their names."""

    @classmethod
    def from_names(cls, names: Iterable[str]) -> Sensitive:
        """By the names that MySQL has."""
        return cls(frozenset(map(_plain, names)))

    def is_hidden(self, column: str) -> bool:
        """Whether values of a column of the change table, or of the judged frame, must not be shown."""
        return bool(self.columns) and (_plain(column) in self.columns or column.partition(".")[0] in _HOLD_ALL)

    def hides(self, rule: Rule) -> bool:
        """Whether what a rule finds must not be shown: it is about a sensitive column, or that cannot be excluded."""
        if not self.columns or _NAMES_NO_VALUE.match(rule.expectation):
            return False
        if rule.chain is not None:
            return any(map(self.is_hidden, rule.chain.keys))
        named = columns_of(rule)
        return not named or any(map(self.is_hidden, named)) or self._are_in(rule)

    def _are_in(self, rule: Rule) -> bool:
        """Whether a condition or another argument may name one of them."""
        text = _plain(json.dumps([rule.kwargs, rule.condition, rule.where], ensure_ascii=False, default=str))
        return any(re.search(rf"(?<!\w){re.escape(column)}(?!\w)", text) for column in self.columns)

    def shown(self, example: Mapping[str, Any]) -> dict[str, Any]:
        """A row that breaks a rule which is not hidden: column by column."""
        return {name: MASK if value is not None and self.is_hidden(name) else value for name, value in example.items()}

    def error(self, message: str) -> str:
        """Why a rule could not be judged: an engine may quote any value of the table."""
        if not self.columns:
            return message
        match = _ERROR_CLASS.match(message)
        return f"{match[0]} {MASK}" if match else MASK


NOTHING = Sensitive()
"""Of a table without any."""


def position_of(example: Any) -> dict[str, Any]:
    """What is shown of a row that breaks a hidden rule."""
    if not isinstance(example, dict):
        return {"value": MASK}
    return {name: value if name in POSITION else MASK for name, value in example.items()}


def without_values(given: Any, name: str = "") -> Any:
    """What Great Expectations found by a hidden rule, in the same form, without anything that could be a value."""
    if isinstance(given, dict):
        return {key: without_values(value, key) for key, value in given.items()}
    if isinstance(given, list):
        return [without_values(item, name) for item in given]
    return given if given is None or name in _KEPT else MASK


def _plain(name: str) -> str:
    """A name in any of its forms: a column of MySQL in any case, of a change table with further underscores in front,
    of a frame without dots."""
    return fold_name(frame_column(name)).lstrip("_")
