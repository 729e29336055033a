"""What would come twice in a group: two of its sources are the same server, or have the same transactions.
Not here: what new sources of a switchover have of old sources; that is excluded (`copy_filter.py`).

A replica of another member has the member's transactions with the same GTIDs, but from another server and at other
times. This is detected when the same GTID comes from both. MariaDB's GTIDs name no server, but its number: servers
that have one number in one domain are taken for one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.groups.chunks import SpanTransactions
    from strata_cdc.position.sets import Span, Writer

_MOST: Final = 1 << 12
"""How many spans of numbers are kept for a source, for each server that has numbered some of its transactions. Usually
there is one span, which grows. In a copy, every transaction comes twice, so the newest spans are enough."""


def refuse_one_server(group: str, servers: Mapping[str, str]) -> None:
    """Refuses sources that are the same server.

    Args:
        servers: `ServerMoment.server_uuid` of the servers, by source.

    Raises:
        SettingsError: Two sources are the same server, or MariaDB servers with the same number in the same domain; both
            are named.
    """
    known: dict[str, str] = {}
    for source, uuid in sorted(servers.items()):
        other = known.setdefault(uuid, source)
        if other != source:
            raise SettingsError(
                f"{other} and {source} of the group {group} are one server ({uuid}): each change would come twice",
                source=source,
                remedy=f"Leave one of them out of `sources` of groups.{group}, or let its connection name another "
                "server. MariaDB servers with one server_id and one gtid_domain_id give the same GTIDs: let each have "
                "a server_id of its own.",
            )


class SeenTransactions:
    """Which transactions have come from each source of a group, by their GTIDs."""

    def __init__(self, group: str) -> None:
        """Takes the name of the group; nothing has come yet."""
        self._group = group
        self._spans: dict[Writer, dict[str, deque[Span]]] = {}

    def note(self, source: str, chunk: SpanTransactions) -> None:
        """Takes what has come from a source.

        Raises:
            SettingsError: Some of it has already come from another source; one such GTID is named.
        """
        for sid, span in chunk.gtid_spans():
            of_sid = self._spans.setdefault(sid, {})
            for other, spans in of_sid.items():
                number = None if other == source else _common(spans, span)
                if number is not None:
                    raise self._twice(sorted((source, other)), f"{sid}:{number}")
            _add(of_sid.setdefault(source, deque(maxlen=_MOST)), span)

    def _twice(self, sources: list[str], gtid: str) -> SettingsError:
        first, second = sources
        return SettingsError(
            f"{first} and {second} of the group {self._group} have the same transaction: what it changed would come "
            "twice",
            source=second,
            gtid=gtid,
            remedy=f"If one is a replica of the other, or both are of a third server, leave one out of `sources` of "
            f"groups.{self._group}; if one took over from the other, write a journal (docs/groups.md); if only some "
            "tables are copied to both, name the others: --table. MariaDB servers that had one server_id in one domain "
            "have such GTIDs, too: give each a server_id of its own, and begin after that.",
        )


def _common(spans: Iterable[Span], span: Span) -> int | None:
    """A number of a span that another span also has; None: there is no such number."""
    first, last = span
    return next((max(begin, first) for begin, end in spans if begin <= last and first <= end), None)


def _add(spans: deque[Span], span: Span) -> None:
    # This is another part of the last transaction, or what follows it.
    if spans and spans[-1][0] <= span[0] <= spans[-1][1] + 1:
        spans[-1] = spans[-1][0], max(spans[-1][1], span[1])
    else:
        spans.append(span)
