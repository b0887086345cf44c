"""Describe a ledger to write: its name, its metadata, and the user metadata of its objects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from ledgerfs import __version__
from ledgerfs.errors import InvalidNameError, RefusedLedgerError
from ledgerfs.formats.ledger_metadata import (
    MANAGED_LEDGER_KEY,
    DigestType,
    Ensemble,
    LedgerMetadata,
    LedgerState,
)
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.formats.pulsar_blob.user_metadata import FORMAT_VERSION, OffloadUserMetadata, build_user_metadata
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.topic_names import parse_managed_ledger_name

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.messages.transforms.unbatch import Unbatch

DEFAULT_BLOCK_SIZE = 64 << 20
"""Bytes of a block: Pulsar's default for S3."""

SMALLEST_BLOCK_SIZE = 5 << 20
"""Bytes of the smallest block: Pulsar accepts no smaller one, and S3 no smaller part of an upload."""

LARGEST_BLOCK_SIZE = 2**31 - 1

_LARGEST_LEDGER_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class NewLedger:
    """A ledger to write.

    Attributes
    ----------
    key
        Its objects' names.
    metadata
        BookKeeper's; ``length`` and ``last_entry`` are set when all entries are written.
    user_metadata
        User metadata of its objects, without ``role``.
    block_size
        Bytes of each block except the last.
    transform
        Splits entries while they are written; None leaves them as they are.

    """

    key: LedgerKey
    metadata: LedgerMetadata
    user_metadata: Mapping[str, str]
    block_size: int = DEFAULT_BLOCK_SIZE
    transform: "Unbatch | None" = None

    @property
    def largest_entry(self) -> int:
        """Bytes of the largest entry that fits a block."""
        return self.block_size - BLOCK_HEADER_BYTES - RECORD_HEADER_BYTES

    @property
    def largest_taken(self) -> int:
        """Bytes of the largest entry that may be added: parts of an entry that `transform` splits may fit a block."""
        return self.largest_entry if self.transform is None else LARGEST_BLOCK_SIZE

    def require_fitting(self, batch: "EntryBatch") -> None:
        """Raise `RefusedLedgerError` if one of the entries does not fit a block."""
        largest = int(batch.lengths.argmax())
        size = int(batch.lengths[largest])
        if size > self.largest_entry:
            raise RefusedLedgerError(
                f"entry {batch.id_of(largest)} has {size} bytes, but an entry in a block has at most {self.largest_entry}. Pulsar itself "
                "would lose this entry and all later ones, and report success (docs/formats/pulsar-blob.md); use larger blocks",
                key=self.key.data_key,
            )

    def user_metadata_as(self, role: str) -> dict[str, str]:
        """Return the user metadata of the ``data`` or the ``index`` object."""
        return {**self.user_metadata, "role": role}


def new_key(ledger_id: int, uuid: str | None = None) -> LedgerKey:
    """Return the names of a ledger's objects, with a new uuid unless one is given.

    Raises `InvalidNameError` for an invalid id, and for a uuid in another notation than Java's, with which brokers do not find the objects.
    """
    if not 0 <= ledger_id <= _LARGEST_LEDGER_ID:
        raise InvalidNameError("a ledger id is a number from 0 to 2^63 - 1", key=str(ledger_id))
    key = LedgerKey(str(uuid4()) if uuid is None else uuid, ledger_id, is_index=False)
    if parse_ledger_key(key.data_key) != key:
        raise InvalidNameError("not a UUID of 32 lower-case hexadecimal digits, grouped 8-4-4-4-12", key=uuid)
    return key


def require_block_size(block_size: int, smallest: int) -> None:
    """Raise `RefusedLedgerError` for a block size that the store or the format does not allow; ``smallest`` is the store's, bytes."""
    smallest = max(smallest, BLOCK_HEADER_BYTES + RECORD_HEADER_BYTES + 1)
    if not smallest <= block_size <= LARGEST_BLOCK_SIZE:
        raise RefusedLedgerError(f"the block size is {block_size} bytes, expected {smallest} to {LARGEST_BLOCK_SIZE}")


def require_topic(managed_ledger: str) -> None:
    """Raise `InvalidNameError` for a managed ledger that is not of a persistent topic."""
    if parse_managed_ledger_name(managed_ledger) is None:
        raise InvalidNameError(
            "not the managed ledger of a topic; expected tenant/namespace/persistent/<topic, URL-encoded>",
            key=managed_ledger,
        )


def made_up_metadata(managed_ledger: str, created_ms: int | None = None) -> LedgerMetadata:
    """Return metadata for a ledger without BookKeeper's: closed, on one bookie without a name, of this managed ledger."""
    return LedgerMetadata(
        length=0,
        last_entry=0,
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        state=LedgerState.CLOSED,
        digest_type=DigestType.CRC32C,
        created_ms=created_ms,
        ensembles=(Ensemble(0, ()),),
        custom=_custom(managed_ledger),
    )


def of_topic(metadata: LedgerMetadata, managed_ledger: str) -> LedgerMetadata:
    """Return the metadata with this managed ledger as the owner."""
    if metadata.managed_ledger == managed_ledger:
        return metadata
    names = dict(_custom(managed_ledger))
    kept = tuple((key, names.pop(key, value)) for key, value in metadata.custom)
    return replace(metadata, custom=(*kept, *names.items())).moved()


def made_up_user_metadata(managed_ledger: str | None) -> dict[str, str]:
    """Return the user metadata that brokers require, with the managed ledger's name unless that is None."""
    software = f"ledgerfs-{__version__}"
    return build_user_metadata(OffloadUserMetadata(FORMAT_VERSION, software, managed_ledger=managed_ledger))


def completed_user_metadata(metadata: Mapping[str, str] | None, managed_ledger: str | None) -> dict[str, str]:
    """Return the user metadata of a copied object: that of the source, its topic's present name, and the entries that brokers require."""
    made_up = made_up_user_metadata(managed_ledger)
    if not metadata:
        return made_up
    kept = {key.lower(): value for key, value in metadata.items()}
    needed = build_user_metadata(OffloadUserMetadata(FORMAT_VERSION, managed_ledger=managed_ledger))
    return {**made_up, **kept, **needed}


def _custom(managed_ledger: str) -> tuple[tuple[str, bytes], ...]:
    return (
        ("application", b"pulsar"),
        ("component", b"managed-ledger"),
        (MANAGED_LEDGER_KEY, managed_ledger.encode()),
    )
