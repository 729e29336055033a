"""Refuses a choice of which some changes may not be known: not landed, not published, withheld, lost.
Not here: the choice itself (`choice.py`), what is not known of one table (`past/timeline.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.clock import from_micros
from strata_cdc.errors import PastUnknownError, StreamHoleError, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.mirrors.follow.published import Published
    from strata_cdc.past.timeline import UnknownChanges
    from strata_cdc.past.undo.choice import Choice, ChosenGtids
    from strata_cdc.past.undo.table_steps import TableSteps


def refuse_missing(choice: Choice, tables: list[TableSteps], stream: LandedStream, published: Published) -> list[str]:
    """What a reader has to know of later changes that are not known yet.

    Args:
        choice: The choice.
        tables: All of its tables, after their surveys.
        stream: The landed stream.
        published: How far changes are published.

    Raises:
        PastUnknownError: Chosen changes may be missing.
    """
    seqs = {seq for steps in tables for seq, _ in steps.orders}
    seqs |= {event.seq for steps in tables for event in steps.events}
    unfound = None if choice.gtids is None else choice.gtids.without(gtid for steps in tables for gtid in steps.gtids)
    if unfound is not None and not unfound.are_in(stream.executed_before(), stream.executed()):
        raise PastUnknownError(
            f"some of these transactions are not in the landed stream: {unfound.text}",
            source=stream.source,
            remedy="`strata run` lands and publishes what the server has; `strata status` shows from where on.",
        )
    for part in (part for steps in tables for part in steps.unknown):
        has_found = any(part.after < seq <= part.until for seq in seqs)
        if has_found or _may_have(part, choice, unfound, stream, published):
            raise PastUnknownError(
                f"changes after transaction {part.after} and up to {part.until} are not known, and some of them may be "
                f"chosen: {part.reason}",
                source=stream.source,
                table=str(part.name),
                remedy=f"`strata intervals --source {stream.source}` shows what is not published, `strata run` "
                "publishes it. Or name other tables (`--table`), or other transactions.",
            )
    return list(_notes(choice, tables, stream))


def _may_have(
    part: UnknownChanges, choice: Choice, unfound: ChosenGtids | None, stream: LandedStream, published: Published
) -> bool:
    """Whether a range that is not known may have chosen transactions."""
    if unfound is not None:
        try:
            return unfound.are_some_in(stream.executed_at(part.after), stream.executed_at(part.until))
        except (StreamHoleError, Usage):
            return not unfound.is_empty
    if choice.until is None and part.until >= stream.last_seq:
        # Up to now means up to what is published; a note says so.
        return False
    is_early = choice.until is not None and published.clock_at(part.after) > choice.until
    is_late = choice.since is not None and 0 < published.clock_at(part.until) < choice.since
    return not (is_early or is_late)


def _notes(choice: Choice, tables: list[TableSteps], stream: LandedStream) -> Iterator[str]:
    if choice.gtids is not None:
        return
    if choice.until is None or choice.until >= stream.clock:
        yield f"the stream has landed up to {from_micros(stream.clock)}: later changes are not in this script"
    for steps in tables:
        for part in steps.unknown:
            if part.until >= stream.last_seq:
                yield f"changes of {part.name} after transaction {part.after} are not in this script: {part.reason}"
