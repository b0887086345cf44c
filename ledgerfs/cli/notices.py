"""A word on what a listing does not show: an empty bucket, objects that need attention."""

from typing import TYPE_CHECKING

from ledgerfs.cli.output import say

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


def notice(bucket: "Bucket") -> None:
    """Say on standard error what is in the bucket besides readable ledgers, in one line; nothing when there is nothing to say."""
    # numpy, which this imports, is there when a bucket is; its options are offered without.
    from ledgerfs.ledgers.catalog_rows import is_sound

    catalog = bucket.catalog
    others = sum(catalog.others.counts.values())
    if catalog.is_empty:
        found = f"none of its {others} objects is a ledger's" if others else "it has no objects"
        say(f"{bucket.store.url}: no offloaded ledgers; {found}")
        return
    counts = {
        "damaged ledgers": int((~is_sound(catalog.ledgers)).sum()),
        "ledgers whose data is gone": int(catalog.lost.size),
    }
    for remains in catalog.remains.values():
        counts |= remains.counts()
    counts["other keys"] = others
    found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if found:
        say(f"{bucket.store.url}: also {found}; `ledgerfs verify` names them")
