"""Open an Apache Pulsar tiered-storage bucket without a broker.

The public API is small::

    import ledgerfs

    bucket = ledgerfs.open_bucket("s3://tier")
    for topic in bucket.topics():
        print(topic.name, topic.entries, topic.bytes)
    for entry_id, data in bucket.ledger(26).read(3, 7):
        ...

Importing ``ledgerfs.fsspec_impl`` is never needed: fsspec finds the protocol ``ledger`` by its entry point.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

__all__ = ["__version__", "open_bucket"]

if TYPE_CHECKING:
    from ledgerfs.bucket.opening import open_bucket


def __getattr__(name: str) -> object:
    """Load the bucket layer on first use: ``import ledgerfs`` alone costs nothing."""
    if name == "open_bucket":
        from ledgerfs.bucket.opening import open_bucket

        return open_bucket
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
