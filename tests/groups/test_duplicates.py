"""What would come twice is refused: the same transaction of two sources, and two sources that are one server. The
witness is a set of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.events.batch import gtid_spans
from strata_cdc.errors import SettingsError
from strata_cdc.groups.duplicates import SeenTransactions, refuse_one_server
from strata_cdc.position.sets import Gtid, Sid
from tests.position.test_sets import A, B

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.position.sets import Span

SIDS = (Sid(A, ""), Sid(A, "tag"), Sid(B, ""))


class Came:
    """What has come of a source at once, as far as it is looked at here."""

    def __init__(self, gtids: list[tuple[int, int]]) -> None:
        self.gtids = gtids

    def gtid_spans(self) -> Iterator[tuple[Sid, Span]]:
        sids, numbers = (np.array([one[at] for one in self.gtids], np.int64) for at in (0, 1))
        return gtid_spans(SIDS, sids, numbers)


GTIDS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), GTIDS), max_size=12))
def test_a_transaction_of_two_sources_is_refused_and_no_other(arrivals: list[tuple[str, list[tuple[int, int]]]]):
    known, seen = dict[tuple[int, int], str](), SeenTransactions("orders")
    for source, gtids in arrivals:
        of_another = {one: known[one] for one in gtids if known.get(one, source) != source}
        if not of_another:
            seen.note(source, Came(gtids))  # type: ignore[arg-type]
            known.update(dict.fromkeys(gtids, source))
            continue
        with pytest.raises(SettingsError) as caught:
            seen.note(source, Came(gtids))  # type: ignore[arg-type]
        names = {str(Gtid(SIDS[sid], number)): other for (sid, number), other in of_another.items()}
        first, second = sorted((source, names[str(caught.value.gtid)]))
        assert f"{first} and {second} of the group orders" in caught.value.message
        return


def test_one_server_is_no_two_sources():
    refuse_one_server("orders", {"a": A, "b": B})
    with pytest.raises(SettingsError, match=f"a and c of the group orders are one server \\({A}\\)") as caught:
        refuse_one_server("orders", {"c": A, "b": B, "a": A})
    assert "groups.orders" in str(caught.value.remedy)
