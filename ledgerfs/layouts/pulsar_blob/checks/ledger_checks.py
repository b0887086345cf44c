"""Check every byte of one ledger: block headers, records, checksums, padding, and the user metadata of its two objects."""

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.findings import Severity
from ledgerfs.errors import (
    CorruptLedgerError,
    ObjectNotFoundError,
    UnsupportedFormatError,
)
from ledgerfs.formats.pulsar_blob.block import (
    BLOCK_HEADER_BYTES,
    MIN_HEADER_BYTES,
    first_wrong_padding,
    parse_block_header,
)
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.checksum_findings import ObjectLedgerCheck
from ledgerfs.layouts.pulsar_blob.block_map import block_ends
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from ledgerfs.layouts.pulsar_blob.record_walk import RecordStretch, walk_records
from ledgerfs.storage.objects import ReadRequest


class PulsarLedgerCheck(ObjectLedgerCheck[PulsarLedgerReader]):
    """The check of one ledger, and of the user metadata of its two objects."""

    __slots__ = ()

    def _check(self) -> None:
        self._check_metadata()
        self._check_data(self.ledger.index)

    def _missing(self, error: ObjectNotFoundError) -> None:
        """Report a ledger deleted since the listing, or lost data if the index still exists."""
        try:
            self.ledger.store.head(self.ref.object("index").key)
        except ObjectNotFoundError:
            ObjectLedgerCheck._missing(self, error)  # noqa: SLF001  (slots keep `super` from working)
        else:
            self._damage("unreadable-object", error.reason, error.offset, error.key)

    def _check_data(self, index: OffloadIndex) -> None:
        size = self.ledger.ref.object("data").size
        stat = self.ledger.ref.object("data")
        plan = (ReadRequest(stat.key, *part, stat.version) for part in cut_parts(0, size, is_known=True))
        with open_parts(self.ledger.store, plan) as parts:
            window = ObjectWindow(parts, stat.key, 0)
            for block, end in enumerate(block_ends(index)):
                before = window.position
                self._check_block(window, index, block, min(end, size))
                self.bytes += window.position - before
                self.on_bytes(window.position - before)
        self._check_totals(index.metadata)
        self._check_parts(index)

    def _check_block(self, window: ObjectWindow, index: OffloadIndex, block: int, end: int) -> None:
        start = index.blocks[block]
        last = index.blocks[block + 1].first_entry - 1 if block + 1 < len(index.blocks) else index.metadata.last_entry
        window.skip_to(start.offset)
        if not window.fill(MIN_HEADER_BYTES) or start.offset + index.header_length > end:
            message = f"entries {start.first_entry} to {last} are not in the object"
            self._damage("missing-entries", message, start.offset)
            return
        self._check_header(window, index, block)
        window.skip_to(start.offset + index.header_length)
        entry = start.first_entry
        try:
            for stretch in walk_records(window, entry, last, end, self.ledger.ref.object("data").key):
                entry += len(stretch.batch)
                self._check_entries(stretch)
        except CorruptLedgerError as error:
            message = f"{error.reason}; entries {entry} to {last} cannot be reached"
            self._damage("damaged-records", message, error.offset)
            return
        if block + 1 == len(index.blocks) and window.position < end:
            message = (
                f"the last block has {end - window.position} bytes after its last entry, which Pulsar never writes"
            )
            self._damage("wrong-padding", message, window.position)
            return
        self._check_padding(window, end)

    def _check_header(self, window: ObjectWindow, index: OffloadIndex, block: int) -> None:
        start, end = index.blocks[block], block_ends(index)[block]
        try:
            header = parse_block_header(window.buffer[:MIN_HEADER_BYTES], offset=start.offset)
        except (CorruptLedgerError, UnsupportedFormatError) as error:
            self._damage("wrong-block-header", error.reason, start.offset)
            return
        wanted = (index.header_length, end - start.offset, start.first_entry)
        found = (header.header_length, header.block_length, header.first_entry)
        for name, is_, should in zip(("header length", "block length", "first entry"), found, wanted, strict=True):
            if is_ != should:
                message = f"the {name} is {is_} in the block header, but {should} in the index"
                self._damage("wrong-block-header", message, start.offset)
        if index.header_length == BLOCK_HEADER_BYTES and window.fill(BLOCK_HEADER_BYTES):
            filling = bytes(window.buffer[MIN_HEADER_BYTES:BLOCK_HEADER_BYTES])
            if filling.strip(b"\0"):
                self._damage(
                    "wrong-block-header", "the padding of the block header is not zero", start.offset + MIN_HEADER_BYTES
                )

    def _check_entries(self, stretch: RecordStretch) -> None:
        for row, kind, message in self._check_batch(stretch.batch):
            self._damage(kind, message, stretch.position + int(stretch.batch.offsets[row]))

    def _check_padding(self, window: ObjectWindow, end: int) -> None:
        # The padding's pattern has a period of 4, so pieces of a multiple of 4 bytes can be compared separately.
        while window.position < end:
            rest = end - window.position
            if not window.fill(min(rest, 4)):
                raise CorruptLedgerError("the object ends in its padding", offset=window.position)
            piece = min(rest, len(window.buffer) // 4 * 4) if rest > len(window.buffer) else rest
            wrong = first_wrong_padding(window.buffer[:piece])
            if wrong is not None:
                self._damage("wrong-padding", "these bytes are neither an entry nor padding", window.position + wrong)
                return
            window.consume(piece)

    def _check_parts(self, index: OffloadIndex) -> None:
        parts = [block.part for block in index.blocks]
        if parts != list(range(1, len(parts) + 1)):
            message = f"the parts of the upload are numbered {parts[0]} … {parts[-1]}, expected 1, 2, 3, …"
            self._find(Severity.REMARK, "odd-parts", message, self.ref.object("index").key)

    def _check_metadata(self) -> None:
        """Check the user metadata of both objects, if the store keeps any."""
        for stat in (self.ledger.ref.object("data"), self.ledger.ref.object("index")):
            metadata = self.ledger.store.head(stat.key).metadata
            if metadata is None:
                return
            reported = parse_user_metadata(metadata)
            if reported.broker_refuses is not None:
                self._damage("no-version-key", reported.broker_refuses, key=stat.key)
            name = self.ledger.ref.managed_ledger
            if name and reported.managed_ledger and topic_of(reported.managed_ledger) != topic_of(name):
                message = (
                    f"the user metadata contains the managed ledger {reported.managed_ledger}, but the index {name}"
                )
                self._damage("contradicting-metadata", message, key=stat.key)
