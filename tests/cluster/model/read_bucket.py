"""What somebody reads who opens a bucket into which clusters were restored, whatever was copied, repaired or trimmed there since."""

from ledgerfs import open_bucket
from ledgerfs.formats.topic_names import topic_of
from tests.cluster.model.written_ledgers import WrittenLedgers, values


def compare_bucket(url: str, ledgers: WrittenLedgers, reported: str) -> None:
    """See to it that readers get of each topic the messages that were committed, as far as their ends are in the bucket."""
    bucket = open_bucket(url)
    catalog = bucket.refresh()
    for name in catalog.managed_ledgers:
        if name is None or catalog.absent_of(name):
            continue
        refs = [ref for ref in catalog.refs_of(name) if ref.copy == 0]
        expected = values(ledgers.seen([(ref.ledger_id, ref.uuid) for ref in refs]))
        found = bucket.topic(topic_of(name)).scan(["value"]).to_arrow()["value"].to_pylist()
        assert [value.decode() for value in found] == expected, f"{topic_of(name)} in the bucket: {reported}"
