"""Open an Apache Pulsar tiered-storage bucket without a broker.

The public API is small::

    import ledgerfs

    bucket = ledgerfs.open_bucket("s3://tier")
    for topic in bucket.topics():
        print(topic.name, topic.entries, topic.bytes)
    for entry_id, data in bucket.ledger(26).read(3, 7):
        ...

The public API consists of the names of this package, `ledgerfs.spark`, `ledgerfs.vfs` and `ledgerfs.errors`; all else may change any time.
The toolkit for clusters is the package `ledgerfs_cluster`.
Do not import ``ledgerfs.fsspec_impl``: fsspec finds the protocol ``ledger`` by its entry point.
"""

from typing import TYPE_CHECKING

from ledgerfs.exports import lazy_exports

__version__ = "0.1.0.dev0"

__all__ = [
    "Bucket",
    "LedgerReader",
    "Message",
    "Scan",
    "ScanOptions",
    "ScanReport",
    "Topic",
    "TopicInfo",
    "__version__",
    "copy_ledgers",
    "errors",
    "export_topic",
    "import_rows",
    "open_bucket",
    "plan_repair",
    "sql",
    "verify",
]

if TYPE_CHECKING:
    from ledgerfs import errors
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.opening import open_bucket
    from ledgerfs.bucket.topic import Topic
    from ledgerfs.catalog.reader import LedgerReader
    from ledgerfs.catalog.topic_infos import TopicInfo
    from ledgerfs.export.export import export_topic
    from ledgerfs.query.connection import sql
    from ledgerfs.repair.plan import plan_repair
    from ledgerfs.scan.message_by_id import Message
    from ledgerfs.scan.options import ScanOptions
    from ledgerfs.scan.report import ScanReport
    from ledgerfs.scan.scan import Scan
    from ledgerfs.verification.verify import verify
    from ledgerfs.writing.copy_ledgers import copy_ledgers
    from ledgerfs.writing.imports import import_rows

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Bucket": "ledgerfs.bucket.bucket",
        "LedgerReader": "ledgerfs.catalog.reader",
        "Message": "ledgerfs.scan.message_by_id",
        "Scan": "ledgerfs.scan.scan",
        "ScanOptions": "ledgerfs.scan.options",
        "ScanReport": "ledgerfs.scan.report",
        "Topic": "ledgerfs.bucket.topic",
        "TopicInfo": "ledgerfs.catalog.topic_infos",
        "copy_ledgers": "ledgerfs.writing.copy_ledgers",
        "errors": "ledgerfs.errors",
        "export_topic": "ledgerfs.export.export",
        "import_rows": "ledgerfs.writing.imports",
        "open_bucket": "ledgerfs.bucket.opening",
        "plan_repair": "ledgerfs.repair.plan",
        "sql": "ledgerfs.query.connection",
        "verify": "ledgerfs.verification.verify",
    },
)
