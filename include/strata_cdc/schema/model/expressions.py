"""Which columns a generated column is computed from, by the text of its expression; their names after a RENAME.
Not here: the values (only the server computes them)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.schema.model.definition import Column, TableDefinition

_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|`(?P<quoted>(?:[^`]|``)*)`|"""
    r"(?P<type>\bAS\s+\w+)|(?P<variable>@[\w$@.]+)|(?P<word>[\w$]+)(?P<call>\s*\()?",
    re.DOTALL | re.IGNORECASE,
)
"""Of an expression; the type of a CAST and the name of a function are no columns."""


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


def with_renamed(expression: str, names: Mapping[str, str]) -> str:
    """An expression after columns that it names were renamed: MariaDB has the new names in it then (11.8, 10.11), and
    MySQL refuses the statement (error 3108).

    Args:
        expression: As for `names_column`. What is in double quotes stays, since it may be a text.
        names: From folded old names to new names.
    """

    def renamed(token: re.Match[str]) -> str:
        word, quoted = token["word"], token["quoted"]
        name = quoted.replace("``", "`") if quoted is not None else word
        new = None if name is None or token["call"] else names.get(fold_name(name))
        return token[0] if new is None else f"`{new.replace('`', '``')}`"

    return _TOKEN.sub(renamed, expression)


def new_names(columns: Iterable[tuple[Column, Column]]) -> dict[str, str]:
    """From folded old names to new names, of the columns that have another one; for `with_renamed`.

    Args:
        columns: Columns before and after a statement.
    """
    return {fold_name(old.name): new.name for old, new in columns if fold_name(old.name) != fold_name(new.name)}


def computes_same(old: Column, new: Column, names: Mapping[str, str]) -> bool:
    """Whether a generated column keeps its expression, renamed columns aside.

    Args:
        old: The column before a statement.
        new: The same column afterwards.
        names: As for `with_renamed`.
    """
    former = with_renamed(old.generation_expression or "", names)
    return _without_quotes(former) == _without_quotes(new.generation_expression or "")


def _without_quotes(expression: str) -> str:
    return expression.replace("`", "").replace(" ", "").lower()


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
