"""Between the walk and the split: payloads made plain. Decrypted, joined where they are chunks, decompressed: in this order.

What has to be made is put behind the entries in a workspace, and the table's columns of the payload then point there. What LZ4 or ZSTD
compressed stays as it is: the split decompresses it, a payload at a time, into memory that the CPU's cache still holds when it is split.
An entry whose payload cannot be made plain is a failure of that entry alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from ledgerfs.errors import DecompressionError, EncryptedMessageError, LedgerfsError
from ledgerfs.messages.chunks import ChunkJoiner
from ledgerfs.messages.compression import LARGEST, decompress
from ledgerfs.messages.metadata_walk import Int64Table, Meta
from ledgerfs.messages.native_codecs import native_codecs
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord
from ledgerfs.messages.wire import ABSENT

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Decrypt = Callable[[list[tuple[str, bytes]], bytes, memoryview], bytes]
"""Called with the wrapped keys (name, value), the initialization vector, and the ciphertext; raises `LedgerfsError`."""


class Workspace:
    """A buffer, and pieces added behind it; offsets count through all of it."""

    def __init__(self, buffer: memoryview) -> None:
        self._pieces: list[bytes | memoryview] = [buffer]
        self._starts = [0]
        self._size = len(buffer)

    def add(self, piece: bytes) -> tuple[int, int]:
        """Add a piece; return where it begins and ends."""
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
        """Return all of it as one array; without a copy where nothing was added."""
        if len(self._pieces) == 1:
            return np.frombuffer(self._pieces[0], np.uint8)
        return np.frombuffer(b"".join(self._pieces), np.uint8)


@dataclass(slots=True)
class PlainPayloads:
    """The payloads of some entries being made plain.

    Attributes
    ----------
    entries, ids
        Columns of `walk_metadata` and the entries' ids; the columns of the payload are changed in place.
    keep
        Which entries are whole messages with plain payloads.
    failures
        Row and reason of each entry whose payload is broken.

    """

    work: Workspace
    entries: Int64Table
    ids: Int64
    ledger_id: int
    keep: Mask = field(init=False)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keep = np.ones(self.ids.size, bool)

    def decrypt(self, decrypt: Decrypt | None, on_encrypted: str) -> None:
        """Decrypt what is encrypted; without keys raise, or null its value, or leave it out, as ``on_encrypted`` says."""
        for row in np.flatnonzero(self.entries[Meta.ENCRYPTION_KEYS] > 0).tolist():
            if decrypt is not None:
                self._decrypt(row, decrypt)
            elif on_encrypted == "raise":
                raise EncryptedMessageError.of(self.ledger_id, int(self.ids[row]))
            elif on_encrypted == "skip":
                self.keep[row] = False
            else:
                # Without its key a batch is one message, and nothing of its payload can be read.
                self.entries[[Meta.BATCH_SIZE, Meta.COMPRESSION, Meta.VALUE_IS_NULL], row] = ABSENT, 0, 1

    def join(self, chunks: ChunkJoiner) -> None:
        """Keep of chunked messages the last part only, with the payload of all."""
        for row in np.flatnonzero((self.entries[Meta.CHUNKS] > 1) & self.keep).tolist():
            entry = self.entries[:, row]
            identity = bytes(self.work.view(*_range(entry, Meta.CHUNKED_ID_AT, Meta.CHUNKED_ID_SIZE)))
            position, number, count = (
                (self.ledger_id, int(self.ids[row])),
                int(entry[Meta.CHUNK]),
                int(entry[Meta.CHUNKS]),
            )
            joined = chunks.add(position, identity, number, count, bytes(self._payload(row)))
            self.keep[row] = joined is not None
            if joined is not None:
                self._replace(row, joined)

    def decompress(self, limit: int) -> None:
        """Decompress what no kernel decompresses, and find what claims more than ``limit`` bytes (times the number of chunks joined)."""
        codecs, sizes = self.entries[Meta.COMPRESSION], self.entries[Meta.UNCOMPRESSED_SIZE]
        is_compressed = (codecs != 0) & self.keep
        if not is_compressed.any():
            return
        # Of a joined message this is the last part, whose number tells how many there really were.
        chunks = np.where(self.entries[Meta.CHUNKS] > 1, self.entries[Meta.CHUNK] + 1, 1)
        is_possible = (sizes >= 0) & (sizes <= np.minimum(limit * chunks, LARGEST))
        is_native = np.isin(codecs, list(native_codecs()))
        for row in np.flatnonzero(is_compressed & ~(is_native & is_possible)).tolist():
            self._decompress(row, limit * int(chunks[row]))

    def explain(self, row: int) -> str:
        """Return why a payload did not decompress to what it claims."""
        try:
            decompress(*self._compressed(row), LARGEST)
        except DecompressionError as error:
            return str(error)
        return "does not decompress to what it claims"

    def _decompress(self, row: int, limit: int) -> None:
        try:
            self._replace(row, decompress(*self._compressed(row), limit))
        except DecompressionError as error:
            self._fail(row, str(error))
        else:
            self.entries[Meta.COMPRESSION, row] = 0

    def _compressed(self, row: int) -> tuple[int, memoryview, int]:
        codec, size = self.entries[Meta.COMPRESSION, row], self.entries[Meta.UNCOMPRESSED_SIZE, row]
        return int(codec), self._payload(row), int(size)

    def _decrypt(self, row: int, decrypt: Decrypt) -> None:
        entry = self.entries[:, row]
        try:
            text = bytes(self.work.view(*_between(entry, Meta.METADATA_AT, Meta.METADATA_END)))
            metadata = MessageMetadataRecord.FromString(text)
        except DecodeError:
            self._fail(row, "its encryption keys are no protobuf messages")
            return
        keys = [(key.name.decode("utf-8", "replace"), key.wrapped) for key in metadata.encryption_key]
        try:
            self._replace(row, decrypt(keys, metadata.encryption_iv, self._payload(row)))
        except LedgerfsError as error:
            raise EncryptedMessageError(error.reason, key=f"entry {self.ledger_id}:{self.ids[row]}") from error

    def _payload(self, row: int) -> memoryview:
        return self.work.view(*_between(self.entries[:, row], Meta.PAYLOAD_AT, Meta.PAYLOAD_END))

    def _replace(self, row: int, payload: bytes) -> None:
        self.entries[[Meta.PAYLOAD_AT, Meta.PAYLOAD_END], row] = self.work.add(payload)

    def _fail(self, row: int, reason: str) -> None:
        self.keep[row] = False
        self.failures.append((row, reason))


def _between(entry: Int64Table, start: Meta, end: Meta) -> tuple[int, int]:
    return int(entry[start]), int(entry[end])


def _range(entry: Int64Table, at: Meta, size: Meta) -> tuple[int, int]:
    start = max(0, int(entry[at]))
    return start, start + int(entry[size])
