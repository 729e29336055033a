"""The text of a query: read by sqlglot as MySQL's SQL, with positions for errors and the names of its result's columns.
Not here: what the statement means (`selects.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlglot import exp, parse
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError
from sqlglot.parsers.mysql import MySQLParser
from sqlglot.tokenizer_core import Token, TokenType

from strata_cdc.errors import QueryError, one_line
from strata_cdc.schema.model.types import shown_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_COMMENT: Final = r"#[^\n]*|--(?=\s|\Z)[^\n]*|/\*(?!M?!).*?\*/"
_ESCAPE: Final = r"\\[nrt\\'\"]"
_STRING: Final = rf"'(?:[^'\\]|{_ESCAPE}|'')*'|\"(?:[^\"\\]|{_ESCAPE}|\"\")*\"|`(?:[^`]|``)*`"
_AMBIGUOUS: Final = re.compile(rf"{_COMMENT}|{_STRING}|(['\"`]|--|/\*|:=|@|\|\||!(?!=)|&&)", re.DOTALL)
"""What MySQL and sqlglot may read in different ways: `5--3`, comments with SQL in them, variables, other escapes than
those above, and operators that depend on sql_mode."""
_SHOWN: Final = 60
_BEFORE_NAMES: Final = "".join(map(chr, (*range(0x21), 0x7F)))
"""What the server leaves out at the beginning of a name (sql/item.cc, `Item_name_string::copy`)."""
_PARTS: Final = {
    "method": "NATURAL JOIN",
    "locks": "FOR UPDATE or FOR SHARE",
    "operation_modifiers": "a modifier of SELECT",
    "into": "INTO",
}
"""Parts of SELECT that sqlglot calls otherwise."""
_USUAL_PARTS: Final = frozenset({"this", "expression", "expressions"})


class MomentDialect(MySQL):
    """MySQL's SQL with FOR SYSTEM_TIME, as MariaDB and SQL:2011 have it, and AS OF GTID."""

    class Parser(MySQLParser):
        """Reads `FOR SYSTEM_TIME`, whose moments may be GTID sets: these are no expressions of MySQL."""

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
        try:
            self.tokens: Sequence[Token] = dialect().tokenize(text)
            trees = [tree for tree in parse(text, dialect=dialect) if tree is not None]
        except SqlglotError as error:
            errors = getattr(error, "errors", None) or [{}]
            message = errors[0].get("description") or str(error).partition("\n")[0]
            where = f" at line {errors[0]['line']}, column {errors[0]['col']}" if "line" in errors[0] else ""
            raise QueryError(f"this is no query: {one_line(message)}{where}") from None
        if len(trees) != 1 or not isinstance(trees[0], exp.Query):
            raise QueryError("one SELECT is read, and nothing else", remedy="Nothing is ever changed in the past.")
        self.tree: exp.Query = trees[0]
        self.unnamed: list[str] = self._unnamed_columns()
        """The texts of the expressions of the first SELECT by which MySQL names the columns of the result; empty if
        they are not known."""

    def _refuse_ambiguous(self, dialect: type[MySQL]) -> None:
        for match in _AMBIGUOUS.finditer(self.text):
            if match.group(1) and not (match.group(1) == "||" and dialect.DPIPE_IS_STRING_CONCAT):
                at = match.start(1)
                raise QueryError(
                    f"this may be read in several ways, at character {at + 1}: {self._shown(at)}",
                    remedy="Write OR, AND, NOT and CONCAT() in words, a blank after --, no variables, and texts with "
                    r"no other escapes than \n \r \t \\ \' and \".",
                )

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

    def _unnamed_columns(self) -> list[str]:
        written, first = self._written_columns(), self.tree
        while isinstance(first, (exp.SetOperation, exp.Subquery)):
            first = first.this
        if len(written) != len(first.expressions):
            return []
        pairs = zip(written, first.expressions, strict=True)
        return [text for text, item in pairs if not isinstance(item, (exp.Alias, exp.Column, exp.Star))]

    def _written_columns(self) -> list[str]:
        """The texts of the expressions of the first SELECT that is not in parentheses, without `AS` and its name.

        MySQL names a column of a result so if it has no other name; a text literal is called by its content.
        """
        columns: list[list[Token]] = []
        held: list[Token] = []
        for depth, token in self._from_first_select():
            is_end = depth == 0 and token.token_type in _ENDS
            if depth == 0 and (is_end or token.token_type is TokenType.COMMA):
                columns.append(held)
                held = []
            if is_end:
                break
            if (depth, token.token_type) not in _BETWEEN_EXPRESSIONS:
                held.append(token)
        columns.append(held)
        return [self._name(tokens) for tokens in columns if tokens]

    def _name(self, tokens: Sequence[Token]) -> str:
        if len(tokens) == 1 and tokens[0].token_type is TokenType.STRING:
            return shown_text(tokens[0].text.lstrip(_BEFORE_NAMES))
        return shown_text(self.text[tokens[0].start : tokens[-1].end + 1])

    def _from_first_select(self) -> Iterator[tuple[int, Token]]:
        """The tokens after the first SELECT that is not in parentheses, each with the number of parentheses around
        it."""
        depth, is_after = 0, False
        for token in self.tokens:
            depth -= token.token_type is TokenType.R_PAREN
            if is_after:
                yield depth, token
            depth += token.token_type is TokenType.L_PAREN
            is_after = is_after or (depth == 0 and token.token_type is TokenType.SELECT)


_BETWEEN_EXPRESSIONS: Final = frozenset({(0, TokenType.COMMA), (0, TokenType.DISTINCT)})
_ENDS: Final = frozenset(
    {
        TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT,
        TokenType.UNION, TokenType.SEMICOLON, TokenType.FOR,
    }
)  # fmt: skip
