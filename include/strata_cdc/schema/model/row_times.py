"""The columns with the time of a row in system-versioned tables of MariaDB: what generates them, and the end that
current rows have there.
Not here: which tables have such columns (`schema/apply/system_time.py`), images of rows (`tables/current_rows.py`)."""

from __future__ import annotations

from typing import Final

ROW_START: Final = "ROW START"
ROW_END: Final = "ROW END"
"""The generation expressions, as information_schema has them."""
ROW_TIMES: Final = frozenset({ROW_START, ROW_END})
FOREVER: Final = (2**31 * 10**6 - 1, 2**32 * 10**6 - 1)
"""The end of current rows, microseconds UTC: the last moment that a TIMESTAMP(6) has before MariaDB 11.5, and from then
on."""
WIDER_SINCE: Final = (11, 5)
