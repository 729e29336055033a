from __future__ import annotations

from ipaddress import IPv4Address
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels import address_texts


def texts(kernel, values: list[bytes | None], longest: int) -> list[str | None]:
    sizes = np.concatenate(([0], np.cumsum([len(value or b"") for value in values]))).astype(np.int32)
    data = np.frombuffer(bytearray(b"".join(value or b"" for value in values)), np.uint8)
    offsets, out = np.empty(len(values) + 1, np.int32), np.empty(longest * len(values), np.uint8)
    assert kernel(data, sizes, offsets, out) == offsets[-1]
    return [bytes(out[offsets[at] : offsets[at + 1]]).decode() or None for at in range(len(values))]


@given(st.lists(st.none() | st.binary(min_size=16, max_size=16), min_size=1))
def test_uuids_are_what_python_says(values):
    expected = [None if value is None else str(UUID(bytes=value)) for value in values]
    assert texts(address_texts.uuid_texts, values, address_texts.UUID_BYTES) == expected


@given(st.lists(st.none() | st.binary(min_size=4, max_size=4), min_size=1))
def test_addresses_of_four_bytes_are_what_python_says(values):
    expected = [None if value is None else str(IPv4Address(value)) for value in values]
    assert texts(address_texts.inet4_texts, values, address_texts.INET4_BYTES) == expected


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ("0 0 0 0 0 0 0 0", "::"),
        ("0 0 0 0 0 0 0 1", "::1"),
        ("0 0 0 0 0 0 102 304", "::1.2.3.4"),
        ("0 0 0 0 0 0 0 304", "::304"),
        ("0 0 0 0 0 ffff c000 0280", "::ffff:192.0.2.128"),
        ("0 0 0 0 ffff 0 102 304", "::ffff:0:102:304"),
        ("70 ef59 0 46 1 2 3 4", "70:ef59::46:1:2:3:4"),
        ("1 0 0 2 0 0 3 4", "1::2:0:0:3:4"),
        ("1 2 3 4 5 6 7 0", "1:2:3:4:5:6:7::"),
        ("0 1 2 3 4 5 6 abcd", "::1:2:3:4:5:6:abcd"),
    ],
)
def test_addresses_of_sixteen_bytes_are_what_mariadb_prints(numbers, text):
    """As MariaDB 11.8 gives them; it also shortens a zero that stands alone, as Python does not."""
    value = b"".join(int(number, 16).to_bytes(2, "big") for number in numbers.split())
    assert texts(address_texts.inet6_texts, [value, None, value], address_texts.INET6_BYTES) == [text, None, text]
