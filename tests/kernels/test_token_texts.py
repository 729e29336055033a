"""Texts of which some numbers differ are those that are packed, sealed and written one by one."""

from __future__ import annotations

import base64
import zlib

import msgspec
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.streams.token_texts import sealed

NUMBERS = st.sampled_from([0, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, 1 << 55]).flatmap(
    lambda base: st.integers(max(0, base - 2), base + 2)
)


@st.composite
def patterns(draw: st.DrawFn) -> list[bytes | list[int]]:
    """What is packed: bytes, or a number of each text, one at least."""
    count = draw(st.integers(1, 5))
    numbers = st.lists(NUMBERS, min_size=count, max_size=count)
    found = draw(st.lists(numbers | st.binary(max_size=90), max_size=6))
    return [*found, draw(numbers), draw(st.binary(max_size=3))]


@given(patterns(), st.sampled_from([b"", b"."]))
@example([[255, 256, 255, 257]], b"")
@example([b"a" * 61, [1 << 32, 1, 1 << 32], b"b", [7, 7, 8]], b".")
def test_each_is_made_of_the_one_before(parts: list[bytes | list[int]], end: bytes):
    columns = [part if isinstance(part, bytes) else np.array(part, np.int64) for part in parts]
    texts, crcs = sealed(b"v1.", columns, end)
    wanted = []
    for at in range(len(texts)):
        body = b"".join(part if isinstance(part, bytes) else msgspec.msgpack.encode(part[at]) for part in parts)
        whole = base64.urlsafe_b64encode(zlib.crc32(body).to_bytes(4, "big") + body).rstrip(b"=")
        wanted.append((b"v1." + whole + end, zlib.crc32(body)))
    found = [texts.data[begin:stop].tobytes() for begin, stop in zip(texts.starts, texts.starts[1:], strict=False)]
    assert list(zip(found, crcs.tolist(), strict=True)) == wanted
