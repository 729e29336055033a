"""Tokens that sqlglot takes, and that MySQL reads in another way or refuses: a statement with such tokens is refused.
Not here: quotes, comments and operators (`queries/statement_text.py`), what is parsed of them (`strict_parser.py`).

MySQL's lexer is sql/sql_lex.cc. A name may begin with a digit there, and a number ends where no more of it can follow:
`1e5x` is `1e5 AS x`, `1ex` a name, `5$` a name, `.5.5` two numbers."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlglot.tokenizer_core import Token


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_NUMBER: Final = re.compile(r"\d+|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d*", re.ASCII)
_NUMBER_AND_NAME: Final = re.compile(r"\d+(?:[eE][+-]?\d|\.)", re.ASCII)
_NUMBERS: Final = frozenset({TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING})
_NAMES: Final = frozenset({TokenType.VAR, *_NUMBERS})
_ENDS: Final = frozenset({TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.SEMICOLON, TokenType.WHERE,
                          TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT,
                          TokenType.SEPARATOR})  # fmt: skip
_BEFORE_ITEMS: Final = frozenset({TokenType.COMMA, TokenType.PLUS, TokenType.ALIAS})
_BEFORE_FIRST: Final = frozenset({TokenType.L_PAREN, TokenType.SELECT, TokenType.DISTINCT, TokenType.ORDER_BY,
                                  TokenType.GROUP_BY})  # fmt: skip
_NO_FIRST: Final = frozenset({TokenType.COMMA, TokenType.ALIAS})
_CALCULATED: Final = frozenset({TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD,
                                TokenType.DIV})  # fmt: skip
_DIRECTIONS: Final = frozenset({TokenType.ASC, TokenType.DESC})
_NO_OPERATORS: Final = frozenset({"==", "::"})
_STATES: Final = frozenset({TokenType.ISNULL, TokenType.NOTNULL})
_TESTS: Final = frozenset({TokenType.BETWEEN, TokenType.IN, TokenType.LIKE, TokenType.RLIKE})
_NO_STATE: Final = "ISNULL and NOTNULL as operators, which they are not"
_VALUES: Final = frozenset({*_NAMES, TokenType.STRING, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.NULL,
                            TokenType.TRUE, TokenType.FALSE})  # fmt: skip
_ADJACENT: Final = words(
    """ADDDATE BIT_AND BIT_OR BIT_XOR CAST COUNT CURDATE CURTIME DATE_ADD DATE_SUB EXTRACT GROUP_CONCAT JSON_ARRAYAGG
    JSON_OBJECTAGG MAX MID MIN NOW POSITION SESSION_USER STD STDDEV STDDEV_POP STDDEV_SAMP ST_COLLECT SUBDATE SUBSTR
    SUBSTRING SUM SYSDATE SYSTEM_USER TRIM VARIANCE VAR_POP VAR_SAMP"""
)
"""Functions that are no functions if a blank is before their parenthesis (sql/lex.h, `SYM_FN`; without
IGNORE_SPACE)."""
NO_FUNCTIONS: Final = words(
    """COLLATE COMBINED_PARAMETERIZED_AGG DATE_DIFF DATE_TO_DATE_STR DAY_OF_MONTH DAY_OF_WEEK DAY_OF_YEAR IIF
    JSON_EXTRACT_PATH_TEXT JSON_EXTRACT_SCALAR J_S_O_N_EXISTS J_S_O_N_OBJECT J_S_O_N_OBJECT_AGG LAST_DAY_OF_MONTH
    LEN LIKE MATCH_AGAINST NVL OPEN_J_S_O_N PARAMETERIZED_AGG SIGNUM STRING_AGG TIME_TO_STR TIME_TO_TIME_STR
    TS_OR_DS_TO_DATE TS_OR_DS_TO_DATE_STR VAR_MAP X_M_L_TABLE"""
)
"""Names of functions that sqlglot knows, and MySQL does not."""
_AGGREGATES: Final = words(
    "AVG BIT_AND BIT_OR BIT_XOR COUNT MAX MIN STD STDDEV STDDEV_POP STDDEV_SAMP SUM VARIANCE VAR_POP VAR_SAMP"
)
_WITH_ARGUMENTS: Final = words(
    """CEIL CEILING COUNT DATE_ADD DATE_SUB DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR FIELD FLOOR ISNULL MONTH MONTHNAME
    WEEKDAY YEAR"""
)
"""Functions that sqlglot reads without arguments, too."""
_CLAUSES: Final = {
    TokenType.WHERE: 1, TokenType.GROUP_BY: 2, TokenType.HAVING: 3, TokenType.ORDER_BY: 4, TokenType.LIMIT: 5,
}  # fmt: skip
"""The order of the clauses of a SELECT."""
_NO_CLAUSE: Final = 6
_TYPES_OF_CAST: Final = words(
    """CHAR CHARACTER NCHAR NATIONAL BINARY SIGNED UNSIGNED DATE DATETIME TIME DECIMAL DEC FLOAT DOUBLE REAL JSON YEAR
    POINT LINESTRING POLYGON MULTIPOINT MULTILINESTRING MULTIPOLYGON GEOMETRYCOLLECTION"""
)
"""sql/sql_yacc.yy, `cast_type`."""


def odd_token(tokens: Sequence[Token]) -> tuple[int, str] | None:
    """Where the first token is that MySQL reads in another way, and what it would have to be; None if there is none."""
    return next(iter((*_odd_tokens(tokens), *_odd_casts(tokens), *_odd_clauses(tokens), *_odd_ends(tokens))), None)


def _odd_tokens(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    for token in tokens:
        yield from _alone(token)
    for pair in pairwise(tokens):
        yield from ((pair[0].start, what) for is_odd, what in _ODD_PAIRS if is_odd(*pair))
    for triple in zip(tokens, tokens[1:], tokens[2:], strict=False):
        yield from ((triple[1].start, what) for is_odd, what in _ODD_TRIPLES if is_odd(*triple))


def _are_adjacent(before: Token, token: Token) -> bool:
    return before.end + 1 == token.start


def _is_alias_number(before: Token, token: Token) -> bool:
    return before.token_type is TokenType.ALIAS and token.token_type in _NUMBERS


def _has_no_blank(before: Token, token: Token) -> bool:
    if before.token_type is TokenType.DOT and token.token_type is TokenType.NUMBER and _are_adjacent(before, token):
        return "." in token.text
    return before.token_type in _NUMBERS and token.token_type in _NAMES and _are_adjacent(before, token)


def _has_blank(before: Token, token: Token) -> bool:
    return (
        before.token_type is TokenType.DOT and token.token_type is TokenType.NUMBER and not _are_adjacent(before, token)
    )


def _lacks_item(before: Token, token: Token) -> bool:
    if before.token_type in _BEFORE_ITEMS:
        return token.token_type in _ENDS
    return before.token_type in _BEFORE_FIRST and token.token_type in _NO_FIRST


def _is_no_text(before: Token, token: Token) -> bool:
    return before.token_type is TokenType.SEPARATOR and token.token_type is not TokenType.STRING


def _is_not_of_number(before: Token, token: Token) -> bool:
    return before.token_type in _CALCULATED and token.token_type is TokenType.NOT and token.text != "!"


def _has_two(before: Token, token: Token) -> bool:
    return (before.token_type, token.token_type) in _TOO_MANY


def _is_far_call(before: Token, token: Token) -> bool:
    is_call = token.token_type is TokenType.L_PAREN and before.token_type is not TokenType.IDENTIFIER
    return is_call and not _are_adjacent(before, token) and before.text.upper() in _ADJACENT


def _is_part_of_name(before: Token, token: Token) -> bool:
    kinds = before.token_type, token.token_type
    return TokenType.DOT in kinds and TokenType.STRING in kinds


def _is_state(before: Token, token: Token) -> bool:
    return before.token_type in _STATES and token.token_type is not TokenType.L_PAREN


def _is_not_of_test(before: Token, token: Token) -> bool:
    if before.token_type is not TokenType.NOT:
        return False
    return token.token_type is TokenType.IS or (before.text == "!" and token.token_type in _TESTS)


def _has_directions(before: Token, token: Token) -> bool:
    words = before.text.upper(), token.text.upper()
    return words in _NULLS or (before.token_type in _DIRECTIONS and token.token_type in _DIRECTIONS)


_TOO_MANY: Final = frozenset({
    (TokenType.FROM, TokenType.DOT), (TokenType.PLUS, TokenType.SELECT), (TokenType.STRAIGHT_JOIN, TokenType.JOIN),
    (TokenType.COMMA, TokenType.ALL), (TokenType.STAR, TokenType.EXCEPT),
})  # fmt: skip
_NULLS: Final = frozenset({("NULLS", "FIRST"), ("NULLS", "LAST")})
_ODD_PAIRS: Final[Sequence[tuple[Callable[[Token, Token], bool], str]]] = (
    (_has_no_blank, "a number and a name, or two numbers, without a blank between them"),
    (_has_blank, "a point and a number with a blank between them"),
    (_lacks_item, "nothing before or after a comma, a plus, AS or ORDER BY"),
    (_is_no_text, "SEPARATOR without a text"),
    (_is_not_of_number, "NOT after an operator: it needs parentheses"),
    (_has_two, "two words of which one is too many"),
    (_is_far_call, "a blank before the parenthesis of a function"),
    (_is_alias_number, "a number as a name"),
    (_is_part_of_name, "a text as a part of a name"),
    (_is_state, _NO_STATE),
    (_is_not_of_test, "NOT before IS, or `!` where NOT has to be"),
    (_has_directions, "a direction that MySQL does not have"),
)
"""Pairs of neighbours."""


def _is_null_test(first: Token, second: Token, third: Token) -> bool:
    is_not = second.token_type is TokenType.NOT and third.token_type is TokenType.NULL
    return is_not and first.token_type in _VALUES


def _lacks_unit(first: Token, second: Token, third: Token) -> bool:
    del second
    return first.token_type is TokenType.INTERVAL and third.token_type in {TokenType.COMMA, TokenType.R_PAREN}


def _is_star_of_nothing(first: Token, second: Token, third: Token) -> bool:
    return second.token_type is TokenType.STAR and first.token_type in _VALUES and third.token_type in _ENDS


def _is_all_of_value(first: Token, second: Token, third: Token) -> bool:
    is_first = second.token_type is TokenType.L_PAREN and third.token_type is TokenType.ALL
    return is_first and first.text.upper() not in _AGGREGATES


def _lacks_argument(first: Token, second: Token, third: Token) -> bool:
    is_first = second.token_type is TokenType.L_PAREN and third.token_type is TokenType.ORDER_BY
    return is_first and first.text.upper() == "GROUP_CONCAT"


_ODD_TRIPLES: Final[Sequence[tuple[Callable[[Token, Token, Token], bool], str]]] = (
    (_is_null_test, "NOT NULL without IS"),
    (_lacks_unit, "INTERVAL without a unit"),
    (_is_star_of_nothing, "nothing after *"),
    (_lacks_argument, "GROUP_CONCAT without its argument"),
    (_is_all_of_value, "ALL in a function that is no aggregate"),
)


def _odd_clauses(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    last = [0]
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            last.append(0)
        elif token.token_type is TokenType.R_PAREN and len(last) > 1:
            last.pop()
        elif token.token_type is TokenType.SELECT:
            last[-1] = 0
        elif _CLAUSES.get(token.token_type, _NO_CLAUSE) <= last[-1]:
            yield token.start, "a clause after one that it comes before"
        else:
            last[-1] = _CLAUSES.get(token.token_type, last[-1])


_COUNTED: Final = (
    (TokenType.L_PAREN, TokenType.R_PAREN, "a parenthesis without the other one"),
    (TokenType.WHEN, TokenType.THEN, "WHEN without THEN"),
)


def _odd_ends(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    if tokens and tokens[-1].token_type in _BEFORE_ITEMS:
        yield tokens[-1].start, f"nothing after {tokens[-1].text}"
    if tokens and tokens[-1].token_type in _STATES:
        yield tokens[-1].start, _NO_STATE
    for open_, close, what in _COUNTED:
        if sum((token.token_type is open_) - (token.token_type is close) for token in tokens):
            yield 0, what
    if tokens and tokens[0].token_type is TokenType.FROM:
        yield tokens[0].start, "FROM before SELECT"


def _odd_casts(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    are_casts: list[bool] = []
    has_name = False
    for before, token in pairwise(tokens):
        if token.token_type is TokenType.L_PAREN:
            are_casts.append(before.text.upper() == "CAST")
            is_name = before.token_type is not TokenType.IDENTIFIER
            has_name = is_name and before.text.upper() in _WITH_ARGUMENTS
        elif token.token_type is TokenType.R_PAREN and are_casts:
            if before.token_type is TokenType.L_PAREN and has_name:
                yield before.start, "a function without its arguments"
            are_casts.pop()
        elif before.token_type is TokenType.ALIAS and are_casts and are_casts[-1] and not _is_type_of_cast(token):
            yield token.start, f"CAST AS {token.text.upper()}, which is none of CHAR, SIGNED, DATE and the like"


def _is_type_of_cast(token: Token) -> bool:
    return token.text.upper() in _TYPES_OF_CAST


def _alone(token: Token) -> Iterator[tuple[int, str]]:
    if token.text in _NO_OPERATORS and token.token_type is not TokenType.STRING:
        yield token.start, f"the operator {token.text}, which there is not"
    if token.token_type is TokenType.NUMBER and not _NUMBER.fullmatch(token.text):
        yield token.start, "two numbers without a blank between them"
    if token.token_type is TokenType.VAR and _NUMBER_AND_NAME.match(token.text):
        yield token.start, "a number and a name without a blank between them"
