"""The uncompressed sizes that payloads claim, checked before memory is allocated for them.

Pulsar limits stored sizes, not uncompressed ones: its readers accept messages of a hundred times the limit. So does this reader, up to a
ceiling. A claim of up to `BELIEVED` bytes is allocated at once. For a larger one the payload is measured first, in little and constant
memory; except with ZLIB, whose library allocates memory as output comes, and SNAPPY, which expands a payload 22 times at most.
"""

import numpy as np
import numpy.typing as npt
import zstandard

from ledgerfs.errors import DecompressionError, MessageTooLargeError
from ledgerfs.formats.decompression import LARGEST, MOST_OF_A_BYTE, Compression
from ledgerfs.formats.kernel import inner_kernel, kernel
from ledgerfs.messages.kernels.arrays import borrowed

BELIEVED = 5 << 20
"""Bytes; few messages are larger, and no uncompressed one unless the broker's limit was raised."""

COST_OF_MESSAGE = 256
"""Least bytes that each message of a large batch counts as: its row takes that much memory."""

_PIECE = 128 << 10


def check_claim(codec: int, payload: memoryview, size: int, limit: int) -> None:
    """Check that a payload decompresses to the ``size`` bytes that it claims; a small claim is not checked.

    Raises `DecompressionError` if it does not, and `MessageTooLargeError` if it may, but claims more than ``limit`` bytes.
    """
    if size <= min(limit, BELIEVED) or codec not in MOST_OF_A_BYTE:
        return
    most = len(payload) * MOST_OF_A_BYTE[codec]
    if size > most:
        name = Compression(codec).name
        raise DecompressionError(
            f"its uncompressed size is {size} bytes, but {len(payload)} bytes of {name} contain at most {most}"
        )
    check_size(size, limit, "the message")
    made = size
    if codec == Compression.LZ4:
        made = _size_of_lz4(_array(payload))
    elif codec == Compression.ZSTD:
        made = _size_of_zstd(payload, size)
    if made != size:
        raise DecompressionError(f"does not decompress to {size} bytes, its uncompressed size")


def check_size(size: int, limit: int, subject: str) -> None:
    """Raise `MessageTooLargeError` for more than ``limit`` bytes, or more than a column can hold."""
    if size > LARGEST:
        raise MessageTooLargeError(f"{subject} has {size} bytes, more than the {LARGEST} that a column can hold")
    if size > limit:
        raise too_large(f"{subject} has {size} bytes", size, limit)


def too_large(what: str, needed: int, limit: int) -> MessageTooLargeError:
    """Return the error, which contains the required value of the option."""
    return MessageTooLargeError(
        f"{what}, more than the limit of {limit}; pass max_message_bytes={needed} (--max-message-bytes) to read it"
    )


def most_messages(limit: int) -> int:
    """Return the most messages that a batch with a large claim may have."""
    return max(BELIEVED, limit) // COST_OF_MESSAGE


def _array(payload: memoryview) -> npt.NDArray[np.uint8]:
    array = np.frombuffer(payload, np.uint8)
    array.flags.writeable = False
    return array


def _size_of_zstd(payload: memoryview, size: int) -> int:
    """Return the bytes that frames decompress to; stops counting above ``size``."""
    made, piece = 0, bytearray(_PIECE)
    # Pulsar's clients decompress in one call, which does not limit the window.
    decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST + 1)
    try:
        with decompressor.stream_reader(payload, read_across_frames=True, closefd=False) as reader:
            while made <= size and (count := reader.readinto(piece)):
                made += count
    except zstandard.ZstdError as error:
        if "not enough memory" in str(error):
            raise MemoryError(f"no memory for the window of a ZSTD frame of {size} bytes") from error
        raise DecompressionError(f"broken ZSTD data: {error}") from error
    return made


@kernel
def _size_of_lz4(data):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the bytes that a block decompresses to, by the lengths of its sequences; -1 if it is cut."""
    data = borrowed(data)  # type: ignore[call-arg]
    at = made = 0
    while at < data.size:
        token = np.int64(data[at])
        length, at = _lz4_length(data, at + 1, token >> 4)
        at += length
        made += length
        if at >= data.size:
            return made if at == data.size else -1
        length, at = _lz4_length(data, at + 2, token & 15)
        made += length + 4
    return -1


@inner_kernel
def _lz4_length(data, at, length):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return a length, which continues in the bytes from ``at`` if its four bits are all set, and the index after it."""
    more = length == 15
    while more and at < data.size:
        length += np.int64(data[at])
        more = data[at] == 255
        at += 1
    return length, at
