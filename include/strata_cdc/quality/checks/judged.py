"""What the rules of a run found, rule by rule: kept so that the Data Docs can be made of it at any time.
Not here: judging (`pass_engine.py`), making Great Expectations' own results of it (`suite.py`)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strata_cdc.quality.checks.profile import RuleFound  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.quality.checks.rules import Rule  # noqa: TC001  likewise

COUNT = "expect_table_row_count_to_equal"
CHAIN = "unexpected_rows_expectation"
FORMAT = 1
"""Number of the stored form."""


class JudgedRule(Struct, frozen=True):
    """A rule, and what was found."""

    rule: Rule
    found: RuleFound
    success: bool

    def details(self) -> dict[str, Any]:
        """As Great Expectations calls it."""
        if self.rule.expectation == COUNT:
            return {"observed_value": self.found.rows}
        if self.rule.expectation == CHAIN:
            return {"observed_value": self.found.unexpected}
        share = 100 * self.found.unexpected / self.found.rows if self.found.rows else 0.0
        return {
            "element_count": self.found.rows,
            "unexpected_count": self.found.unexpected,
            "unexpected_percent": share,
            "partial_unexpected_list": [example.text for example in self.found.examples],
        }


class JudgedSuite(Struct, frozen=True):
    """A suite of rules, and what was found."""

    name: str
    table: str
    rules: tuple[JudgedRule, ...]


class JudgedRun(Struct, frozen=True):
    """All suites of a run."""

    suites: tuple[JudgedSuite, ...]
    format: int = FORMAT
