"""A statement's tokens and a place among them: what every part of the grammar reads with.
Not here: the tokenizer's setting (`schema/dialect.py`), any statement's grammar (its siblings)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from strata.errors import DdlError
from strata.schema.charsets.ill_formed import as_one_looks_at, as_the_server_reads
from strata.schema.dialect import tokenize, unwrap_comments
from strata.schema.literals import Literal, LiteralKind
from strata.schema.model import TableName

if TYPE_CHECKING:
    from strata.schema.context import DdlContext

# What stands in `words` for tokens that are no words; none of them can equal a keyword or a punctuation mark.
NAME, STRING, NUMBER, HEX, BITS, NATIONAL, END = "``", "''", "0", "0x", "0b", "n''", ""
LITERALS = frozenset({STRING, NUMBER, HEX, BITS, NATIONAL})

_MARKS = {
    TokenType.IDENTIFIER: NAME,
    TokenType.STRING: STRING,
    TokenType.NUMBER: NUMBER,
    TokenType.HEX_STRING: HEX,
    TokenType.BIT_STRING: BITS,
    TokenType.NATIONAL_STRING: NATIONAL,
}
# Looked at most often, and by identity: the hash of an enum's member is a call.
_VAR, _COMMA, _OPEN, _CLOSE = TokenType.VAR, TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN
_QUOTES = "`\"'"


def _in_basic_plane(name: str) -> str:
    return "".join(ch if ch <= "\uffff" else "?" for ch in name)


class Cursor:
    """The tokens of one statement. `words[i]` is the upper case of an unquoted word, a punctuation mark, or one of
    the marks above; the last is END."""

    __slots__ = ("at", "context", "statement", "text", "tokens", "words")

    def __init__(self, statement: str, context: DdlContext) -> None:
        self.statement = statement
        self.context = context
        self.text = unwrap_comments(statement, context.sql_mode, context.server_version)
        try:
            self.tokens = tokenize(self.text, context.sql_mode)
        except TokenError as fault:
            self.tokens = self._head_of_program(fault)
        self.words = self._words()
        self.at = 0

    def _head_of_program(self, fault: TokenError) -> list[Token]:
        """What stands before the body of a program in another language: `AS $$ ... $$` (9.0 on) has quotes of its own.

        Raises:
            DdlError: There is none, or the text before it cannot be read either.
        """
        head, dollars, _ = self.text.partition("$$")
        try:
            if dollars:
                return tokenize(head, self.context.sql_mode)
        except TokenError as inner:
            fault = inner
        raise DdlError(f"the statement does not end where it should: {fault}", ddl=self.statement) from fault

    def _words(self) -> list[str]:
        """The word of each token, and END behind the last."""
        words = []
        for token in self.tokens:
            kind, text = token.token_type, token.text
            if kind is _VAR:
                # Not every upper case of other alphabets is a keyword's letter: the dotless i would become `I`.
                words.append(text.upper() if text.isascii() else NAME)
            elif kind is _COMMA or kind is _OPEN or kind is _CLOSE:
                words.append(text)
            else:
                mark = _MARKS.get(kind)
                words.append(text if mark is None else self._marked(token, mark))
        words.append(END)
        return words

    def _marked(self, token: Token, mark: str) -> str:
        if mark is NAME and self.text[token.start] not in _QUOTES:
            return token.text.upper()  # `0x` and `0b2` come as if they were quoted
        if (mark is HEX or mark is BITS) and self._is_name_like_literal(token):
            return NAME
        return mark

    def _is_name_like_literal(self, token: Token) -> bool:
        """`0X1F`, `0B1` and `0x1_2` are names in MySQL, not literals."""
        return self.text[token.start] == "0" and (self.text[token.start + 1] in "XB" or "_" in token.text)

    # Looking ------------------------------------------------------------------------------------

    @property
    def word(self) -> str:
        """The word here."""
        return self.words[self.at]

    def ahead(self, count: int) -> str:
        """The word `count` further on; END behind the last."""
        place = self.at + count
        return self.words[place] if place < len(self.words) else END

    def sees(self, *words: str) -> bool:
        """Whether exactly these words come next."""
        return self.words[self.at : self.at + len(words)] == list(words)

    # Taking -------------------------------------------------------------------------------------

    def take(self, word: str) -> bool:
        """Steps over `word` if it is next."""
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def take_any(self, *words: str) -> str | None:
        """Steps over the next word if it is one of `words`, and returns it."""
        word = self.words[self.at]
        if word in words:
            self.at += 1
            return word
        return None

    def take_all(self, *words: str) -> bool:
        """Steps over these words if they come next, in this order; else stays."""
        if self.sees(*words):
            self.at += len(words)
            return True
        return False

    def expect(self, word: str) -> None:
        """Steps over `word`.

        Raises:
            DdlError: Something else is next.
        """
        if not self.take(word):
            self.fail(f"expected {word}")

    def fail(self, message: str) -> NoReturn:
        """Raises a DdlError that shows the text from here on."""
        rest = as_one_looks_at(self.text[self.offset : self.offset + 60])
        message = f"{message} at {rest!r}" if rest else f"{message} at the end"
        raise DdlError(message, ddl=as_one_looks_at(self.statement))

    @property
    def offset(self) -> int:
        """Where the next token starts in `text` (characters)."""
        return self.tokens[self.at].start if self.at < len(self.tokens) else len(self.text)

    @property
    def behind(self) -> int:
        """Where the last token that was taken ends in `text` (characters)."""
        return self.tokens[self.at - 1].end + 1 if self.at else 0

    # Names --------------------------------------------------------------------------------------

    def name(self) -> str:
        """A name, quoted or not."""
        word = self.words[self.at] if self.at < len(self.words) else END
        if word == END or self.at >= len(self.tokens):
            self.fail("expected a name")
        token = self.tokens[self.at]
        kind = token.token_type
        if word == NAME or kind is TokenType.VAR or kind is TokenType.IDENTIFIER:
            self.at += 1
            text = token.text if kind is not TokenType.HEX_STRING else self.text[token.start : token.end + 1]
        elif word == NUMBER:
            text = self._name_from_number()
        else:
            self.fail("expected a name")
        text = as_the_server_reads(text)
        if "\ufffd" in text:
            self.fail(f"the name {text!r} is not text in the client's charset")
        # Names are utf8mb3: the server keeps `?` for a character beyond the basic plane.
        return text if text.isascii() or max(text) <= "\uffff" else _in_basic_plane(text)

    def _name_from_number(self) -> str:
        """`1e5` behind a dot, `1e`, `1$`: names that the tokenizer takes for numbers, or splits."""
        token = self.tokens[self.at]
        text, end = token.text, token.end
        self.at += 1
        while self.at < len(self.tokens) and self.tokens[self.at].start == end + 1:
            following = self.tokens[self.at]
            if following.token_type not in {TokenType.VAR, TokenType.NUMBER}:
                break
            text, end = text + following.text, following.end
            self.at += 1
        if text.isdigit() or "." in text:
            self.fail(f"{text} is not a name")
        return text

    def table_name(self) -> TableName:
        """`table`, `database.table` or `.table`, folded as `lower_case_table_names` has it."""
        first = "" if self.word == "." else self.name()
        if self.take("."):
            database, table = first or self.context.default_database, self.name()
        else:
            database, table = self.context.default_database, first
        if not database:
            self.fail("no default database for a table without one")
        return self.folded(database, table)

    def skip_qualified_name(self) -> None:
        """Steps over a name that may have a database before it."""
        if not self.take("."):
            self.name()
            if not self.take("."):
                return
        self.name()

    def folded(self, database: str, table: str) -> TableName:
        """The name as the server compares and logs it."""
        name = TableName(database, table)
        return name.lower() if self.context.lower_case_table_names else name

    # Literals and skipped parts -----------------------------------------------------------------

    def string(self) -> str:
        """A string literal; adjacent ones are one."""
        if self.word not in {STRING, NATIONAL}:
            self.fail("expected a string")
        text = ""
        while self.word in {STRING, NATIONAL}:
            text += self.tokens[self.at].text
            self.at += 1
        return as_the_server_reads(text)

    def integer(self) -> int:
        """A whole number as a length is written; `19.5` counts 19, as in the server."""
        if self.word == HEX:
            self.at += 1
            return int(self.tokens[self.at - 1].text or "0", 16)
        if self.word != NUMBER:
            self.fail("expected a number")
        self.at += 1
        text = self.tokens[self.at - 1].text.lower().partition(".")[0].partition("e")[0]
        if self.word == NUMBER and self.tokens[self.at].start == self.behind:  # `1.` and `5`
            self.at += 1
        return int(text or "0")

    def literal(self) -> Literal:
        """A string, number, hexadecimal or bit literal, with its introducer if there is one."""
        charset = None
        if self.word.startswith("_") and self.ahead(1) in LITERALS:
            charset = self.word[1:].lower()
            self.at += 1
        word = self.word
        if word in {STRING, NATIONAL}:
            national = word == NATIONAL
            return Literal(LiteralKind.TEXT, self.string(), charset or ("utf8mb3" if national else None))
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or word not in LITERALS:
            self.fail("expected a literal")
        self.at += 1
        if word == NUMBER:
            return Literal(LiteralKind.NUMBER, token.text)
        return Literal(LiteralKind.HEX if word == HEX else LiteralKind.BITS, token.text, charset)

    def parenthesized(self) -> str:
        """Steps over a balanced `( ... )` and returns the text between, as it was written."""
        if self.word != "(":
            self.fail("expected (")
        begin = self.offset + 1
        self.skip_parentheses()
        return self.text[begin : self.behind - 1].strip()

    def skip_parentheses(self) -> None:
        """Steps over a balanced `( ... )`."""
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

    def at_end(self) -> bool:
        """Whether nothing but a semicolon is left."""
        return self.word == END or (self.word == ";" and self.ahead(1) == END)
