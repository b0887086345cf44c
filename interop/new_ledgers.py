"""Ledgers that Pulsar never had: what ``ledgerfs import`` makes of exported rows, and ``unbatch`` of batches, under new ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from interop.odd_rows import write_odd_rows
from interop.rewrite import offload
from interop.rows import export_rows, import_rows
from interop.s3_server import BUCKET, S3Server
from interop.workload import NAMESPACE
from ledgerfs import open_bucket
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
from ledgerfs.messages.transforms.unbatch import unbatch

IMPORTED = "public/imported"
UNBATCHED = "public/unbatched"
ODD = "odd"

ALL_COLUMNS = (*DEFAULT_COLUMNS, "deliver_at_time", "replicated_from")
OWN_COLUMNS = ("key", "key_bytes", "ordering_key", "value", "properties", "event_time")
"""What no other message shares: without the rest, as many messages fit into a batch as there may be."""


@dataclass(frozen=True)
class Export:
    """How the rows of a topic, or the odd ones, get into files; ``columns`` are the usual ones, unless some are named."""

    source: str
    kind: str = "parquet"
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewTopic:
    """A topic that ledgerfs writes from one of the workload.

    Attributes
    ----------
    source
        The name of that one.
    written
        The topic in the bucket.
    served
        The topic of the broker; it does not ask under which name the bucket has a ledger.

    """

    source: str
    written: str
    served: str
    codec: str

    @property
    def original(self) -> str:
        """The topic whose messages these are."""
        return f"persistent://{NAMESPACE}/{self.source}"


@dataclass(frozen=True)
class Import:
    """Rows that become messages again, of a topic of their own."""

    export: Export
    codec: str
    batch: int

    @property
    def topic(self) -> NewTopic:
        """The name has characters that ZooKeeper and the bucket have to write alike."""
        name = f"persistent://{IMPORTED}/{self.export.source} als {self.export.kind}, {self.codec} à {self.batch}"
        return NewTopic(self.export.source, name, name, self.codec)


@dataclass(frozen=True)
class Unbatching:
    """Batches of topics that become single messages: by the command, which keeps the topic's name, or by the file system."""

    sources: tuple[str, ...]
    codec: str
    by_command: bool

    @property
    def topics(self) -> list[NewTopic]:
        """One of each source."""
        served = {source: f"persistent://{UNBATCHED}/{source}" for source in self.sources}
        kept = f"persistent://{NAMESPACE}"
        return [
            NewTopic(source, f"{kept}/{source}" if self.by_command else name, name, self.codec)
            for source, name in served.items()
        ]


IMPORTS = [
    Import(Export("plain"), "none", 1),
    Import(Export("plain", columns=ALL_COLUMNS), "lz4", 7),
    Import(Export("plain"), "zstd", 1000),
    Import(Export("plain", "jsonl"), "snappy", 1),
    Import(Export("plain", columns=OWN_COLUMNS), "zlib", 1000),
    Import(Export("batched-lz4"), "zlib", 1),
    Import(Export("batched-zstd"), "snappy", 7),
    Import(Export("batched-by-key"), "none", 1000),
    Import(Export("python-batched-none"), "zstd", 1),
    Import(Export("python-batched-snappy"), "lz4", 1000),
    Import(Export("kv-separated-batched"), "lz4", 1),
    Import(Export("chunked"), "zstd", 1),
    Import(Export("txn"), "none", 7),
    Import(Export(ODD, columns=OWN_COLUMNS), "lz4", 1),
    Import(Export(ODD, columns=OWN_COLUMNS), "zlib", 7),
    Import(Export(ODD, columns=OWN_COLUMNS), "snappy", 1000),
]
UNBATCHINGS = [
    Unbatching(("batched-lz4", "python-batched-zstd", "kv-separated-batched", "chunked"), "none", by_command=True),
    Unbatching(("batched-none", "python-batched-zlib", "encrypted"), "zstd", by_command=True),
    Unbatching(("batched-zlib",), "lz4", by_command=False),
    Unbatching(("batched-snappy",), "zlib", by_command=False),
    Unbatching(("python-batched-none",), "snappy", by_command=False),
]


def write_imports(source: S3Server, target: S3Server, folder: Path, first_id: int) -> None:
    """Export each topic from ``source`` once, and import it into ``target`` in each of the ways above; ids are from ``first_id`` on."""
    folders: dict[Export, Path] = {}
    for ledger_id, one in enumerate(IMPORTS, first_id):
        export = one.export
        if export not in folders:
            folders[export] = folder / str(len(folders))
            if export.source == ODD:
                write_odd_rows(folders[export])
            else:
                export_rows(source, f"{NAMESPACE}/{export.source}", folders[export], export.kind, export.columns)
        options = ("--ledger-id", str(ledger_id), "--batch", str(one.batch), "--compression", one.codec)
        import_rows(folders[export], target, one.topic.written, options)


def write_unbatched(source: S3Server, target: S3Server, first_id: int) -> None:
    """Write each topic of the unbatchings above into ``target``; ids are from ``first_id`` on: a broker is to serve them."""
    bucket = open_bucket(f"s3://{BUCKET}", storage_options=source.options)
    next_id = first_id
    for one in UNBATCHINGS:
        if one.by_command:
            topics = [option for name in one.sources for option in ("--topic", f"{NAMESPACE}/{name}")]
            ids = ("--ledger-id", str(next_id))
            offload(source, target, (*topics, "--unbatch", *ids, "--compression", one.codec))
            next_id += sum(len(bucket.topic(f"{NAMESPACE}/{name}").ledgers) for name in one.sources)
        else:
            next_id = _put(source, target, one, next_id)


def _put(source: S3Server, target: S3Server, unbatching: Unbatching, next_id: int) -> int:
    """Copy the ledgers of topics through the file system; return the next free id."""
    bucket = open_bucket(f"s3://{BUCKET}", storage_options=source.options)
    files = _file_system(source)
    made = _file_system(target)
    for name in unbatching.sources:
        for ledger in bucket.topic(f"{NAMESPACE}/{name}").ledgers:
            data = files.cat_file(f"entries/{NAMESPACE}/{name}/{ledger.ref.ledger_id}.entries")
            made.pipe_file(f"entries/{UNBATCHED}/{name}/{next_id}.entries", data, transform=unbatch(unbatching.codec))
            next_id += 1
    return next_id


def _file_system(s3: S3Server) -> Any:
    return fsspec.filesystem("ledger", fo=BUCKET, target_protocol="s3", target_options=s3.options)
