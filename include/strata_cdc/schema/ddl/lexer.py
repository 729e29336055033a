"""MySQL's lexer, and MariaDB's: a statement, its `sql_mode` and the server's version in, tokens and their offsets out.
Not here: the grammar (`ddl/`), the client's charset (`context.py`), cutting scripts into statements (`script.py`)."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from strata_cdc.schema.ddl.possessive import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.flavour import Flavour

ANSI_QUOTES: Final = 0x4
NO_BACKSLASH_ESCAPES: Final = 0x100000
MSSQL: Final = 0x400  # MariaDB: names may be in brackets

NAME, STRING, NUMBER, HEX, BITS, NATIONAL, PROGRAM, END = "``", "''", "#", "#x", "#b", "n''", "$$", ""
"""The entries in `words` for tokens that are neither words nor operators; no word or operator equals one of them."""

_PROGRAMS_SINCE = (8, 1, 0)  # `$$ ... $$`; before, `$` is a letter everywhere

# The characters of a name without quotes: ASCII letters, digits, `_`, `$`, and all characters that are not ASCII,
# including blanks of other alphabets (strings/sql_chars.cc, `init_state_maps`).
_PART = r"[^\0-#%-/:-@[-^`{{-\x7f{blank}]"
_TAG = r"\$ [^\0-/:-@[-^`{-\x7f]*+ \$"
_NOTHING = "(?!)"
# A doubled quote ends one part and begins the next.
_NAME_IN = r"(?: {0} [^{0}\0]*+ {0} )++"
_NAME_IN_BRACKETS = r"\[ [^\]\0]*+ (?: \]\] [^\]\0]*+ )*+ \]"
_STRING_IN = "(?: {0} [^{0}]*+ {0} )++"
_ESCAPED_IN = r"(?: {0} [^{0}\\]*+ (?: \\. [^{0}\\]*+ )*+ {0} )++"

# Blanks and one token, as sql/sql_lex.cc, `lex_one_token`, reads it (8.0 to 9.7). No repetition backtracks (`*+`,
# `++`), so that a text without an end is read only once. `usual` matches most tokens; a word there is ASCII, and no dot
# with a name follows it.
_ANY = r"""
    [ \t-\r{blank}]*+ (?:
      (?P<usual> (?: [AC-MO-WYZ_ac-mo-wyz] | [BNXbnx](?!') ) [$0-9A-Z_a-z]*+ (?! \.{part} | [^\0-\x7f] ) | [(),;=] )
    | (?P<name> {name} )
    | (?P<string> {string} )
    | (?P<number>
        [0-9]++ (?: [Ee][+-]?[0-9]++ | (?!{part}) (?: \.[0-9]*+ (?: [Ee][+-]?[0-9]++ )? )? )
        | \.[0-9]++ (?: [Ee][+-]?[0-9]++ )? )
    | (?P<hex> 0x[0-9A-Fa-f]++ (?!{part}) | [Xx]' (?: [0-9A-Fa-f]{{2}} )*+ ' )
    | (?P<bits> 0b[01]++ (?!{part}) | [Bb]'[01]*+' )
    | (?P<national> [Nn]{text} )
    | (?P<comment> (?: \# | -- (?= [\0-\ \x7f{blank}] | \Z ) ) [^\0\n]*+ | /\* (?!{mark}) .*? \*/ )
    | (?P<open> /\*{mark} )
    | (?P<close> \*/ )
    | (?P<program> {tag} )
    | (?P<torn> /\* | ["'`] | [BNXbnx]' )
    | (?P<word> {part}++ ) (?P<path> (?: \.{part}++ )++ )?
    | (?P<dotted> (?: \.{part}++ )++ )
    | @ (?P<host> [^\0-#%-\-/:-@[-^`{{-\x7f{blank}]++ )
    | (?P<operator> <=>? | <> | << | >= | >> | != | && | \|\| | := | ->>? | [^\0] )
    | (?P<end> \0 | \Z )
    )
"""
_LITERALS = {
    "name": NAME,
    "string": STRING,
    "number": NUMBER,
    "hex": HEX,
    "bits": BITS,
    "national": NATIONAL,
}

_VERSION = re.compile(r"[0-9]{5}(?:[0-9](?=[ \t-\r]))?")
_VERSION_OF_MARIADB = re.compile(r"[0-9]{5,6}")
_FIRST_OF_MYSQL_ONLY, _LAST_OF_MYSQL_ONLY = 50700, 99999
_DASHES = re.compile(r"--+\Z")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@cache
def _scanner(
    ansi_quotes: int, no_escapes: int, brackets: int, tag: str, blank: str, mark: str
) -> Callable[[str, int], Iterator[re.Match[str]]]:
    """A function that yields the tokens of a text from an offset on."""
    text = _STRING_IN if no_escapes else _ESCAPED_IN
    name, string = _NAME_IN.format("`"), text.format("'")
    if ansi_quotes:
        name += "|" + _NAME_IN.format('"')
    else:
        string += "|" + text.format('"')
    if brackets:
        name += "|" + _NAME_IN_BRACKETS
    part = _PART.format(blank=blank)
    pattern = _ANY.format(part=part, name=name, string=string, text=text.format("'"), tag=tag, blank=blank, mark=mark)
    return compiled(pattern, re.VERBOSE | re.DOTALL).finditer


class Tokens:
    """The tokens of a statement; `words` and `spans` have one entry for each token, and one for the end."""

    __slots__ = ("blanked", "escapes", "spans", "text", "torn_at", "words")

    def __init__(self, statement: str, sql_mode: int) -> None:
        self.text = statement
        self.words: list[str] = []
        """An upper-case word, an operator, or one of the marks above."""
        self.spans: list[tuple[int, int]] = []
        """The begin and end of each token in `text` (characters)."""
        self.blanked: list[tuple[int, int]] = []
        """The ranges of `text` that are not part of the statement: the begin and end marks of executable comments, and
        executable comments for other versions."""
        self.torn_at: int | None = None
        """The begin of a quote or comment that has no end, or of a literal with an invalid digit; None if the text is
        whole."""
        self.escapes = not sql_mode & NO_BACKSLASH_ESCAPES

    def value(self, ordinal: int) -> str:
        """The value of a token: the content of a quoted name or string, the digits of `x'41'`, the text of other
        tokens."""
        begin, end = self.spans[ordinal]
        text = self.text[begin:end]
        word = self.words[ordinal]
        if word == NAME:
            quote = text[0]
            quote = "]" if quote == "[" else quote
            return text[1:-1].replace(quote * 2, quote) if quote in '`"]' else text
        if word == STRING:
            return self._unquoted(text)
        if word == NATIONAL:
            return self._unquoted(text[1:])
        return text[2:].rstrip("'") if word in {HEX, BITS} else text

    def opened(self, begin: int, end: int) -> str:
        """The text between two offsets of `text`, with blanks for ranges that are not part of the statement: a later
        reader gets the same tokens."""
        texts: list[str] = []
        for first, last in self.blanked:
            if begin <= first < end:
                # Two operators, which would become a comment if a blank followed them.
                texts += (_DASHES.sub(_apart, self.text[begin:first]), " " * (last - first))
                begin = last
        return "".join(texts) + self.text[begin:end]

    def expression(self, first: int, last: int) -> str:
        """The text from one token to another, for readers in the default sql_mode: quoted names are in backticks
        (ANSI_QUOTES; MariaDB's MSSQL), and backslashes of texts are escaped (NO_BACKSLASH_ESCAPES)."""
        begin, pieces = self.spans[first][0], []
        for ordinal in range(first, last + 1):
            start, end = self.spans[ordinal]
            text = changed = self.text[start:end]
            if self.words[ordinal] in {STRING, NATIONAL}:
                changed = text if self.escapes else text.replace("\\", "\\\\")
            elif self.words[ordinal] == NAME and text[0] in '"[':
                changed = f"`{self.value(ordinal).replace('`', '``')}`"
            if changed != text:
                pieces += [self.opened(begin, start), changed]
                begin = end
        return "".join(pieces) + self.opened(begin, self.spans[last][1])

    def _unquoted(self, literal: str) -> str:
        """A string's value, as `get_text` computes it (sql/sql_lex.cc)."""
        quote = literal[0]
        text = literal[1:-1].replace(quote * 2, quote)
        if self.escapes and "\\" in text:
            return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), text)
        return text


def lex(statement: str, sql_mode: int, flavour: Flavour, *, no_break_space_is_blank: bool = False) -> Tokens:
    """The tokens of a statement, as a server of that version reads them.

    Args:
        statement: Its text.
        sql_mode: Of the session; two of its bits affect quotes.
        flavour: Of the server that runs it.
        no_break_space_is_blank: Whether U+00A0 ends a name; else it is a letter. That depends on the client's charset.
    """
    return _Lexing(statement, sql_mode, flavour, "\xa0" if no_break_space_is_blank else "").run()


class _Lexing:
    """One pass over a statement."""

    __slots__ = ("flavour", "open_at", "scan", "tokens")

    def __init__(self, statement: str, sql_mode: int, flavour: Flavour, blank: str) -> None:
        self.tokens = Tokens(statement, sql_mode)
        self.flavour = flavour
        tag = _TAG if flavour.is_mysql(*_PROGRAMS_SINCE) else _NOTHING
        mark = "M?!" if flavour.is_mariadb() else "!"
        brackets = sql_mode & MSSQL if flavour.is_mariadb() else 0
        self.scan = _scanner(sql_mode & ANSI_QUOTES, sql_mode & NO_BACKSLASH_ESCAPES, brackets, tag, blank, mark)
        self.open_at: int | None = None
        """The begin of the executable comment that is being read. A nested one does not end by itself: the next `*/`
        ends both (`Lex_input_stream::in_comment`)."""

    def run(self) -> Tokens:
        tokens = self.tokens
        at: int | None = 0
        while at is not None:
            at = self.read_from(at)
        if tokens.torn_at is None:
            tokens.torn_at = self.open_at
        end = len(tokens.text)
        tokens.words.append(END)
        tokens.spans.append((end, end))
        return tokens

    def read_from(self, at: int) -> int | None:
        """Reads tokens up to one after which reading continues elsewhere; returns that offset, None if the text is at
        its end."""
        words, spans = self.tokens.words, self.tokens.spans
        for match in self.scan(self.tokens.text, at):
            kind = match.lastgroup or ""
            if kind == "usual":
                words.append(match[kind].upper())
            elif kind in _LITERALS:
                words.append(_LITERALS[kind])
            elif kind == "operator":
                words.append(match[kind])
            elif kind in _TURNS:
                return _TURNS[kind](self, match.start(kind), match.end())
            else:
                _ADDERS[kind](self, match)
                continue
            spans.append(match.span(kind))
        return None

    def add(self, word: str, begin: int, end: int) -> None:
        self.tokens.words.append(word)
        self.tokens.spans.append((begin, end))

    # More than one token, or none ---------------------------------------------------------------

    def pass_comment(self, match: re.Match[str]) -> None:
        pass

    def add_word(self, match: re.Match[str]) -> None:
        # Not every character whose upper case is a letter is a keyword's letter: the dotless i would become `I`.
        word = match["word"]
        self.add(word.upper() if word.isascii() else NAME, *match.span("word"))

    def add_word_and_path(self, match: re.Match[str]) -> None:
        """A word with a dot and a name directly after it is no keyword, and the name is none either
        (`MY_LEX_IDENT_SEP`)."""
        self.add(NAME, *match.span("word"))
        self.add_parts(match.start("path"), match["path"])

    def add_path(self, match: re.Match[str]) -> None:
        self.add_parts(match.start("dotted"), match["dotted"])

    def add_parts(self, at: int, path: str) -> None:
        for name in path.split(".")[1:]:
            self.add(".", at, at + 1)
            self.add(NAME, at + 1, at + 1 + len(name))
            at += 1 + len(name)

    def add_host(self, match: re.Match[str]) -> None:
        """A variable or a host, `root@db1.example`, is one token (`MY_LEX_HOSTNAME`)."""
        begin, end = match.span("host")
        self.add("@", begin - 1, begin)
        self.add(NAME, begin, end)

    # Tokens after which reading continues elsewhere -------------------------------------------------

    def open_comment(self, begin: int, end: int) -> int | None:
        """`/*!50100 ...` is read since that version, `/*! ...` always; `/*M!100100 ...` only by MariaDB."""
        text = self.tokens.text
        version = (_VERSION_OF_MARIADB if self.flavour.is_mariadb() else _VERSION).match(text, end)
        if version and not self.runs(int(version[0]), is_own=text[begin + 2] == "M"):
            end = _end_of_skipped(text, end)
            if end < 0:
                self.tokens.torn_at = begin
                return None
            return self.blank(begin, end)
        if self.open_at is None:
            self.open_at = begin
        return self.blank(begin, version.end() if version else end)

    def runs(self, version: int, *, is_own: bool) -> bool:
        """Whether the server executes a comment for a version. MariaDB passes over those for MySQL 5.7 and later
        (sql/sql_lex.cc, `lex_one_token`)."""
        if self.flavour.is_mariadb() and not is_own and _FIRST_OF_MYSQL_ONLY <= version <= _LAST_OF_MYSQL_ONLY:
            return False
        return version <= self.flavour.number

    def close_comment(self, begin: int, end: int) -> int:
        if self.open_at is None:
            self.add("*", begin, begin + 1)
            return begin + 1
        self.open_at = None
        return self.blank(begin, end)

    def blank(self, begin: int, end: int) -> int:
        self.tokens.blanked.append((begin, end))
        return end

    def pass_program(self, begin: int, end: int) -> int | None:
        """A program in another language ends at the tag with which it began (`get_dollar_quoted_text`)."""
        text = self.tokens.text
        close = text.find(text[begin:end], end)
        if close < 0:
            self.tokens.torn_at = begin
            return None
        after = close + end - begin
        self.add(PROGRAM, begin, after)
        return after

    def tear(self, begin: int, _end: int) -> None:
        self.tokens.torn_at = begin

    def finish(self, _begin: int, _end: int) -> None:
        """The end, or a NUL: the parser ignores everything after it, so the server has run the text before it."""


_ADDERS = {
    "comment": _Lexing.pass_comment,
    "word": _Lexing.add_word,
    "path": _Lexing.add_word_and_path,
    "dotted": _Lexing.add_path,
    "host": _Lexing.add_host,
}
_TURNS: dict[str, Callable[[_Lexing, int, int], int | None]] = {
    "open": _Lexing.open_comment,
    "close": _Lexing.close_comment,
    "program": _Lexing.pass_program,
    "torn": _Lexing.tear,
    "end": _Lexing.finish,
}


def _end_of_skipped(text: str, at: int) -> int:
    """The end of an executable comment that is skipped; it may contain comments, which contain no further ones
    (`consume_comment`). Negative if it has no end."""
    close, inner = text.find("*/", at), text.find("/*", at)
    while 0 <= inner < close:
        at = text.find("*/", inner + 2) + 2
        if at < 2:
            return -1
        close, inner = text.find("*/", at), text.find("/*", at)
    return close + 2 if close >= 0 else -1


def _apart(dashes: re.Match[str]) -> str:
    return " ".join(dashes[0])
