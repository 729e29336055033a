"""A statement's tokens and a position among them: every part of the grammar reads with it.
Not here: splitting into tokens (`schema/ddl/lexer.py`), the grammar of statements (its siblings)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at, as_the_server_reads
from strata_cdc.schema.ddl.lexer import BITS, END, HEX, NAME, NATIONAL, NUMBER, STRING, lex
from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.ddl.secrets import cover_secrets
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.ddl.lexer import Tokens

T = TypeVar("T")
STRINGS = frozenset({STRING, NATIONAL})
LITERALS = STRINGS | {NUMBER, HEX, BITS}

_WORD_STARTS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$")


def _in_basic_plane(name: str) -> str:
    return "".join(ch if ch <= "\uffff" else "?" for ch in name)


def tokens_of(statement: str, context: DdlContext) -> Tokens:
    """The tokens of a statement, as the server that ran it reads them."""
    return lex(
        statement,
        context.sql_mode,
        context.flavour,
        no_break_space_is_blank=context.no_break_space_is_blank,
    )


class TokenCursor:
    """The tokens of one statement. `words[i]` is an unquoted word in upper case, an operator, or one of the lexer's
    marks; the last is END."""

    __slots__ = ("at", "context", "statement", "text", "tokens", "words")

    def __init__(self, statement: str, context: DdlContext) -> None:
        self.statement = statement
        self.context = context
        self.tokens = tokens_of(statement, context)
        self.text = self.tokens.text
        self.words = self.tokens.words
        self.at = 0
        if self.tokens.torn_at is not None:
            rest = as_one_looks_at(cover_secrets(statement)[self.tokens.torn_at :][:60])
            message = f"the statement does not end where it should: no end of {rest!r}"
            raise DdlError(message, ddl=as_one_looks_at(statement))

    # Looking ------------------------------------------------------------------------------------

    @property
    def word(self) -> str:
        """The current word."""
        return self.words[self.at]

    def ahead(self, count: int) -> str:
        """The word `count` tokens later; END after the last."""
        ahead = self.at + count
        return self.words[ahead] if ahead < len(self.words) else END

    def sees(self, *words: str) -> bool:
        """Whether exactly these words come next."""
        return self.words[self.at : self.at + len(words)] == list(words)

    def sees_name(self) -> bool:
        """Whether the next token is a name, or a word that may be a name."""
        word = self.words[self.at]
        return word == NAME or word[:1] in _WORD_STARTS

    # Taking -------------------------------------------------------------------------------------

    def accept(self, word: str) -> bool:
        """Skips `word` if it is next."""
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Reads one thing, or several with commas between them."""
        things = [read()]
        while self.accept(","):
            things.append(read())
        return tuple(things)

    def take_any(self, *words: str) -> str | None:
        """Skips the next word if it is one of `words`, and returns it."""
        word = self.words[self.at]
        if word in words:
            self.at += 1
            return word
        return None

    def take_all(self, *words: str) -> bool:
        """Skips these words if they come next, in this order; else does not move."""
        if self.sees(*words):
            self.at += len(words)
            return True
        return False

    def skip(self) -> None:
        """Skips any one token."""
        if self.words[self.at] != END:
            self.at += 1

    def value(self) -> str:
        """Skips one token and returns its value, without quotes and escapes."""
        at = self.at
        self.skip()
        return self.tokens.value(at)

    def expect(self, word: str) -> None:
        """Skips `word`.

        Raises:
            DdlError: The next token is another one.
        """
        if not self.accept(word):
            self.fail(f"expected {word}")

    def fail(self, message: str) -> NoReturn:
        """Raises a DdlError that shows the text from the current position on."""
        rest = as_one_looks_at(cover_secrets(self.text)[self.offset : self.offset + 60])
        message = f"{message} at {rest!r}" if rest else f"{message} at the end"
        raise DdlError(message, ddl=as_one_looks_at(self.statement))

    @property
    def offset(self) -> int:
        """The start of the next token in `text` (characters)."""
        return self.tokens.spans[self.at][0]

    @property
    def end(self) -> int:
        """The end of the last token that was read, in `text` (characters)."""
        return self.tokens.spans[self.at - 1][1] if self.at else 0

    # Names --------------------------------------------------------------------------------------

    def name(self) -> str:
        """A name, quoted or not."""
        if not self.sees_name():
            self.fail("expected a name")
        text = as_the_server_reads(self.tokens.value(self.at))
        self.at += 1
        if "\ufffd" in text:
            self.fail(f"the name {text!r} is not text in the client's charset")
        # Names are utf8mb3: the server replaces a character beyond the basic plane with `?`.
        return text if text.isascii() or max(text) <= "\uffff" else _in_basic_plane(text)

    def column_name(self) -> str:
        """A column's name, which may have the names of its table and database before it."""
        name = "" if self.word == "." else self.name()
        while self.accept("."):
            name = self.name()
        return name

    def table_name(self) -> TableName:
        """`table`, `database.table` or `.table`, folded according to `lower_case_table_names`."""
        first = "" if self.word == "." else self.name()
        if self.accept("."):
            database, table = first or self.context.default_database, self.name()
        else:
            database, table = self.context.default_database, first
        if not database:
            self.fail("no default database for a table name without a database")
        return self.folded(database, table)

    def skip_qualified_name(self) -> None:
        """Skips a name that may have a database before it."""
        if not self.accept("."):
            self.name()
            if not self.accept("."):
                return
        self.name()

    def folded(self, database: str, table: str) -> TableName:
        """The name as the server compares and logs it."""
        name = TableName(database, table)
        return name.lower() if self.context.lower_case_table_names else name

    # Literals and skipped parts -----------------------------------------------------------------

    def string(self) -> str:
        """A string literal; adjacent literals are one."""
        if self.word not in STRINGS:
            self.fail("expected a string")
        text = ""
        while self.word in STRINGS:
            text += self.value()
        return as_the_server_reads(text)

    def integer(self) -> int:
        """A whole number, as the server reads a length: `19.5` is 19."""
        if self.word == HEX:
            return int(self.value(), 16)
        if self.word != NUMBER:
            self.fail("expected a number")
        text = self.value().lower().partition(".")[0].partition("e")[0]
        return int(text or "0")

    def literal(self) -> Literal:
        """A string, number, hexadecimal or bit literal, with its introducer if it has one."""
        charset = None
        if self.word.startswith("_") and self.ahead(1) in LITERALS:
            charset = self.word[1:].lower()
            self.at += 1
        word = self.word
        if word in STRINGS:
            national = word == NATIONAL
            return Literal(LiteralKind.TEXT, self.string(), charset or ("utf8mb3" if national else None))
        if word not in LITERALS:
            self.fail("expected a literal")
        if word == NUMBER:
            return Literal(LiteralKind.NUMBER, self.value())
        return Literal(LiteralKind.HEX if word == HEX else LiteralKind.BITS, self.value(), charset)

    def parenthesized(self) -> str:
        """Skips a balanced `( ... )` and returns the expression between, from its first token to its last. A comment at
        the end is cut, because it could hide text that is appended later."""
        if self.word != "(":
            self.fail("expected (")
        first = self.at + 1
        self.skip_parentheses()
        return self.tokens.expression(first, self.at - 2) if self.at - 2 >= first else ""

    def skip_part(self) -> None:
        """Skips a balanced `( ... )`, or one word."""
        if self.word == "(":
            self.skip_parentheses()
        else:
            self.at += 1

    def skip_parentheses(self) -> None:
        """Skips a balanced `( ... )`."""
        words, depth, at = self.words, 0, self.at
        while True:
            word = words[at]
            if word == "(":
                depth += 1
            elif word == ")":
                depth -= 1
            elif word == END:
                self.at = at
                self.fail("expected )")
            at += 1
            if not depth:
                self.at = at
                return

    def skip_settings(self) -> bool:
        """Skips `SET STATEMENT variable = value, ... FOR` of MariaDB: the event has the values already. False if
        something else comes next."""
        if not self.take_all("SET", "STATEMENT"):
            return False
        while not self.at_end() and not self.accept("FOR"):
            self.skip_part()
        return True

    def at_end(self) -> bool:
        """Whether nothing but a semicolon follows."""
        return self.word == END or (self.word == ";" and self.ahead(1) == END)
