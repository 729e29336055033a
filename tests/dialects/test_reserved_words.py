"""Reserved words are the server's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.dialects.reserved_words import RESERVED

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer


@pytest.mark.mysql
def test_reserved_words_are_the_server_s(mysql_server: MysqlServer) -> None:
    with mysql_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT word FROM information_schema.keywords WHERE reserved = 1")
        assert {word for (word,) in cursor.fetchall()} == RESERVED
