"""What payloads claim to decompress to, believed as far as their bytes bear it out.

Pulsar limits what is stored, not what that decompresses to: its readers take messages of a hundred times the limit. So does this one, up
to a ceiling. What is claimed up to `BELIEVED` bytes is allocated at once. For more, nothing is allocated before the payload itself was
measured, in a small and constant memory; but for ZLIB, whose library takes memory as output comes, and SNAPPY, which makes 22 times as
much of a payload at most.
"""

import numpy as np
import numpy.typing as npt
import zstandard

from ledgerfs.errors import DecompressionError, MessageTooLargeError
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.codecs.decompression import LARGEST, Compression
from ledgerfs.messages.kernels.arrays import borrowed

BELIEVED = 5 << 20
"""Bytes; few messages are larger, and none that is not compressed unless a broker was told to take it."""

COST_OF_MESSAGE = 256
"""What each message of a large batch counts for at least, bytes: its row takes that much, however small it is."""

_MOST_OF_A_BYTE: dict[int, int] = {
    Compression.LZ4: 255,
    Compression.ZLIB: 1032,
    Compression.ZSTD: 1 << 15,
    Compression.SNAPPY: 22,
}
"""How many bytes no codec can exceed for each that is stored: ZSTD's shortest block is 4 bytes long, and 128 KiB at most."""

_PIECE = 128 << 10


def check_claim(codec: int, payload: memoryview, size: int, limit: int) -> None:
    """See that a payload has the ``size`` bytes that it claims, unless they are few.

    Raises `DecompressionError` if it has not, and `MessageTooLargeError` if it may have them, and they are more than ``limit``.
    """
    if size <= min(limit, BELIEVED) or codec not in _MOST_OF_A_BYTE:
        return
    most = len(payload) * _MOST_OF_A_BYTE[codec]
    if size > most:
        name = Compression(codec).name
        raise DecompressionError(
            f"claims {size} uncompressed bytes; {len(payload)} bytes of {name} hold {most} at most"
        )
    check_size(size, limit, "the message")
    made = size
    if codec == Compression.LZ4:
        made = _size_of_lz4(_array(payload))
    elif codec == Compression.ZSTD:
        made = _size_of_zstd(payload, size)
    if made != size:
        raise DecompressionError(f"does not decompress to the {size} bytes that it claims")


def check_size(size: int, limit: int, subject: str) -> None:
    """Raise `MessageTooLargeError` for more than ``limit`` bytes, or more than anybody can read."""
    if size > LARGEST:
        raise MessageTooLargeError(f"{subject} has {size} bytes, more than the {LARGEST} that a column can hold")
    if size > limit:
        raise too_large(f"{subject} has {size} bytes", size, limit)


def too_large(what: str, needed: int, limit: int) -> MessageTooLargeError:
    """Return the error that tells what the option has to be raised to."""
    return MessageTooLargeError(f"{what}, more than the limit of {limit}; max_message_bytes={needed} lets it through")


def most_messages(limit: int) -> int:
    """Return how many messages a batch may have that claims to be large."""
    return max(BELIEVED, limit) // COST_OF_MESSAGE


def _array(payload: memoryview) -> npt.NDArray[np.uint8]:
    array = np.frombuffer(payload, np.uint8)
    array.flags.writeable = False
    return array


def _size_of_zstd(payload: memoryview, size: int) -> int:
    """Return what frames decompress to, or something larger than ``size`` as soon as it is more."""
    made, piece = 0, bytearray(_PIECE)
    # Pulsar's clients, which decompress at once, know no limit of the window.
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
    """Return what a block decompresses to by the lengths of its sequences; -1 for one that breaks off."""
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


@kernel
def _lz4_length(data, at, length):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return a length that goes on in the bytes from ``at`` if its four bits are all set, and the place behind them."""
    more = length == 15
    while more and at < data.size:
        length += np.int64(data[at])
        more = data[at] == 255
        at += 1
    return length, at
