"""Between the walk and the split: make payloads plain. They are decrypted, joined if they are chunks, and decompressed, in this order.

A new payload is added after the entries in a workspace, and the table's payload columns then point to it. Payloads of LZ4 and ZSTD stay
compressed: the split decompresses them one at a time, into memory that is still in the CPU's cache when it splits them.
If a payload cannot be made plain, only its own entry fails.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from ledgerfs.errors import (
    CorruptMessageError,
    DecompressionError,
    EncryptedMessageError,
    KafkaEntryError,
    LedgerfsError,
    MessageTooLargeError,
)
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.decompression import LARGEST, decompress
from ledgerfs.messages.codecs.claimed_sizes import BELIEVED, COST_OF_MESSAGE, check_claim, most_messages, too_large
from ledgerfs.messages.codecs.native_decompression import native_codecs
from ledgerfs.messages.decode.chunks import ChunkJoiner
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord

Decrypt = Callable[[list[tuple[str, bytes]], bytes, memoryview], bytes]
"""Called with the wrapped keys (name, value), the initialization vector, and the ciphertext.

Raises `EncryptedMessageError` if no private key of these names is given, another `LedgerfsError` if decryption fails.
"""

EntryError: TypeAlias = type[CorruptMessageError] | type[MessageTooLargeError] | type[KafkaEntryError]


class Failure(NamedTuple):
    """An entry whose payload cannot be read: its row, the reason, and the class of the error."""

    row: int
    reason: str
    kind: EntryError = CorruptMessageError


class Workspace:
    """A buffer, and pieces added after it; offsets count through all of them."""

    def __init__(self, buffer: memoryview) -> None:
        self._pieces: list[bytes | memoryview] = [buffer]
        self._starts = [0]
        self._size = len(buffer)

    def add(self, piece: bytes) -> tuple[int, int]:
        """Add a piece; return its start and end."""
        start = self._size
        self._pieces.append(piece)
        self._starts.append(start)
        self._size += len(piece)
        return start, self._size

    def view(self, start: int, end: int) -> memoryview:
        """Return bytes of one piece."""
        piece = 0 if start < len(self._pieces[0]) else int(np.searchsorted(self._starts, start, "right")) - 1
        origin = self._starts[piece]
        return memoryview(self._pieces[piece])[start - origin : end - origin]

    def bytes(self) -> Bytes:
        """Return the whole buffer as one array, without a copy if nothing was added."""
        if len(self._pieces) > 1:
            # The pieces may be large, so they are freed.
            self._pieces, self._starts = [memoryview(b"".join(self._pieces))], [0]
        return np.frombuffer(self._pieces[0], np.uint8)


@dataclass(slots=True)
class PlainPayloads:
    """Makes the payloads of some entries plain.

    Attributes
    ----------
    entries, ids
        Columns of `walk_metadata` and the entries' ids; the columns of the payload are changed in place.
    keep
        Which entries are whole messages with plain payloads.
    sealed
        Which entries cannot be decrypted for lack of a key.
    failures
        Each entry whose payload is broken, or too large.

    """

    work: Workspace
    entries: Int64Table
    ids: Int64
    ledger_id: int
    keep: Mask = field(init=False)
    sealed: Mask = field(init=False)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keep = np.ones(self.ids.size, bool)
        self.sealed = np.zeros(self.ids.size, bool)

    def open(self, decrypt: Decrypt | None, on_encrypted: str, chunks: ChunkJoiner) -> None:
        """Decrypt encrypted payloads, and join chunks: the entry of the last one is kept, with the payload of all.

        If no key is given for a message, or a part of one, ``on_encrypted`` decides: raise, null its value, or skip it.
        """
        encrypted = (self.entries[Meta.ENCRYPTION_KEYS] > 0).nonzero()[0]
        if decrypt is None and on_encrypted != "raise":
            self.sealed[encrypted] = True
        else:
            for row in encrypted.tolist():
                self._decrypt(row, decrypt, on_encrypted)
        self._join(chunks)
        if on_encrypted == "skip":
            self.keep &= ~self.sealed
        elif self.sealed.any():
            # Without its key a batch is one message, whose payload cannot be read.
            for column, value in ((Meta.BATCH_SIZE, ABSENT), (Meta.COMPRESSION, 0), (Meta.VALUE_IS_NULL, 1)):
                self.entries[column, self.sealed] = value

    def _join(self, chunks: ChunkJoiner) -> None:
        for row in ((self.entries[Meta.CHUNKS] > 1) & self.keep).nonzero()[0].tolist():
            entry = self.entries[:, row]
            identity = bytes(self.work.view(*_range(entry, Meta.CHUNKED_ID_AT, Meta.CHUNKED_ID_SIZE)))
            position, number, count = (
                (self.ledger_id, int(self.ids[row])),
                int(entry[Meta.CHUNK]),
                int(entry[Meta.CHUNKS]),
            )
            payload = None if self.sealed[row] else bytes(self._payload(row))
            try:
                joined = chunks.add(position, identity, number, count, payload)
            except MessageTooLargeError as error:
                self._fail(row, error.reason, MessageTooLargeError)
                continue
            self.keep[row] = joined is not None
            if joined is not None:
                self.sealed[row] = joined.is_sealed
                self._replace(row, joined.payload)

    def decompress(self, limit: int) -> None:
        """Decompress payloads that no kernel supports; those larger than ``limit`` bytes, or than they claim, are failures."""
        codecs, sizes = self.entries[Meta.COMPRESSION], self.entries[Meta.UNCOMPRESSED_SIZE]
        is_compressed = (codecs != 0) & self.keep
        if not is_compressed.any():
            return
        self.count(limit)
        is_believed = (sizes >= 0) & (sizes <= min(limit, BELIEVED))
        is_native = np.isin(codecs, list(native_codecs()))
        for row in (is_compressed & self.keep & ~(is_native & is_believed)).nonzero()[0].tolist():
            self._decompress(row, limit)

    def count(self, limit: int) -> None:
        """Fail batches with a large claim whose rows would take more than ``limit`` bytes."""
        most = most_messages(limit)
        is_large = (self.entries[Meta.COMPRESSION] != 0) & (self.entries[Meta.UNCOMPRESSED_SIZE] > BELIEVED)
        for row in (is_large & (self.entries[Meta.BATCH_SIZE] > most) & self.keep).nonzero()[0].tolist():
            messages = int(self.entries[Meta.BATCH_SIZE, row])
            error = too_large(
                f"a batch of {messages} messages needs {COST_OF_MESSAGE} bytes for each of them",
                messages * COST_OF_MESSAGE,
                limit,
            )
            self._fail(row, error.reason, MessageTooLargeError)

    def explain(self, row: int) -> str:
        """Return why a payload did not decompress to its claimed size."""
        try:
            decompress(*self._compressed(row), LARGEST)
        except DecompressionError as error:
            return str(error)
        return "does not decompress to its uncompressed size"

    def _decompress(self, row: int, limit: int) -> None:
        codec, payload, size = self._compressed(row)
        try:
            check_claim(codec, payload, size, limit)
            if codec not in native_codecs() or size < 0:
                self._replace(row, decompress(codec, payload, size, LARGEST))
                self.entries[Meta.COMPRESSION, row] = 0
        except DecompressionError as error:
            self._fail(row, str(error))
        except MessageTooLargeError as error:
            self._fail(row, error.reason, MessageTooLargeError)

    def _compressed(self, row: int) -> tuple[int, memoryview, int]:
        codec, size = self.entries[Meta.COMPRESSION, row], self.entries[Meta.UNCOMPRESSED_SIZE, row]
        return int(codec), self._payload(row), int(size)

    def _decrypt(self, row: int, decrypt: Decrypt | None, on_encrypted: str) -> None:
        entry = self.entries[:, row]
        try:
            text = bytes(self.work.view(*_between(entry, Meta.METADATA_AT, Meta.METADATA_END)))
            metadata = MessageMetadataRecord.FromString(text)
        except DecodeError:
            self._fail(row, "its encryption keys are not protobuf messages")
            return
        keys = [(key.name.decode("utf-8", "replace"), key.wrapped) for key in metadata.encryption_key]
        if decrypt is None:
            raise self._encrypted(row, no_key_for([name for name, _ in keys]))
        try:
            self._replace(row, decrypt(keys, metadata.encryption_iv, self._payload(row)))
        except EncryptedMessageError as error:
            if on_encrypted == "raise":
                raise self._encrypted(row, error.reason) from error
            self.sealed[row] = True
        except LedgerfsError as error:
            raise self._encrypted(row, error.reason) from error

    def _encrypted(self, row: int, reason: str) -> EncryptedMessageError:
        return EncryptedMessageError.of(self.ledger_id, int(self.ids[row]), reason)

    def _payload(self, row: int) -> memoryview:
        return self.work.view(*_between(self.entries[:, row], Meta.PAYLOAD_AT, Meta.PAYLOAD_END))

    def _replace(self, row: int, payload: bytes) -> None:
        self.entries[[Meta.PAYLOAD_AT, Meta.PAYLOAD_END], row] = self.work.add(payload)

    def _fail(self, row: int, reason: str, kind: EntryError = CorruptMessageError) -> None:
        self.keep[row] = False
        self.failures.append(Failure(row, reason, kind))


def no_key_for(names: Iterable[str], given: Iterable[str] = ()) -> str:
    """Return the reason why the given keys cannot decrypt a message that was encrypted for keys of these names."""
    wanted = " or ".join(dict.fromkeys(map(repr, names)))
    if not wanted:
        return "the message is encrypted, but does not contain the name of a key"
    keys = ", ".join(map(repr, given)) or "none"
    return (
        f"the message is encrypted for {wanted}, the given private keys are: {keys}; "
        "pass the right key (private_keys, --private-key), or on_encrypted='null' or 'skip' (--on-encrypted)"
    )


def _between(entry: Int64Table, start: Meta, end: Meta) -> tuple[int, int]:
    return int(entry[start]), int(entry[end])


def _range(entry: Int64Table, at: Meta, size: Meta) -> tuple[int, int]:
    start = max(0, int(entry[at]))
    return start, start + int(entry[size])
