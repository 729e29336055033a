"""Tables whose planning fails, for whatever reason: each is blocked, and the others are planned.
Not here: rows whose schema is not known (`changes/plan.py` refuses them)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

from strata_cdc.unforeseen import as_strata_error, may_pass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.errors import ErrorFacts
    from strata_cdc.schema.model.definition import TableName


class FailingTables(Struct):
    """The tables that failed so far, and why."""

    why: dict[TableName, ErrorFacts] = field(default_factory=dict)

    @contextmanager
    def note(self, table: TableName) -> Iterator[None]:
        """Whatever is raised inside is noted as this table's error; errors of the moment (`may_pass`) are raised as
        they are."""
        try:
            yield
        except Exception as error:
            if may_pass(error):
                raise
            self.why[table] = as_strata_error(error, str(table)).facts()
