"""sqlglot's tokenizer, set up for MySQL: statement text in, tokens that keep quoting and offsets out.
Not here: the grammar (`ddl/`), the client's charset (`context.py`); sqlglot's parser is not used for DDL."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import Tokenizer

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token, TokenType

ANSI_QUOTES = 0x4
NO_BACKSLASH_ESCAPES = 0x100000

# What a backslash makes of the next character, beyond what sqlglot has: `\%` and `\_` keep theirs, any other is
# dropped (MySQL manual, "String Literals").
_ESCAPES = {
    "\\0": "\0",
    "\\Z": "\x1a",
    "\\%": "\\%",
    "\\_": "\\_",
    "\\a": "a",
    "\\f": "f",
    "\\v": "v",
}


class _Words(Tokenizer):
    """Words stay words: with sqlglot's keywords `primary  key` is one token and tails of CALL are swallowed."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMENTS: ClassVar = ["--", "#", ("/*", "*/")]
    BIT_STRINGS: ClassVar = [("b'", "'"), ("B'", "'"), ("0b", "")]
    HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'"), ("0x", "")]
    VAR_SINGLE_TOKENS: ClassVar = {"$"}
    NESTED_COMMENTS = False
    DASH_COMMENT_REQUIRES_BOUNDARY = True
    COMMENTS_TERMINATE_AT_NEWLINE_ONLY = True


class _MysqlDialect(Dialect):
    IDENTIFIERS_CAN_START_WITH_DIGIT = True
    UNESCAPED_SEQUENCES = _ESCAPES


class MysqlPlain(_MysqlDialect):
    """The default: double quotes make strings, the backslash escapes."""

    class Tokenizer(_Words):  # noqa: D106 - sqlglot finds it by this name
        QUOTES: ClassVar = ["'", '"']
        IDENTIFIERS: ClassVar = ["`"]
        STRING_ESCAPES: ClassVar = ["'", '"', "\\"]
        DROP_UNKNOWN_ESCAPES = True


class MysqlAnsi(_MysqlDialect):
    """ANSI_QUOTES: double quotes make names."""

    class Tokenizer(_Words):  # noqa: D106 - sqlglot finds it by this name
        QUOTES: ClassVar = ["'"]
        IDENTIFIERS: ClassVar = ["`", '"']
        STRING_ESCAPES: ClassVar = ["'", "\\"]
        DROP_UNKNOWN_ESCAPES = True


class _MysqlNoEscapes(Dialect):
    IDENTIFIERS_CAN_START_WITH_DIGIT = True
    UNESCAPED_SEQUENCES = {}  # noqa: RUF012 - sqlglot declares it as a variable of instances


class MysqlRaw(_MysqlNoEscapes):
    """NO_BACKSLASH_ESCAPES: the backslash is a character like others."""

    class Tokenizer(_Words):  # noqa: D106 - sqlglot finds it by this name
        QUOTES: ClassVar = ["'", '"']
        IDENTIFIERS: ClassVar = ["`"]
        STRING_ESCAPES: ClassVar = ["'", '"']


class MysqlAnsiRaw(_MysqlNoEscapes):
    """ANSI_QUOTES and NO_BACKSLASH_ESCAPES."""

    class Tokenizer(_Words):  # noqa: D106 - sqlglot finds it by this name
        QUOTES: ClassVar = ["'"]
        IDENTIFIERS: ClassVar = ["`", '"']
        STRING_ESCAPES: ClassVar = ["'"]


@cache
def tokenizer_for(sql_mode: int) -> Tokenizer:
    """The tokenizer for statements under `sql_mode`; one for each of the four ways of quoting.

    It keeps state while it runs: one thread at a time.
    """
    return _tokenizer(sql_mode & ANSI_QUOTES, sql_mode & NO_BACKSLASH_ESCAPES)


@cache
def _tokenizer(ansi_quotes: int, no_escapes: int) -> Tokenizer:
    if ansi_quotes:
        dialect: type[Dialect] = MysqlAnsiRaw if no_escapes else MysqlAnsi
    else:
        dialect = MysqlRaw if no_escapes else MysqlPlain
    kind = dialect.tokenizer_class
    # sqlglot adds Jinja's comments to every dialect; in MySQL `{#` is a brace and a comment to the line's end.
    kind._COMMENTS.pop("{#", None)  # noqa: SLF001 - there is no public switch for it
    return kind(dialect=dialect)


# Blanks to Python that are letters to MySQL, where a name without quotes may hold them; and stand-ins that are neither.
_FOREIGN_BLANKS = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_STAND_INS = {ord(blank): 0x10F000 + number for number, blank in enumerate(_FOREIGN_BLANKS)}
_STOOD_FOR = {stand_in: blank for blank, stand_in in _STAND_INS.items()}


def tokenize(text: str, sql_mode: int) -> list[Token]:
    """The tokens of a statement without executable comments.

    Raises:
        TokenError: A quote or comment has no end.
    """
    tokenizer = tokenizer_for(sql_mode)
    if text.isascii() or not any(ch.isspace() for ch in text if ch > "\x7f"):
        return tokenizer.tokenize(text)
    tokens = tokenizer.tokenize(text.translate(_STAND_INS))
    for token in tokens:
        token.text = token.text.translate(_STOOD_FOR)
    return tokens


def unwrap_comments(text: str, sql_mode: int, server_version: int) -> str:
    """`text` with its executable comments opened or blanked, as the server of that version reads them.

    `/*!50100 ... */` counts where the number is at most the version, `/*! ... */` always. Offsets stay: what goes
    away becomes blanks. Inside quotes and plain comments nothing is changed (sql/sql_lex.cc, `consume_comment`).
    """
    if "/*!" not in text:
        return text
    return _Unwrapping(text, sql_mode, server_version).run()


class _Unwrapping:
    """One walk over a statement; `open_comments` counts the executable comments that are being read."""

    def __init__(self, text: str, sql_mode: int, server_version: int) -> None:
        self.text = text
        self.escapes = not sql_mode & NO_BACKSLASH_ESCAPES
        self.ansi = bool(sql_mode & ANSI_QUOTES)
        self.version = server_version
        self.pieces: list[str] = []
        self.done = 0
        self.open_comments = 0

    def run(self) -> str:
        at, end = 0, len(self.text)
        while at < end:
            ch = self.text[at]
            if ch in "'\"`":
                at = self._after_quoted(at, ch)
            elif ch == "#" or (ch == "-" and self._is_dash_comment(at)):
                newline = self.text.find("\n", at)
                at = end if newline < 0 else newline + 1
            elif ch == "/" and self.text.startswith("/*", at):
                at = self._after_comment_start(at)
            elif ch == "*" and self.open_comments and self.text.startswith("*/", at):
                self.open_comments -= 1
                at = self._blank(at, at + 2)
            else:
                at += 1
        self.pieces.append(self.text[self.done :])
        return "".join(self.pieces)

    def _is_dash_comment(self, at: int) -> bool:
        following = self.text[at + 2 : at + 3]
        return self.text.startswith("--", at) and (not following or following.isspace() or ord(following) < 32)

    def _after_quoted(self, at: int, quote: str) -> int:
        escapes = self.escapes and not (quote == "`" or (quote == '"' and self.ansi))
        at += 1
        while at < len(self.text):
            ch = self.text[at]
            if ch == "\\" and escapes:
                at += 2
                continue
            at += 1
            if ch == quote:
                break  # a doubled quote begins the next quoted piece: the same end
        return at

    def _after_comment_start(self, at: int) -> int:
        if not self.text.startswith("/*!", at):
            return self._after_plain_comment(at + 2)
        digits = at + 3
        while digits < len(self.text) and digits < at + 9 and self.text[digits].isdigit():
            digits += 1
        count = digits - (at + 3)
        if count < 5:  # not a version: `/*!1 ...` is executed and begins with the number
            self.open_comments += 1
            return self._blank(at, at + 3)
        if count > 5 and not self.text[digits : digits + 1].isspace():
            digits = at + 8  # six digits are a version only before a blank, else the last is text
        if int(self.text[at + 3 : digits]) <= self.version:
            self.open_comments += 1
            return self._blank(at, digits)
        return self._blank(at, self._after_skipped_comment(at + 2))

    def _after_plain_comment(self, at: int) -> int:
        close = self.text.find("*/", at)
        return len(self.text) if close < 0 else close + 2

    def _after_skipped_comment(self, at: int) -> int:
        """A skipped executable comment may hold one level of comments of its own."""
        close = self.text.find("*/", at)
        inner = self.text.find("/*", at)
        while 0 <= inner < close:
            resume = self._after_plain_comment(inner + 2)
            close, inner = self.text.find("*/", resume), self.text.find("/*", resume)
        return len(self.text) if close < 0 else close + 2

    def _blank(self, begin: int, end: int) -> int:
        self.pieces.append(self.text[self.done : begin])
        self.pieces.append(" " * (end - begin))
        self.done = end
        return end
