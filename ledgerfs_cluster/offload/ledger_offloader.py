"""`LedgerOffloader`: the three methods of PIP-17's interface, over any bucket that ledgerfs opens.

The caller does the managed ledger's part: it chooses and records the uuid of each attempt, and deletes the objects of failed attempts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import InvalidNameError, MissingLedgerError, NotFoundError, UnsupportedWriteError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata

if TYPE_CHECKING:
    from ledgerfs.formats.buffers import Buffer
    from ledgerfs.formats.ledger_metadata import LedgerMetadata
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger
    from ledgerfs.writing.sources import EntrySource


class NullLedgerOffloader:
    """The default without a configured offloader: every method refuses, as PIP-17 requires. Implementations inherit its interface."""

    def offload(
        self,
        source: "LedgerReader | LedgerEntries",  # noqa: ARG002
        uuid: str,  # noqa: ARG002
        extra_metadata: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> "WrittenLedger":
        """Copy a sealed ledger to long-term storage under the attempt's uuid."""
        raise _no_offloader()

    def read_offloaded(self, ledger_id: int, uuid: str) -> LedgerReader:  # noqa: ARG002
        """Return a reader of the ledger that was offloaded with this uuid."""
        raise _no_offloader()

    def delete_offloaded(self, ledger_id: int, uuid: str) -> None:  # noqa: ARG002
        """Delete the objects of the attempt with this uuid, whole or not."""
        raise _no_offloader()


@dataclass(frozen=True, slots=True)
class LedgerEntries:
    """A ledger that is not in a bucket: its id, its entries, and BookKeeper's metadata.

    Attributes
    ----------
    entries
        Entries in order from id 0: a file of records (path or bytes), or batches of entries.
    metadata
        None if not known; ``extra_metadata`` must then name the managed ledger.

    """

    ledger_id: int
    entries: "Path | str | Buffer | Iterable[EntryBatch]"
    metadata: "LedgerMetadata | None" = None


class LedgerOffloader(NullLedgerOffloader):
    """PIP-17's offloader over a bucket.

    Parameters
    ----------
    bucket
        The target of the offloads.
    block_size
        Bytes of a block; None for `DEFAULT_BLOCK_SIZE` (64 MiB).
    """

    __slots__ = ("_block_size", "_bucket")

    def __init__(self, bucket: Bucket, *, block_size: int | None = None) -> None:
        self._bucket = bucket
        self._block_size = block_size

    def offload(
        self, source: "LedgerReader | LedgerEntries", uuid: str, extra_metadata: Mapping[str, str] | None = None
    ) -> "WrittenLedger":
        """Write a ledger's data object, then its index object.

        Parameters
        ----------
        source
            A ledger of a bucket (``bucket.ledger(26)``), or `LedgerEntries`.
        uuid
            Of this attempt: fresh, and recorded by the caller before, so that objects can be deleted after a crash.
        extra_metadata
            Becomes user metadata of both objects, with its keys in lower case. ``ManagedLedgerName`` is the topic in Pulsar's form
            (``tenant/namespace/persistent/<topic, URL-encoded>``); without it the source's own name is kept.

        Raises
        ------
        RefusedLedgerError, InvalidNameError
            No broker would serve this ledger; nothing was sent.
        ObjectExistsError
            The uuid was used before.
        StoreError, AccessDeniedError
            The store failed; there is no such ledger, except perhaps with `UncertainWriteError`.

        """
        # Imported here: numba, which reading and deleting do not need.
        from ledgerfs.layouts.pulsar_blob.new_ledger import completed_user_metadata
        from ledgerfs.writing.sources import OffloadedLedger
        from ledgerfs.writing.write import Wanted, write_ledger

        entries: EntrySource
        if isinstance(source, LedgerEntries):
            ledger_id, metadata, entries = source.ledger_id, source.metadata, _source_of(source)
        else:
            ledger_id, metadata, entries = source.ref.ledger_id, source.metadata(), OffloadedLedger(source)
        extra = dict(extra_metadata or {})
        name = parse_user_metadata(extra).managed_ledger or (None if metadata is None else metadata.managed_ledger)
        if name is None:
            raise InvalidNameError(
                "the topic of the ledger is missing: pass ManagedLedgerName in extra_metadata", key=str(ledger_id)
            )
        user_metadata = completed_user_metadata(extra, name)
        wanted = Wanted(name, ledger_id, _uuid(uuid), self._block_size, metadata, user_metadata)
        return write_ledger(self._bucket, wanted, entries)

    def read_offloaded(self, ledger_id: int, uuid: str) -> LedgerReader:
        """Return a reader of one attempt's ledger.

        Raises `NotFoundError` if the ledger or its index does not exist, and `MissingLedgerError` if its data object is missing.
        """
        try:
            return self._bucket.ledger(ledger_id, uuid=_uuid(uuid))
        except (NotFoundError, MissingLedgerError):
            # Another process may have written it since the bucket was listed.
            self._bucket.refresh()
            return self._bucket.ledger(ledger_id, uuid=_uuid(uuid))

    def delete_offloaded(self, ledger_id: int, uuid: str) -> None:
        """Delete the index, then the data object; a missing object is no error."""
        from ledgerfs.writing.deletion import remove_ledger

        remove_ledger(self._bucket, LedgerKey(_uuid(uuid), ledger_id, is_index=False))


def _source_of(ledger: LedgerEntries) -> "EntrySource":
    from ledgerfs.writing.sources import EntryBatches, RecordFile

    entries = ledger.entries
    if isinstance(entries, Path | str):
        return RecordFile.at(entries)
    if isinstance(entries, bytes | bytearray | memoryview):
        return RecordFile.of(f"ledger {ledger.ledger_id}", entries)
    return EntryBatches(entries)


def _uuid(text: str) -> str:
    """Return a uuid as Java writes it; raises `InvalidNameError` for an invalid one."""
    try:
        return str(UUID(text))
    except ValueError as error:
        raise InvalidNameError("not a valid uuid", key=text) from error


def _no_offloader() -> UnsupportedWriteError:
    return UnsupportedWriteError("no offloader is configured, so ledgers cannot be offloaded, read or deleted")
