"""The options of the data source for writing, which are texts, and their meaning."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ledgerfs.dialects.pulsar_blob.new_ledger import DEFAULT_BLOCK_SIZE
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.messages.codecs.compress import codec_named
from ledgerfs.messages.encode.rows import EncodeOptions
from ledgerfs.spark.runtime.option_texts import number, size
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.read_options import separate_storage
from ledgerfs.writing.write import Wanted

_KNOWN = dict.fromkeys(("topic", "ledgerId", "batch", "compression", "producerName", "blockSize", "maxEntrySize"))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Which ledgers are written, where, and how.

    Attributes
    ----------
    managed_ledger
        Of the topic.
    ledger_id
        Of the first ledger; None for an id that no cluster hands out.
    encoding
        How rows become entries.
    block_size
        Bytes of a block.

    """

    storage: Storage
    managed_ledger: str
    ledger_id: int | None
    encoding: EncodeOptions
    block_size: int


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the parsed options of a writer. ``topic`` is required; defaults are those of ``ledgerfs import``.

    Rows without a publish time get the present time, the same for all tasks. Raises `InvalidOptionError` for an unknown or invalid option.
    """
    ours, storage = separate_storage(given, _KNOWN)
    if not ours.get("topic"):
        raise InvalidOptionError(
            "whose messages are the rows? One topic, such as persistent://public/default/orders", key="topic"
        )
    managed_ledger = managed_ledger_of(ours["topic"])
    ledger_id = None if "ledgerid" not in ours else number(ours["ledgerid"], "ledgerId")
    # Raises for invalid names and ids.
    Wanted(managed_ledger, ledger_id or 0).new_ledger()
    plain = EncodeOptions()
    encoding = EncodeOptions(
        batch=number(ours["batch"], "batch") if "batch" in ours else plain.batch,
        compression=codec_named(ours.get("compression", plain.compression)).name.lower(),
        producer_name=ours.get("producername", plain.producer_name),
        max_entry_bytes=size(ours["maxentrysize"], "maxEntrySize") if "maxentrysize" in ours else plain.max_entry_bytes,
        publish_time_ms=int(time.time() * 1000),
    )
    block_size = size(ours["blocksize"], "blockSize") if "blocksize" in ours else DEFAULT_BLOCK_SIZE
    return WriteOptions(storage, managed_ledger, ledger_id, encoding, block_size)
