"""Parse the write options of the data source, which are texts."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.layouts.pulsar_blob.new_ledger import DEFAULT_BLOCK_SIZE
from ledgerfs.messages.codecs.compress import codec_named
from ledgerfs.messages.encode.rows import EncodeOptions
from ledgerfs.schemas.by_hand import avro_schema_given, schema_given
from ledgerfs.spark.runtime.option_texts import number, size
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.read_options import separate_storage
from ledgerfs.writing.write import Wanted

_OF_ENTRIES = ("topic", "ledgerId", "batch", "compression", "producerName", "blockSize", "maxEntrySize")
_OF_SCHEMAS = ("schema", "schemaType", "schemaVersion")
_KNOWN = dict.fromkeys((*_OF_ENTRIES, *_OF_SCHEMAS))


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Parsed options of a writer.

    Attributes
    ----------
    managed_ledger
        The topic's managed ledger.
    ledger_id
        Id of the first ledger; None for an id that no cluster assigns.
    encoding
        How rows become entries.
    block_size
        Bytes of a block.
    schema, schema_version
        Schema of the values, None for bytes; its version in the topic, None for the saved version.

    """

    storage: Storage
    managed_ledger: str
    ledger_id: int | None
    encoding: EncodeOptions
    block_size: int
    schema: SchemaInfo | None = None
    schema_version: int | None = None


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return the parsed options of a writer. ``topic`` is required; defaults are those of ``ledgerfs import``.

    Rows without a publish time get the current time, the same for all tasks. Raises `InvalidOptionError` for an unknown or invalid option,
    and `InvalidSchemaError` for an invalid schema.
    """
    ours, storage = separate_storage(given, _KNOWN)
    if not ours.get("topic"):
        raise InvalidOptionError(
            "the topic is missing: pass one, such as persistent://public/default/orders", key="topic"
        )
    managed_ledger = managed_ledger_of(ours["topic"])
    ledger_id = None if "ledgerid" not in ours else number(ours["ledgerid"], "ledgerId")
    # Checks names and ids.
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
    version = number(ours["schemaversion"], "schemaVersion") if "schemaversion" in ours else None
    return WriteOptions(storage, managed_ledger, ledger_id, encoding, block_size, _schema(ours, version), version)


def _schema(ours: Mapping[str, str], version: int | None) -> SchemaInfo | None:
    """Return the schema from a file, from JSON, or from a type that needs no definition."""
    given, kind = ours.get("schema"), ours.get("schematype")
    if given is None and kind is None:
        if version is not None:
            raise InvalidOptionError("needs the schema itself: pass schema or schemaType too", key="schemaVersion")
        return None
    if given is None or given.lstrip()[:1] not in {"{", "[", '"'}:
        return schema_given(given, kind)
    return avro_schema_given(given.encode(), kind)
