"""`LedgerOffloader`: the three methods of PIP-17's interface, over any bucket that ledgerfs opens.

The caller is what a managed ledger is to Pulsar: it chooses the uuid of each attempt, notes it before, and deletes what a failed one left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import InvalidNameError, MissingLedgerError, NotFoundError, UnsupportedWriteError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs.ledgers.reader import LedgerReader

if TYPE_CHECKING:
    from ledgerfs.dialects.pulsar_blob.writer import WrittenLedger
    from ledgerfs.formats.bookkeeper.ledger_metadata import LedgerMetadata
    from ledgerfs.formats.buffers import Buffer
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.messages.transforms.entry_transform import EntryTransform
    from ledgerfs.writing.sources import EntrySource


class NullLedgerOffloader:
    """The default where no offloader is configured: every method refuses, as PIP-17 asks. What implements the interface takes its place."""

    def offload(
        self,
        source: "LedgerReader | LedgerEntries",  # noqa: ARG002
        uuid: str,  # noqa: ARG002
        extra_metadata: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> "WrittenLedger":
        """Copy a sealed ledger to long-term storage under the uuid of this attempt."""
        raise _no_offloader()

    def read_offloaded(self, ledger_id: int, uuid: str) -> LedgerReader:  # noqa: ARG002
        """Return a reader of a ledger that was offloaded in the attempt of this uuid."""
        raise _no_offloader()

    def delete_offloaded(self, ledger_id: int, uuid: str) -> None:  # noqa: ARG002
        """Delete what the attempt of this uuid wrote, whole or not."""
        raise _no_offloader()


@dataclass(frozen=True, slots=True)
class LedgerEntries:
    """A ledger that is in no bucket: its id, its entries, and what BookKeeper knows of it.

    Attributes
    ----------
    entries
        Anything with entries in order from id 0 on: a file of records (path or bytes), batches of entries.
    metadata
        None where it is not known; the managed ledger's name is then wanted in ``extra_metadata``.

    """

    ledger_id: int
    entries: "Path | str | Buffer | Iterable[EntryBatch]"
    metadata: "LedgerMetadata | None" = None


class LedgerOffloader(NullLedgerOffloader):
    """PIP-17's offloader over a bucket.

    Parameters
    ----------
    bucket
        Where ledgers go.
    block_size
        Bytes of a block, `DEFAULT_BLOCK_SIZE` (64 MiB) for None.
    transform
        Makes what each ledger's entries become on their way; None leaves them as they are. Message ids must stay what they are.

    """

    __slots__ = ("_block_size", "_bucket", "_transform")

    def __init__(
        self, bucket: Bucket, *, block_size: int | None = None, transform: "EntryTransform | None" = None
    ) -> None:
        self._bucket = bucket
        self._block_size = block_size
        self._transform = transform

    def offload(
        self, source: "LedgerReader | LedgerEntries", uuid: str, extra_metadata: Mapping[str, str] | None = None
    ) -> "WrittenLedger":
        """Write a ledger's data object, then its index object.

        Parameters
        ----------
        source
            A ledger of a bucket (``bucket.ledger(26)``), or `LedgerEntries`.
        uuid
            Of this attempt: fresh, and noted by the caller before, so that what a crash leaves can be deleted.
        extra_metadata
            Kept as user metadata of both objects, its keys in lower case. ``ManagedLedgerName`` names the topic, as Pulsar has it
            (``tenant/namespace/persistent/<topic, URL-encoded>``); without it the source's own name is kept.

        Raises
        ------
        RefusedLedgerError, InvalidNameError
            What no broker would serve; nothing was sent.
        ObjectExistsError
            The uuid was used before.
        StoreError, AccessDeniedError
            The store failed; there is no such ledger, but with `UncertainWriteError` perhaps.

        """
        # numba, which these import, is not needed by those who read and delete.
        from ledgerfs.dialects.pulsar_blob.new_ledger import completed_user_metadata
        from ledgerfs.writing.sources import OffloadedLedger
        from ledgerfs.writing.write import Wanted, require_new_ids, write_ledger

        entries: EntrySource
        if isinstance(source, LedgerEntries):
            ledger_id, metadata, entries = source.ledger_id, source.metadata, _source_of(source)
        else:
            ledger_id, metadata, entries = source.ref.ledger_id, source.metadata(), OffloadedLedger(source)
        require_new_ids(ledger_id, ledger_id, keeps_ids=self._transform is None or self._transform.keeps_ids)
        extra = dict(extra_metadata or {})
        name = parse_user_metadata(extra).managed_ledger or (None if metadata is None else metadata.managed_ledger)
        if name is None:
            raise InvalidNameError("whose ledger is it? extra_metadata names no ManagedLedgerName", key=str(ledger_id))
        user_metadata = completed_user_metadata(extra, name)
        wanted = Wanted(name, ledger_id, _uuid(uuid), self._block_size, metadata, user_metadata, self._transform)
        return write_ledger(self._bucket, wanted, entries)

    def read_offloaded(self, ledger_id: int, uuid: str) -> LedgerReader:
        """Return a reader of one attempt's ledger.

        Raises `NotFoundError` where there is none, or no index of it, and `MissingLedgerError` where its data object is gone.
        """
        try:
            return self._bucket.ledger(ledger_id, uuid=_uuid(uuid))
        except (NotFoundError, MissingLedgerError):
            # Another process may have written it since the bucket was listed.
            self._bucket.refresh()
            return self._bucket.ledger(ledger_id, uuid=_uuid(uuid))

    def delete_offloaded(self, ledger_id: int, uuid: str) -> None:
        """Delete the index, then the data object; what is not there is no error."""
        from ledgerfs.writing.deletion import remove_ledger

        remove_ledger(self._bucket, LedgerKey(_uuid(uuid), ledger_id, is_index=False))


def _source_of(ledger: LedgerEntries) -> "EntrySource":
    from ledgerfs.writing.sources import EntryBatches, RecordBytes, RecordFile

    entries = ledger.entries
    if isinstance(entries, Path | str):
        return RecordFile.at(entries)
    if isinstance(entries, bytes | bytearray | memoryview):
        return RecordBytes(f"ledger {ledger.ledger_id}", entries)
    return EntryBatches(entries)


def _uuid(text: str) -> str:
    """Return a uuid as Java writes it; raises `InvalidNameError` for what is none."""
    try:
        return str(UUID(text))
    except ValueError as error:
        raise InvalidNameError("not a uuid", key=text) from error


def _no_offloader() -> UnsupportedWriteError:
    return UnsupportedWriteError("no offloader is configured, so nothing can be offloaded, read or deleted")
