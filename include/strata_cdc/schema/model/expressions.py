"""Which columns a generated column is computed from, by the text of its expression.
Not here: the values (only the server computes them)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column, TableDefinition


def names_column(expression: str, column: str) -> bool:
    """Whether an expression may refer to a column: its name stands there as a word of its own, in quotes or not.

    A text or a function of that name counts, too. No reference is missed.

    Args:
        expression: As it was written, or as `SHOW CREATE TABLE` has it.
        column: The column's name.
    """
    folded, text = fold_name(column), fold_name(expression)
    # A quote in a quoted name is there twice (`Lex_input_stream::get_text`, sql/sql_lex.cc).
    forms = {folded, folded.replace("`", "``"), folded.replace('"', '""')}
    return any(re.search(rf"(?<![\w$])(?<!``){re.escape(form)}(?![\w$]|``)", text) for form in forms)


def source_columns(column: Column, definition: TableDefinition) -> list[str]:
    """The columns that are not generated and may have a part in a generated one: all that its expression names, or the
    expressions of what it names."""
    names, open_ = [], [column]
    seen = {column.name}
    while open_:
        expression = open_.pop().generation_expression or ""
        for other in definition.columns:
            if other.name in seen or not names_column(expression, other.name):
                continue
            seen.add(other.name)
            if other.generated is None:
                names.append(other.name)
            else:
                open_.append(other)
    return names
