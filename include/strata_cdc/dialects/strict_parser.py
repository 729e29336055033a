"""MySQL's SQL as sqlglot parses it, without what only sqlglot takes.
Not here: tokens (`lexical_rules.py`), what expressions mean (`conditions/`, `queries/`)."""

from __future__ import annotations

import logging
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.parsers.mysql import MySQLParser
from sqlglot.tokenizer_core import TokenType

from strata_cdc.dialects.lexical_rules import NO_FUNCTIONS

# sqlglot warns of what it does not understand; the error that follows says it.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())


class StrictParser(MySQLParser):
    """Refuses what sqlglot reads and MySQL's grammar (sql/sql_yacc.yy) does not have."""

    FUNCTIONS: ClassVar = {name: made for name, made in MySQLParser.FUNCTIONS.items() if name not in NO_FUNCTIONS}
    FUNCTION_PARSERS: ClassVar = {
        name: read for name, read in MySQLParser.FUNCTION_PARSERS.items() if name not in NO_FUNCTIONS
    }

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("BETWEEN has two values with AND between them")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))


class StrictMySQL(MySQL):
    """The dialect of the parser."""

    Parser = StrictParser
