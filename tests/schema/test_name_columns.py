"""Names of tables in columns of the store come back as they were, those with dots, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.errors import DamagedFileError
from strata_cdc.schema.history.name_columns import names_from_column, names_to_column
from strata_cdc.schema.model.definition import TableName

PART = st.text(st.sampled_from('ab.`"é'), min_size=1, max_size=6)


@given(st.lists(st.builds(TableName, PART, PART), max_size=3))
def test_names_come_back(names: list[TableName]) -> None:
    assert names_from_column(names_to_column(names), "c") == tuple(names)


def test_what_former_versions_stored_is_read() -> None:
    assert names_from_column('["shop.items", "shop.a.b"]', "c") == (
        TableName("shop", "items"),
        TableName("shop", "a.b"),
    )


@pytest.mark.parametrize("text", ["", "{}", "[1]", '["items"]'])
def test_something_else_is_refused(text: str) -> None:
    with pytest.raises(DamagedFileError, match="statement_change"):
        names_from_column(text, "statement_change.tables")
