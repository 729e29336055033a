"""The text of a query: read by sqlglot as MySQL's SQL, with positions for errors and the names of its result's columns.
Not here: what the statement means (`selects.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlglot import exp, parse
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from strata_cdc.dialects.lexical_rules import odd_token
from strata_cdc.dialects.reserved_words import reserved_names
from strata_cdc.dialects.strict_parser import StrictParser
from strata_cdc.errors import QueryError, one_line
from strata_cdc.schema.model.types import shown_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMENT: Final = r"#[^\n]*|--(?=\s|\Z)[^\n]*|/\*(?!M?!).*?\*/"
_ESCAPE: Final = r"\\[nrt\\'\"]"
_STRING: Final = rf"'(?:[^'\\]|{_ESCAPE}|'')*'|\"(?:[^\"\\]|{_ESCAPE}|\"\")*\"|`(?:[^`]|``)*`"
_AMBIGUOUS: Final = re.compile(rf"{_COMMENT}|{_STRING}|(['\"`]|--|/\*|:=|@|\|\||!(?!=)|&&)", re.DOTALL)
"""What MySQL and sqlglot may read in different ways: `5--3`, comments with SQL in them, variables, other escapes than
those above, and operators that depend on sql_mode."""
_WHOLE: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|/\*.*?\*/", re.DOTALL)
"""Quotes and comments that have an end, whatever is in them."""
_OWN_WORDS: Final = ("FOR SYSTEM_TIME", "a moment is", "a table's alias", "BETWEEN")
"""How errors of this module's parsers begin; those of sqlglot name its own classes and tokens."""
_SHOWN: Final = 60
_OPENING: Final = ("'", '"', "`", "/*")
BEFORE_NAMES: Final = "".join(map(chr, (*range(0x21), 0x7F)))
"""What the server leaves out at the beginning of a name (sql/item.cc, `Item_name_string::copy`)."""
_PARTS: Final = {
    "method": "NATURAL JOIN",
    "locks": "FOR UPDATE or FOR SHARE",
    "operation_modifiers": "a modifier of SELECT",
    "into": "INTO",
}
"""Parts of SELECT that sqlglot calls otherwise."""
_USUAL_PARTS: Final = frozenset({"this", "expression", "expressions"})
_TEXT: Final = "text"


class MomentDialect(MySQL):
    """MySQL's SQL with FOR SYSTEM_TIME, as MariaDB and SQL:2011 have it, and AS OF GTID."""

    class Parser(StrictParser):
        """Reads `FOR SYSTEM_TIME`, whose moments may be GTID sets: these are no expressions of MySQL. The expressions
        of each SELECT know their texts, for `column_name`."""

        def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
            return self._parse_csv(self._parse_column_of_result), None

        def _parse_column_of_result(self) -> exp.Expr | None:
            first = self._curr
            item = self._parse_expression()
            if item is not None:
                item.meta[_TEXT] = self._find_sql(first, self._prev)
            return item

        def _parse_table_alias(self, *args: Any, **options: Any) -> exp.TableAlias | None:
            is_text = self._curr.token_type if self._curr else None, self._next.token_type if self._next else None
            if is_text[0] is TokenType.STRING or is_text == (TokenType.ALIAS, TokenType.STRING):
                self.raise_error("a table's alias is no text")
            return super()._parse_table_alias(*args, **options)

        def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
            table = super()._parse_table(*args, **options)
            # The moment may also come after the alias.
            if isinstance(table, exp.Table) and not table.args.get("version"):
                table.set("version", self._parse_version())
            return table

        def _parse_version(self) -> exp.Version | None:
            if not self._match_text_seq("FOR", "SYSTEM_TIME"):
                return None
            if self._match_text_seq("AS", "OF"):
                return self._moment("AS OF")
            if self._match_text_seq("ALL"):
                return self.expression(exp.Version(this="VERSIONS", kind="ALL"))
            for kind, word in (("BETWEEN", "AND"), ("FROM", "TO")):
                if self._match_text_seq(kind):
                    return self._range(kind, word)
            self.raise_error("FOR SYSTEM_TIME has AS OF, ALL, BETWEEN ... AND, or FROM ... TO")
            return None

        def _range(self, kind: str, word: str) -> exp.Version:
            begin = self._moment(kind)
            if not self._match_text_seq(word):
                self.raise_error(f"FOR SYSTEM_TIME {kind} has a moment, {word}, and a second moment")
            bounds = exp.Tuple(expressions=[begin, self._moment(word)])
            return self.expression(exp.Version(this="VERSIONS", kind=kind, expression=bounds))

        def _moment(self, word: str) -> exp.Version:
            kind = "GTID" if self._match_text_seq("GTID") else "TIMESTAMP"
            if kind == "TIMESTAMP":
                self._match_text_seq("TIMESTAMP")
            if not self._match(TokenType.STRING):
                self.raise_error(f"a moment is a literal: {word} TIMESTAMP '...' or {word} GTID '...'")
            literal = exp.Literal.string(self._prev.text)
            return self.expression(exp.Version(this=kind, kind="AS OF", expression=literal))


class PipesDialect(MomentDialect):
    """The same under PIPES_AS_CONCAT: `||` joins texts."""

    DPIPE_IS_STRING_CONCAT = True

    class Parser(MomentDialect.Parser):
        """`||` is no OR: it is grouped before all other operators between two values (sql/sql_yacc.yy, `OR_OR_SYM`)."""

        EXPONENT: ClassVar = {TokenType.DPIPE: exp.DPipe}
        DISJUNCTION: ClassVar = {
            token: made for token, made in MomentDialect.Parser.DISJUNCTION.items() if token is not TokenType.DPIPE
        }


def column_name(item: exp.Expr) -> str:
    """How MySQL names an expression of a SELECT that is no column and has no alias: by its text, and a literal without
    quotes and parentheses, NULL in upper case.

    Raises:
        QueryError: Servers do not agree on its name.
    """
    inner = item.unnest()
    # CONCAT() is safe in sqlglot's words; literals next to each other are not.
    if isinstance(inner, exp.Concat) and not inner.args.get("safe"):
        raise QueryError(
            f"texts next to each other are called by the first on MySQL, and by all on MariaDB: "
            f"{one_line(item.meta[_TEXT][:_SHOWN])}",
            remedy="Give it a name: SELECT 'a' 'b' AS name.",
        )
    if isinstance(inner, exp.Literal):
        # sqlglot writes a zero before the point.
        is_short = not inner.is_string and inner.name not in item.meta[_TEXT]
        return shown_text((inner.name.removeprefix("0") if is_short else inner.name).lstrip(BEFORE_NAMES))
    if isinstance(inner, exp.Null):
        return "NULL"
    return shown_text(item.meta[_TEXT])


class StatementText:
    """A statement.

    Args:
        text: One query of MySQL's SQL.
        dialect: In which it is written.

    Raises:
        QueryError: It is not one, or MySQL would read it in another way than sqlglot does.
    """

    def __init__(self, text: str, dialect: type[MySQL] = MomentDialect) -> None:
        self.text = text
        self._refuse_ambiguous(dialect)
        self._refuse_odd(dialect)
        try:
            # With the text before an error as a whole, whose length is the error's place.
            trees = [tree for tree in parse(text, dialect=dialect, error_message_context=len(text)) if tree is not None]
        except SqlglotError as error:
            raise self._unreadable(error) from None
        except AttributeError:
            # sqlglot's, of a function that lacks an argument.
            raise QueryError("this is no query that can be read: a function has too few arguments") from None
        if len(trees) != 1 or not isinstance(trees[0], exp.Query):
            raise QueryError("one SELECT is read, and nothing else", remedy="Nothing is ever changed in the past.")
        self.tree: exp.Query = trees[0]
        for name in reserved_names(self.tree):
            raise QueryError(
                f"{name.name} is a reserved word of MySQL{self._place(name.meta.get('start', 0))}",
                remedy="A name that is one is written in backticks.",
            )

    def _refuse_ambiguous(self, dialect: type[MySQL]) -> None:
        for match in _AMBIGUOUS.finditer(self.text):
            if match.group(1) and not (match.group(1) == "||" and dialect.DPIPE_IS_STRING_CONCAT):
                at = match.start(1)
                if match.group(1) in _OPENING and not _WHOLE.match(self.text, at):
                    raise QueryError(f"this has no end{self._place(at)}")
                raise QueryError(
                    f"this may be read in several ways, at character {at + 1}: {self._shown(at)}",
                    remedy="Write OR, AND, NOT and CONCAT() in words, a blank after --, no variables, and texts with "
                    r"no other escapes than \n \r \t \\ \' and \".",
                )

    def _refuse_odd(self, dialect: type[MySQL]) -> None:
        try:
            odd = odd_token(dialect().tokenize(self.text))
        except SqlglotError as error:
            raise self._unreadable(error) from None
        if odd is not None:
            at, what = odd
            raise QueryError(
                f"{what}, at character {at + 1}: {self._shown(at)}",
                remedy="MySQL reads it in another way, or not at all: write blanks between numbers and names, and odd "
                "names in backticks.",
            )

    def _unreadable(self, error: SqlglotError) -> QueryError:
        """An error about a text that is not parsed."""
        first = (getattr(error, "errors", None) or [{}])[0]
        words = first.get("description") or ""
        message = words if words.startswith(_OWN_WORDS) else "this is no query that can be read"
        if "start_context" not in first:
            return QueryError(f"{message}: a literal is not complete")
        return QueryError(f"{message}{self._place(len(first['start_context']))}")

    def _place(self, at: int) -> str:
        """Where a character is, for an error."""
        before = self.text[:at]
        line, column = before.count("\n") + 1, at - before.rfind("\n")
        return f", at line {line}, column {column}, near: {self._shown(at)}"

    def error(self, message: str, node: exp.Expr) -> QueryError:
        """An error about a part of the statement."""
        starts = [inner.meta["start"] for inner in node.walk() if "start" in inner.meta]
        if not starts:
            return QueryError(f"{message}: {one_line(node.sql(dialect='mysql')[:_SHOWN])}")
        at = min(starts)
        return QueryError(f"{message}, at character {at + 1}: {self._shown(at)}")

    def require_parts(self, node: exp.Expr, known: Mapping[type[exp.Expr], frozenset[str]]) -> None:
        """Refuses an expression with parts that nothing here reads: sqlglot may have found more than what is known.

        Args:
            node: The expression.
            known: For each type, the parts that are read besides those that most have.

        Raises:
            QueryError: It has another part.
        """
        read = known.get(type(node), frozenset())
        for name, value in node.args.items():
            if value and name not in _USUAL_PARTS and name not in read:
                raise self.unread(name, node)

    def unread(self, part: str, node: exp.Expr) -> QueryError:
        """An error about a part of an expression that nothing here reads, by sqlglot's name of it."""
        if isinstance(node, exp.Window):
            what = "a window function"
        elif isinstance(node, (exp.SetOperation, exp.Lateral)):
            what = type(node).__name__.upper()
        elif isinstance(node, (exp.Func, exp.JSONValue)):
            what = f"this form of {node.sql(dialect='mysql').partition('(')[0]}()"
        elif isinstance(node, exp.DataType):
            what = f"the type {node.sql(dialect='mysql')}"
        else:
            what = _PARTS.get(part, part.rstrip("_").replace("_", " ").upper())
        return self.error(f"{what} is not translated here", node)

    def _shown(self, at: int) -> str:
        return one_line(self.text[at : at + _SHOWN])
