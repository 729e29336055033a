"""Names in lower case, as MySQL folds them: tables depending on `lower_case_table_names`, columns and keys always.
Not here: collations of values.

One character stays one character, and characters that Unicode has added since its version 3.0 stay as they are
(`my_casedn_str` with utf8mb3_general_ci, whose pairs strings/ctype-utf8.cc has as `my_unicase_default`). Recorded from
MySQL 9.7.4 as `FIRST[-LAST/STEP]+DISTANCE`, in hexadecimal except for the step and the distance to the lower case.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_PAIRS: Final = """
41-5a/1+32 c0-d6/1+32 d8-de/1+32 100-12e/2+1 130-199 132-136/2+1 139-147/2+1 14a-176/2+1 178-121 179-17d/2+1
181+210 182-184/2+1 186+206 187+1 189-18a/1+205 18b+1 18e+79 18f+202 190+203 191+1 193+205 194+207 196+211
197+209 198+1 19c+211 19d+213 19f+214 1a0-1a4/2+1 1a6+218 1a7+1 1a9+218 1ac+1 1ae+218 1af+1 1b1-1b2/1+217
1b3-1b5/2+1 1b7+219 1b8+1 1bc+1 1c4+2 1c5+1 1c7+2 1c8+1 1ca+2 1cb-1db/2+1 1de-1ee/2+1 1f1+2 1f2-1f4/2+1 1f6-97
1f7-56 1f8-21e/2+1 222-232/2+1 386+38 388-38a/1+37 38c+64 38e-38f/1+63 391-3a1/1+32 3a3-3ab/1+32 3da-3ee/2+1
400-40f/1+80 410-42f/1+32 460-480/2+1 48c-4be/2+1 4c1-4c3/2+1 4c7+1 4cb+1 4d0-4f4/2+1 4f8+1 531-556/1+48
1e00-1e94/2+1 1ea0-1ef8/2+1 1f08-1f0f/1-8 1f18-1f1d/1-8 1f28-1f2f/1-8 1f38-1f3f/1-8 1f48-1f4d/1-8
1f59-1f5f/2-8 1f68-1f6f/1-8 1f88-1f8f/1-8 1f98-1f9f/1-8 1fa8-1faf/1-8 1fb8-1fb9/1-8 1fba-1fbb/1-74 1fbc-9
1fc8-1fcb/1-86 1fcc-9 1fd8-1fd9/1-8 1fda-1fdb/1-100 1fe8-1fe9/1-8 1fea-1feb/1-112 1fec-7 1ff8-1ff9/1-128
1ffa-1ffb/1-126 1ffc-9 2126-7517 212a-8383 212b-8262 2160-216f/1+16 24b6-24cf/1+26 ff21-ff3a/1+32
"""
_RUN: Final = re.compile(r"([0-9a-f]+)(?:-([0-9a-f]+)/(\d+))?([+-]\d+)")


def _lower_case() -> dict[int, int]:
    mapping: dict[int, int] = {}
    for first, last, step, distance in _RUN.findall(_PAIRS):
        begin = int(first, 16)
        for upper in range(begin, int(last or first, 16) + 1, int(step or 1)):
            mapping[upper] = upper + int(distance)
    return mapping


_LOWER_CASE: Final = _lower_case()


@lru_cache(maxsize=1 << 16)
def fold_name(name: str) -> str:
    """A name in lower case: to MySQL, two columns or keys have the same name if these are equal."""
    return name.lower() if name.isascii() else name.translate(_LOWER_CASE)
