"""URLs of servers: whatever a password has, it is taken as it is or refused with what to write."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.errors import SettingsError

PASSWORDS = st.text(st.sampled_from("a1%@:/?#[]&=+ é"), min_size=1, max_size=8)


@given(PASSWORDS, st.sampled_from(["db.example", "127.0.0.1"]))
def test_a_quoted_password_is_taken_as_it_is(password: str, host: str) -> None:
    found = ServerAddress.from_url(f"mysql://{quote(password, safe='')}:{quote(password, safe='')}@{host}:33/")
    assert (found.user, found.password, found.host, found.port) == (password, password, host, 33)


@given(PASSWORDS.filter(lambda text: "%" not in text))
def test_another_is_taken_as_it_is_or_refused(password: str) -> None:
    with suppress(SettingsError):
        found = ServerAddress.from_url(f"mysql://root:{password}@db.example:33/")
        assert (found.user, found.password, found.host, found.port) == ("root", password, "db.example", 33)


@pytest.mark.parametrize("password", ["pa/ss", "12/ss", "12?ss", "12#ss", "p@12/ss"])
def test_the_remedy_says_how(password: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ServerAddress.from_url(f"mysql://root:{password}@db.example:33/")
    assert "/ as %2F" in (caught.value.remedy or "")
