"""Random GTIDs and positions of MariaDB."""

from __future__ import annotations

from hypothesis import strategies as st

from strata_cdc.position.domains import DomainSet
from strata_cdc.position.sets import DomainWriter, Gtid

domain_gtids = st.builds(
    Gtid, st.builds(DomainWriter, st.sampled_from([0, 1, 4294967295]), st.integers(1, 3)), st.integers(1, 12)
)
domains = st.lists(domain_gtids, max_size=5).map(lambda gtids: DomainSet.parse(",".join(map(str, gtids))))
