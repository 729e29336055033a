"""Event tokens beside queries and data: what a server has executed, whether it has what a token stands for, what a
session has just committed; and the token of a change row, of a published interval, of a mirror.
Not here: what tokens mean (`gtid/token.py`), their text (`gtid/token_text.py`), tokens of a stream (`streams/`)."""

from strata.gtid.token import Order, Token, merge
from strata.gtid.token_text import from_text, to_text
from strata.tokens.made import of_change, of_executed
from strata.tokens.queries import compare, include, wait
from strata.tokens.session import own, remember

__all__ = [
    "Order",
    "Token",
    "compare",
    "from_text",
    "include",
    "merge",
    "of_change",
    "of_executed",
    "own",
    "remember",
    "to_text",
    "wait",
]
