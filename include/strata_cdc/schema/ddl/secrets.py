"""Masks passwords in statements, so that no statement is stored or shown with one.

The text is searched, not parsed: it may be damaged, in any sql_mode, or of a kind that is never parsed.
In doubt, more is masked than is secret. Not here: reading statements (`ddl/`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.possessive import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

MASK = "***"

_GAP = r"(?>\s+|/\*(?!!)(?:[^*]|\*(?!/)){0,500}+\*/|/\*!\d*|\*/|--[^\n]*|\#[^\n]*)*+"
"""Between two words: blanks and comments, including executable ones. Repetitions are bounded, here and below: no text
may take time that grows with the square of its length."""
_QUOTED = {
    # With backslashes as MySQL reads them by default, and with sql_mode NO_BACKSLASH_ESCAPES.
    "escaped": r"""(?:'(?>[^'\\]|\\.|'')*+(?:'|\Z)|"(?>[^"\\]|\\.|"")*+(?:"|\Z))""",
    "plain": r"""(?:'(?>[^']|'')*+(?:'|\Z)|"(?>[^"]|"")*+(?:"|\Z))""",
}
_LEADS = (
    # CREATE and ALTER USER, GRANT; also what the server makes of them: IDENTIFIED WITH 'plugin' AS 'hash'.
    rf"\bIDENTIFIED{_GAP}(?:(?:WITH|VIA){_GAP}(?:%QUOTED%|\S+?){_GAP})?(?:BY|AS|USING){_GAP}"
    rf"(?:PASSWORD{_GAP}\(?{_GAP})?",
    rf"\bREPLACE{_GAP}(?=['\"])",
    # FEDERATED tables.
    rf"\bCONNECTION{_GAP}=?{_GAP}",
    # CREATE SERVER, CHANGE REPLICATION SOURCE, START REPLICA, PASSWORD(), a column of a table of users.
    rf"`?\b\w{{0,64}}(?:PASSWORD|PASSWD|PASSPHRASE|SECRET)\w{{0,64}}+`?{_GAP}(?::?={_GAP})?(?:\w+{_GAP}(?=\())?\(?{_GAP}",
    rf"\bSET{_GAP}PASSWORD\b(?>[^='\"]|%QUOTED%){{0,200}}+={_GAP}(?:\w+{_GAP})?\(?{_GAP}",
    rf"\bAUTHENTICATION_STRING{_GAP}=?{_GAP}",
)
_INNER = compiled(
    # Inside a text: JSON, as in ENGINE_ATTRIBUTE, and URLs.
    r'(?P<field>"\w{0,64}(?:password|passwd|secret|token)\w{0,64}"\s{0,9}:\s{0,9})(?P<value>"(?>[^"\\]|\\.)*+"?)'
    r"|(?P<login>://[^\s/:'\"]{0,200}+:)(?P<of_login>[^\s'\"]{1,300})(?=@)",
    re.IGNORECASE,
)


def _searched(quoted: str) -> re.Pattern[str]:
    string = rf"(?:(?:_\w+|[nxb])?{_GAP}{quoted}|0x[0-9a-f]+)"
    leads = "|".join(_LEADS).replace("%QUOTED%", quoted)
    return compiled(
        rf"(?P<lead>{leads})(?P<strings>{string}(?:{_GAP}{string})*+)"
        # All other quoted text, so that a word in a text or a name is not taken for a word of the statement.
        rf"|(?P<other>{quoted}|`[^`]*+`?|/\*(?!!)(?:[^*]|\*(?!/))*+(?:\*/|\Z)|--\s[^\n]*|\#[^\n]*)",
        re.IGNORECASE | re.DOTALL,
    )


_ESCAPED, _PLAIN = _searched(_QUOTED["escaped"]), _searched(_QUOTED["plain"])


def mask_secrets(statement: str) -> str:
    """The statement with `'***'` for each password; unchanged if it has none."""
    return _without(statement, lambda _: MASK)


def cover_secrets(statement: str) -> str:
    """The same with an equal number of characters, so that offsets into the statement stay valid."""
    return _without(statement, lambda secret: "*" * max(len(secret) - 2, 0))


def _without(statement: str, mask: Callable[[str], str]) -> str:
    def of_strings(match: re.Match[str]) -> str:
        if match["lead"] is None:
            return match[0]
        secret = match["strings"]
        return f"{match['lead']}'{mask(secret)}'" if len(secret) > 1 else match[0]

    def of_inner(match: re.Match[str]) -> str:
        if match["field"] is not None:
            return f'{match["field"]}"{mask(match["value"])}"'
        return match["login"] + mask(f"'{match['of_login']}'")

    text = _ESCAPED.sub(of_strings, statement)
    if "\\'" in text or '\\"' in text:
        text = _PLAIN.sub(of_strings, text)
    return _INNER.sub(of_inner, text)
