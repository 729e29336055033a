"""Event tokens beside queries and data: what a server has executed, whether it has what a token covers, what a
session has just committed; and the token of a change row, of a published interval, of a mirror.
Not here: what tokens mean (`position/token.py`), their text (`position/token_text.py`), tokens of a stream
(`streams/`)."""

from strata_cdc.position.token import Order, Token, merge
from strata_cdc.position.token_text import from_text, to_text
from strata_cdc.tokens.made import of_change, of_executed
from strata_cdc.tokens.queries import compare, include, wait
from strata_cdc.tokens.session import own, remember

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
