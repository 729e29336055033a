"""What the lexer makes of a statement's characters: tokens, their places and their values, as the server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.errors import DdlError
from strata_cdc.flavour import Flavour
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.cursor import TokenCursor
from strata_cdc.schema.ddl.lexer import (
    ANSI_QUOTES,
    BITS,
    END,
    HEX,
    NAME,
    NATIONAL,
    NO_BACKSLASH_ESCAPES,
    NUMBER,
    PROGRAM,
    STRING,
    lex,
)
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.replay.catalog import Catalog
from tests.schema.differential import compare, run_and_record

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.lexer import Tokens
    from tests.mysql_server import MysqlServer

MODES = (0, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, ANSI_QUOTES | NO_BACKSLASH_ESCAPES)
NEWEST = 90704


def tokens_of(text: str, mode: int = 0, version: int = NEWEST) -> list[tuple[str, str]]:
    """Word and value of each token of a text that is whole."""
    tokens = lex(text, mode, Flavour.mysql(version))
    assert tokens.torn_at is None
    assert tokens.words[-1] == END
    return said(tokens)[:-1]


def said(tokens: Tokens) -> list[tuple[str, str]]:
    return [(word, tokens.value(position)) for position, word in enumerate(tokens.words)]


def words_of(text: str, version: int = NEWEST) -> list[str]:
    return [word for word, _ in tokens_of(text, version=version)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Create\ttable\n", [("CREATE", "Create"), ("TABLE", "table")]),
        ("a\v\f\rb", [("A", "a"), ("B", "b")]),
        ("é\u00a0\u3000\u0085 x", [(NAME, "é\u00a0\u3000\u0085"), ("X", "x")]),
        ("aé \u0131d", [(NAME, "aé"), (NAME, "\u0131d")]),
        ("(a,b);", [("(", "("), ("A", "a"), (",", ","), ("B", "b"), (")", ")"), (";", ";")]),
        ("a<=>b->>c", [("A", "a"), ("<=>", "<=>"), ("B", "b"), ("->>", "->>"), ("C", "c")]),
        ("_utf8 'x'", [("_UTF8", "_utf8"), (STRING, "x")]),
        ("`a``b` ``", [(NAME, "a`b"), (NAME, "")]),
        ("{#", [("{", "{")]),
        ("1e+", [("1E", "1e"), ("+", "+")]),
        ("a\0b", [("A", "a")]),
    ],
)
def test_words_and_operators(text: str, tokens: list[tuple[str, str]]):
    assert tokens_of(text) == tokens


@pytest.mark.parametrize(
    "word", ["1a", "5$", "$6", "_7", "0x", "0xg", "0X1F", "0B1", "0b2", "0b1e5", "0x1_2", "1e", "1ex", "x", "b", "N"]
)
def test_words_may_look_like_literals(word: str):
    assert tokens_of(f"({word})")[1] == (word.upper(), word)


@pytest.mark.parametrize("number", ["0", "5", "1.", ".5", "1.5", "1e5", "1E+5", "1.5e-3", "1.e2", ".5E3", "00012"])
@pytest.mark.parametrize("around", ["{}", " {} ", "({})", "-{}", "{},", "={}"])
def test_numbers(number: str, around: str):
    assert (NUMBER, number) in tokens_of(around.format(number))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1e5x", [(NUMBER, "1e5"), ("X", "x")]),
        ("1.a", [(NUMBER, "1."), ("A", "a")]),
        ("1.2.3", [(NUMBER, "1.2"), (NUMBER, ".3")]),
        ("0x1F x'1f' X''", [(HEX, "1F"), (HEX, "1f"), (HEX, "")]),
        ("0b01 b'01' B''", [(BITS, "01"), (BITS, "01"), (BITS, "")]),
        ("N'a''b' n'\\n'", [(NATIONAL, "a'b"), (NATIONAL, "\n")]),
        ("y'1' x\"41\"", [("Y", "y"), (STRING, "1"), ("X", "x"), (STRING, "41")]),
    ],
)
def test_literals(text: str, tokens: list[tuple[str, str]]):
    assert tokens_of(text) == tokens


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("d.1e5", ["d", "1e5"]),
        ("d.5", ["d", "5"]),
        ("1a.0x1F", ["1a", "0x1F"]),
        ("to.key.n", ["to", "key", "n"]),
        ("`d`.x", ["d", "x"]),
        ("d .x", ["x"]),
        (".x.1", ["x", "1"]),
        ("root@view.x VIEW", ["view.x"]),
    ],
)
def test_names_whatever_they_look_like(text: str, names: list[str]):
    assert [value for word, value in tokens_of(text) if word == NAME] == names


@pytest.mark.parametrize(("text", "words"), [("`d`.1e5", [NAME, NUMBER]), ("d .1a", ["D", NUMBER, "A"])])
def test_only_right_behind_a_word_a_dot_makes_a_name_of_digits(text: str, words: list[str]):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (r"'\0\b\n\r\t\Z\%\_\q\\\''", ["\0\b\n\r\t\x1a\\%\\_q\\'"]),
        ("'it''s' \"a\"\"b\"", ["it's", 'a"b']),
        ("'\"\"' \"''\"", ['""', "''"]),
        (r"'\\''' '\''''", ["\\'", "''"]),
        ("'-- # /* */ `'", ["-- # /* */ `"]),
        ("'a' 'b'", ["a", "b"]),
    ],
)
def test_strings(text: str, values: list[str]):
    assert tokens_of(text) == [(STRING, value) for value in values]


def test_quotes_by_mode():
    text = "\"a\\\" '\\'"
    assert tokens_of(text, ANSI_QUOTES | NO_BACKSLASH_ESCAPES) == [(NAME, "a\\"), (STRING, "\\")]
    assert tokens_of(text, NO_BACKSLASH_ESCAPES) == [(STRING, "a\\"), (STRING, "\\")]
    assert lex(text, ANSI_QUOTES, Flavour.mysql(NEWEST)).torn_at == 5
    assert lex(text, 0, Flavour.mysql(NEWEST)).torn_at == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a -- b\nc", ["A", "C"]),
        ("a --\nb", ["A", "B"]),
        ("a --\x01 b\nc", ["A", "C"]),
        ("a --", ["A"]),
        ("a--b", ["A", "-", "-", "B"]),
        ("a # b\nc", ["A", "C"]),
        ("a /* b /* c */ d", ["A", "D"]),
        ("a /*/ b */ c", ["A", "C"]),
        ("a /**/ b", ["A", "B"]),
        ("a */ b", ["A", "*", "/", "B"]),
        ("a */* b */ c", ["A", "*", "C"]),
        ("a /*!50100 b */ c", ["A", "B", "C"]),
        ("a /*!50100b*/c", ["A", "B", "C"]),
        ("a /*!090704 b*/ c", ["A", "B", "C"]),
        ("a /*!090705 b*/ c", ["A", "C"]),
        ("a /*!9 b*/ c", ["A", NUMBER, "B", "C"]),
        ("a /*!50100 b /*!50100 c */ d", ["A", "B", "C", "D"]),
        ("a /*!50100 b /*!50100 c */ d */", ["A", "B", "C", "D", "*", "/"]),
        ("a /*!50100 b /*!99999 c */ d */ e", ["A", "B", "D", "E"]),
        ("a /*!50100 b /* c */ d */ e", ["A", "B", "D", "E"]),
        ("a /*!99999 b /* c */ d /* e */ */ f", ["A", "F"]),
    ],
)
def test_comments(text: str, words: list[str]):
    assert words_of(text) == words


def test_programs_in_other_languages():
    assert tokens_of("AS $$ it's `1` $$ x") == [("AS", "AS"), (PROGRAM, "$$ it's `1` $$"), ("X", "x")]
    assert words_of("$a$ $$ $b$ $a$x") == [PROGRAM, "X"]
    assert words_of("a$$ $b a$b$c") == ["A$$", "$B", "A$B$C"]
    assert words_of("$$ $a$", version=80036) == ["$$", "$A$"]


@pytest.mark.parametrize(
    "torn",
    [
        *(
            "'",
            "'a",
            r"'a\'",
            '"',
            "`a",
            "`a\0`",
            "N'a",
            "x'4",
            "x'411'",
            "x'g'",
            "b'2'",
            "/*a",
            "/*/",
            "$$a$",
            "$a$ $$",
        ),
        *("/*!", "/*!50100a", "/*!50100a/*!50100b", "/*!99999", "/*!99999/**/"),
    ],
)
def test_what_has_no_end(torn: str):
    tokens = lex(f"s t {torn}", 0, Flavour.mysql(NEWEST))
    assert tokens.words[:2] == ["S", "T"]
    assert tokens.torn_at == 4


@pytest.mark.parametrize("torn", ["'a''", "`a``", '"a""', "N'a''"])
def test_a_doubled_quote_is_no_end(torn: str):
    assert lex(torn, 0, Flavour.mysql(NEWEST)).torn_at == len(torn) - 1


@given(st.text(), st.sampled_from(MODES), st.booleans())
def test_names_and_strings_come_back(text: str, mode: int, doubled: bool):
    escapes = not mode & NO_BACKSLASH_ESCAPES
    for kind, quote in ((NAME, "`"), (STRING, "'"), (NAME if mode & ANSI_QUOTES else STRING, '"')):
        if kind == NAME:
            text = text.replace("\0", "")  # no name has it
        within = text.replace("\\", "\\\\") if kind == STRING and escapes else text
        within = within.replace(quote, f"\\{quote}" if kind == STRING and escapes and not doubled else quote * 2)
        assert tokens_of(f"a {quote}{within}{quote} b", mode) == [("A", "a"), (kind, text), ("B", "b")]


PIECES = [
    *("--", "-- ", "/*", "*/", "/*!", "/*!50100 ", "/*!99999 ", "0x", "x'", "b'", "N'", "e5", "$$"),
    *"'\"`\\#\n.1$@(,=<ab\0\x7f é\u3000",
]
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join)
BLANKS = " \t\n\v\f\r"


@given(TEXTS, st.sampled_from(MODES), st.sampled_from([50744, 80036, NEWEST]))
def test_tokens_cover_all_but_blanks_and_comments(text: str, mode: int, version: int):
    tokens = lex(text, mode, Flavour.mysql(version))
    assert len(tokens.text) == len(text)
    at = 0
    for position, ((begin, end), word) in enumerate(zip(tokens.spans, tokens.words, strict=True)):
        assert at <= begin
        assert begin < end or word == END
        assert tokens.value(position) is not None
        between = tokens.opened(at, begin).strip(BLANKS)
        if tokens.torn_at is None and "\0" not in text:
            assert not between or between.startswith(("#", "--", "/*"))
        at = end


@given(TEXTS, st.sampled_from(MODES))
@example("--/*!*/", 0)
@example("/*! --*/ x", 0)
@example("---/*!99999 */-- \n-", 0)
def test_what_was_opened_reads_the_same_again(text: str, mode: int):
    tokens = lex(text, mode, Flavour.mysql(NEWEST))
    if tokens.torn_at is None:
        opened = tokens.opened(0, len(text))
        again = lex(opened, mode, Flavour.mysql(NEWEST))
        assert said(again) == said(tokens)
        assert again.opened(0, len(opened)) == opened


@given(TEXTS, st.sampled_from(MODES))
@example("a--/*!*/", 0)
@example("a -- b\n", 0)
@example("/*! a */", 0)
def test_what_stands_in_parentheses_reads_the_same_in_others(text: str, mode: int):
    context = DdlContext(sql_mode=mode, flavour=Flavour.mysql(NEWEST))
    try:
        cursor = TokenCursor(f"({text})", context)
        within = cursor.parenthesized()
    except DdlError:
        return
    again = TokenCursor(f"({within})", context)
    assert again.parenthesized() == within
    assert again.at_end()
    assert said(again.tokens)[:-1] == said(cursor.tokens)[: cursor.at]


@pytest.mark.parametrize("begin", ["", "'", "`", "/*", "/*!99999 ", "$$", "x'"])
@pytest.mark.parametrize("unit", ["a", "''", "\\'", "\\n", "/*", "* ", "/*!1 ", "$a", ".1", "x'4", "1e", "é", " "])
def test_long_text_neither_recurses_nor_takes_for_ever(begin: str, unit: str):
    assert lex(begin + unit * 100_000, 0, Flavour.mysql(NEWEST)).words[-1] == END


TAKEN = [
    "CREATE TABLE lexed.5 (a INT)",
    "CREATE TABLE lexed.1e5 (a INT)",
    "CREATE TABLE lexed.0x1F (1e INT, 1ex INT, 0x INT, 0xg INT, 0X1F INT, 0b12 INT, 0x1_2 INT, 1$ INT, 1é INT)",
    "CREATE TABLE lexed.select (x INT, n INT, b INT, a$b$c INT, a$$ INT, _other INT, 0b1e5 INT)",
    "ALTER TABLE lexed.select RENAME key.of",
    "ALTER TABLE key.of RENAME lexed.`select`, ADD é INT",
    "CREATE TABLE lengths (a TEXT(.300), b VARCHAR(.5), c CHAR(1.))",
    "CREATE TABLE numbers (a DOUBLE DEFAULT 1., b DOUBLE DEFAULT .5, c DOUBLE DEFAULT 1.e2, d DOUBLE DEFAULT -.5e-1)",
    "CREATE TABLE bytes (a VARCHAR(9) DEFAULT 0x414, b VARCHAR(9) DEFAULT X'', c BIT(3) DEFAULT b'101')",
    r"CREATE TABLE escapes (a VARCHAR(30) DEFAULT 'a\0\b\n\r\t\Z\%\_\q\\\'''', c ENUM('\\''', '\''''))",
    'CREATE TABLE quoted (`a``b` INT, ```` INT, c VARCHAR(9) DEFAULT "x""y\\"", d VARCHAR(9) DEFAULT N\'a\'\'b\')',
    "CREATE TABLE plain (a INT /* x /* y */, b INT /*/ x */, c INT AS (1 /* c */ + 2))",
    "CREATE TABLE dashes (a INT DEFAULT 1 --\x01COMMENT 'x'\n, b INT --\n # 'y\n, c INT DEFAULT (1--1))--",
    "CREATE TABLE both_end (a INT) /*!50000 COMMENT 'x' /*!50001 ENGINE=MyISAM */ AVG_ROW_LENGTH 5",
    "CREATE TABLE skipped (a INT) /*!50000 COMMENT 'x' /*!999990 y /* z */ */ ENGINE=MyISAM */ AVG_ROW_LENGTH 5",
    "CREATE TABLE versions (a INT /*!080000 COMMENT 'six'*/, b INT /*!80000COMMENT 'five'*/)",
    "CREATE TABLE blanks (a\u00a0b INT, c\u3000 INT, \u0085 INT,\vd\fINT\r)",
    "CREATE TABLE ends (a INT)\0",
    "CREATE TABLE ends_so (a INT) -- c\0",
    "CREATE TABLE ends_too (a INT);\0 x",
    "CREATE TABLE holds (a INT COMMENT 'x\0y') /* \0 */",
    "CREATE DEFINER=root@view.x SQL SECURITY INVOKER VIEW v AS SELECT 1 AS a",
    "CREATE DEFINER=root@trigger VIEW w AS SELECT 1 AS a",
]
REFUSED = [
    "CREATE TABLE `lexed`.1e6 (a INT)",
    "CREATE TABLE lexed .1e7 (a INT)",
    "CREATE TABLE odd (a VARCHAR(9) DEFAULT x'414')",
    "CREATE TABLE twice (a INT) /*!50000 COMMENT 'x' /*!50001 ENGINE=MyISAM */ */",
    "CREATE TABLE unclosed (a INT) /*!50000 COMMENT 'x'",
    "CREATE TABLE unclosed_too (a INT) /*!99999 x",
    "CREATE TABLE program (a INT, $$ INT)",
    "CREATE TABLE `nu\0l` (a INT)",
]


@pytest.mark.mysql
def test_the_server_reads_the_same(mysql_server: MysqlServer):
    connection, observer = mysql_server.connect(), mysql_server.connect()
    with observer.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS lexed")
        cursor.execute("DROP DATABASE IF EXISTS `key`")
        cursor.execute("RESET BINARY LOGS AND GTIDS")
    refused: list[str] = []
    statements = ["CREATE DATABASE `key`", "CREATE DATABASE lexed", "USE lexed", *TAKEN, *REFUSED]
    recorded = list(run_and_record(connection, observer, statements, refused.append))
    report = compare(Catalog(), mysql_server.binlog_dir / recorded[-1].file, recorded)
    connection.close()
    observer.close()
    assert refused == REFUSED
    assert report.gaps == {}
    # Others use the server, too.
    assert [text for _, text in report.differences if text.startswith(("lexed.", "key."))] == []


NO_BREAK_SPACES = {
    name: "\xa0".encode(charset.codec)
    for name, charset in CHARSETS.items()
    if charset.codec and not name.startswith(("ucs", "utf16", "utf32")) and "\xa0".encode(charset.codec, "ignore")
}
"""Charsets of clients, and the no-break space in them: a blank or a letter."""

SPACED = (
    b"CREATE TABLE t_(a_INT,_b INT COMMENT '_')",
    b"CREATE TABLE `u_` (a INT)--_x",
    b"ALTER TABLE t_ADD c INT",
)


@pytest.mark.mysql
@pytest.mark.parametrize(("charset", "space"), NO_BREAK_SPACES.items())
def test_a_no_break_space_is_what_the_server_takes_it_for(mysql_server: MysqlServer, charset: str, space: bytes):
    connection, observer = mysql_server.connect(), mysql_server.connect()
    with observer.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS spaced")
        cursor.execute("RESET BINARY LOGS AND GTIDS")
    statements = ["CREATE DATABASE spaced", "USE spaced", f"SET NAMES {charset}"]
    forms = [form.replace(b"_", space) for form in SPACED]
    recorded = list(run_and_record(connection, observer, [*statements, *forms]))
    report = compare(Catalog(), mysql_server.binlog_dir / recorded[-1].file, recorded)
    connection.close()
    observer.close()
    assert report.gaps == {}
    # Others use the server, too.
    assert [text for _, text in report.differences if text.startswith("spaced.")] == []
