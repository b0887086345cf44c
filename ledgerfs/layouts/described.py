"""Describe a ledger as JSON, the same way for all layouts: for ``ledgerfs info`` and the mounted ``info`` files."""

from typing import Any

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.formats.ledger_metadata import DigestType, LedgerMetadata, LedgerState
from ledgerfs.storage.objects import ObjectHead


def describe_ref(ref: LedgerRef) -> dict[str, Any]:
    """Return the catalog's row as JSON values; sizes in bytes, times in ISO 8601 UTC."""
    return {
        "ledger_id": ref.ledger_id,
        "topic": ref.topic,
        "managed_ledger": ref.managed_ledger,
        "uuid": ref.uuid,
        "copy": ref.copy,
        "entries": ref.entries,
        "length": ref.length,
        "records_size": ref.records_size,
        "created": iso_time(ref.created_ms),
        "uploaded": iso_time(ref.uploaded_ms),
        "is_sound": ref.is_sound,
    }


def describe_metadata(metadata: LedgerMetadata) -> dict[str, Any]:
    """Return BookKeeper's metadata of a ledger as JSON values."""
    return {
        "state": _name_of(LedgerState, metadata.state),
        "digest_type": _name_of(DigestType, metadata.digest_type),
        "ensemble_size": metadata.ensemble_size,
        "write_quorum": metadata.write_quorum,
        "ack_quorum": metadata.ack_quorum,
        "ensembles": [{"first_entry": e.first_entry, "bookies": list(e.bookies)} for e in metadata.ensembles],
        "custom": {key: value.decode("utf-8", "backslashreplace") for key, value in sorted(metadata.custom)},
    }


def describe_object(head: ObjectHead) -> dict[str, Any]:
    """Return key, size, time, version and user metadata of an object as JSON values."""
    return {
        "key": head.stat.key,
        "size": head.stat.size,
        "modified": iso_time(head.stat.modified_ms),
        "version": head.stat.version,
        "user_metadata": None if head.metadata is None else dict(sorted(head.metadata.items())),
    }


def _name_of(kind: type[LedgerState] | type[DigestType], value: int | None) -> str | None:
    if value is None:
        return None
    return kind(value).name if value in set(kind) else str(value)
