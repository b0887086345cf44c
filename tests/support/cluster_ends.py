"""Ledgers that a recovery writes where a cluster was lost."""

from ledgerfs.formats.pulsar_blob.end_uuids import end_uuid
from tests.support.entries import frame, metadata
from tests.support.ledgers import NAME, Offload, offload


def cluster_end(ledger_id: int, name: str = NAME) -> Offload:
    """Return the ledger that a recovery writes where it knows a cluster to be lost."""
    marker = frame(metadata(marker_type=22), b"")
    return offload([marker], ledger_id, name=name, uuid=end_uuid(ledger_id, name), created_ms=None, bookies=())
