"""Which columns a generated column is computed from, by the text of its expression.
Not here: the values (only the server computes them)."""

from __future__ import annotations

import re

from strata_cdc.schema.model.folding import fold_name


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
