"""What the objects of a bucket look like: the shape that a rewriting changes, while the messages stay the same."""

from collections import Counter
from dataclasses import dataclass

from interop.s3_server import BUCKET, S3Server
from ledgerfs import open_bucket
from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord


@dataclass(frozen=True)
class Shape:
    """A ledger as its objects show it; ``codecs`` counts entries."""

    entries: int
    length: int
    data_length: int
    blocks: int
    codecs: Counter[str]


def shapes(s3: S3Server) -> dict[int, Shape]:
    """Return the shape of every ledger of the bucket."""
    bucket = open_bucket(f"s3://{BUCKET}", storage_options=s3.options)
    found = {}
    for topic in bucket.topics():
        for ledger in bucket.topic(topic.name).ledgers:
            codecs = Counter(_codec(bytes(data)) for _, data in ledger.read(0, ledger.last_entry))
            ref = ledger.ref
            found[ref.ledger_id] = Shape(ref.entries, ref.length, ref.object("data").size, ref.cuts, codecs)
    return found


def _codec(entry: bytes) -> str:
    """Return how an entry's payload is compressed: ``none``, ``lz4``, …; ``other`` where nobody may touch it.

    That is a piece of a message, or what only its readers' key opens, or a marker.
    """
    if entry.startswith(b"\x0e\x02"):  # the broker's own metadata
        entry = entry[6 + int.from_bytes(entry[2:6], "big") :]
    assert entry.startswith(b"\x0e\x01"), "no checksum"
    size = int.from_bytes(entry[6:10], "big")
    metadata = MessageMetadataRecord.FromString(entry[10 : 10 + size])
    if metadata.chunks > 1 or metadata.encryption_key or metadata.HasField("marker_type"):
        return "other"
    return Compression(metadata.compression).name.lower()
