"""Any lists of ledgers that a managed ledger's node may have, for tests by properties."""

from hypothesis import strategies as st

from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    Position,
)

MAX_INT64 = 2**63 - 1

counts = st.integers(0, MAX_INT64)
sizes = st.integers(0, 2**55)
times = st.integers(1, MAX_INT64)
text = st.text(st.characters(codec="utf-8"), max_size=8)
properties = st.lists(st.tuples(text, text), max_size=3).map(tuple)
positions = st.builds(Position, st.integers(-1, MAX_INT64), st.integers(-1, MAX_INT64))
contexts = st.builds(
    OffloadContext,
    uuid=st.none() | st.uuids().map(str),
    is_complete=st.booleans(),
    is_deleted_from_bookkeeper=st.booleans(),
    offloaded_ms=st.none() | times,
    driver=st.none() | text.filter(bool),
    properties=properties,
    segments=st.integers(0, 3),
)
ledgers = st.builds(LedgerInfo, counts, sizes, sizes, counts, st.none() | contexts, properties)
infos = st.builds(
    ManagedLedgerInfo,
    st.lists(ledgers, max_size=4, unique_by=lambda one: one.ledger_id).map(tuple),
    st.none() | positions,
    properties,
)
