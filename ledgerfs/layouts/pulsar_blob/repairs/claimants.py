"""All that has, or may have, the id of a ledger in a bucket, in whatever layout: a new index must not come beside one unseen."""

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.remains import Unreadable
from ledgerfs.errors import CorruptObjectError
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs.layouts.pulsar_blob.remains import remains_of


def claimants(catalog: Catalog, ledger_id: int) -> frozenset[str]:
    """Return what claims an id, of any topic: keys of offloaded indexes, and ledgers of other layouts in their present versions.

    Such a ledger may be without its end now, and whole later, so that one that has changed is another.
    """
    lost = catalog.lost[catalog.lost["ledger_id"] == ledger_id]
    refs = [*catalog.all_of(ledger_id), *map(catalog.ref_of, lost)]
    offloaded = {ref.object("index").key for ref in refs if ref.layout == NUMBER}
    offloaded |= {one.key.index_key for one in remains_of(catalog).bad_indexes if one.key.ledger_id == ledger_id}
    others = {f"{ref.key} {ref.version}" for ref in refs if ref.layout != NUMBER}
    return frozenset(offloaded | others | {one.key for one in unknown_ones(catalog, ledger_id)})


def unknown_ones(catalog: Catalog, ledger_id: int) -> list[Unreadable]:
    """Return what other layouts have of an id and could not look into, though it may be whole: refused, or of a version unknown to us."""
    others = (remains for number, remains in catalog.remains.items() if number != NUMBER)
    shown = (one for remains in others for one in remains.unreadable() if one.ledger_id == ledger_id)
    return [one for one in shown if not isinstance(one.error, CorruptObjectError)]
