"""Names of tables as people write them."""

from __future__ import annotations

import pytest

from strata_cdc.errors import Usage
from strata_cdc.schema.model.definition import TableName


def test_a_text_is_database_and_table() -> None:
    assert TableName.parse("shop.orders") == TableName("shop", "orders")


def test_a_name_stays_as_it_is() -> None:
    assert TableName.parse(TableName("a.b", "c")) == TableName("a.b", "c")


@pytest.mark.parametrize("text", ["orders", "a.b.c", ""])
def test_what_could_be_several_names_or_none_is_refused(text: str) -> None:
    with pytest.raises(Usage, match="not the name of one table"):
        TableName.parse(text)
