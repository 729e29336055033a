"""Checks of the single fields of a run's form: an error says what is wrong, with an example of a correct value.
Not here: the forms, and checks of several fields together (`airflow/forms.py`); checking before a run starts
(`airflow/plugins/form_words.py`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from strata_cdc.clock import to_micros
from strata_cdc.errors import InvalidGtidSetError, Usage
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.model.patterns import require_matchable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MOST_SHOWN: Final = 60
"""Characters of a value that an error repeats."""


def micros_of(time: str | None) -> int | None:
    """A time as text, as microseconds UTC. Airflow's own times are converted here too: differences of its times cannot
    be divided.

    Raises:
        Usage: The text is no time, or has no zone.
    """
    try:
        return to_micros(datetime.fromisoformat(time)) if time else None
    except ValueError:
        raise _no_time(time) from None


def check_time(value: object) -> None:
    """A time with a zone, or nothing.

    Raises:
        Usage: It is neither.
    """
    if value is not None and not isinstance(value, str):
        raise _no_time(value)
    micros_of(value)


def check_gtid_set(value: object) -> None:
    """A GTID set with transactions in it, or nothing.

    Raises:
        Usage: It is neither.
    """
    remedy = "Write a GTID set, as in 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5."
    if value is not None and not isinstance(value, str):
        raise Usage(f"{_shown(value)} is no GTID set", remedy=remedy)
    try:
        wanted = parse_executed(value or "")
    except InvalidGtidSetError as error:
        raise Usage(f"{_shown(value)} is no GTID set: {error.message}", remedy=remedy) from None
    # As for a server, 9-5 is a range without a number in it.
    if value and not wanted:
        raise Usage(f"the GTID set {_shown(value)} is empty", remedy=remedy)


def check_tables(value: object) -> None:
    """A list of patterns of tables, or nothing.

    Raises:
        Usage: It is neither, or a pattern can match no table.
    """
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(pattern, str) for pattern in value):
        raise Usage(
            f"{_shown(value)} is no list of tables",
            remedy='Write a pattern of database.table a line, as in shop.orders; in JSON ["shop.orders", "app.*"].',
        )
    if not value:
        raise Usage("tables is an empty list", remedy="Leave it out for all tables.")
    require_matchable(value)


def check_switch(value: object) -> None:
    """On or off.

    Raises:
        Usage: It is neither.
    """
    if not isinstance(value, bool):
        raise Usage(f"{_shown(value)} is neither true nor false", remedy="Write it as in true, without quotes.")


def check_count(value: object) -> None:
    """A number of rows, or nothing.

    Raises:
        Usage: It is neither.
    """
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise Usage(f"{_shown(value)} is no number of rows", remedy="Write a whole number from 1 on, as in 1000.")


TIME, GTID_SET, TABLES, SWITCH, COUNT = (f"strata-{name}" for name in ("time", "gtid-set", "tables", "switch", "count"))
"""Kinds of fields, as the JSON schemas of forms call their formats."""
CHECKS: Final[Mapping[str, Callable[[object], None]]] = {
    TIME: check_time,
    GTID_SET: check_gtid_set,
    TABLES: check_tables,
    SWITCH: check_switch,
    COUNT: check_count,
}
"""The check of a value by the kind of its field."""


def _no_time(value: object) -> Usage:
    return Usage(f"{_shown(value)} is no time with a zone", remedy="Write it as in 2026-11-21T03:30:00Z.")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
