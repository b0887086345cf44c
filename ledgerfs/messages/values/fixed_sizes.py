"""Values of a fixed width from bytes elsewhere: as they are, as decimals, as the texts of UUIDs."""

from uuid import UUID

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.kernels.arrays import empty
from ledgerfs.messages.kernels.gather import bitmap


def to_fixed(data: Bytes, at: Int64, size: Int64, valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Return an array of bytes of a fixed width; a value that is not there has the size 0."""
    target = empty(at.size * kind.byte_width + 1, np.uint8)
    _copy(data, at, size, kind.byte_width, target)
    return pa.Array.from_buffers(kind, at.size, [bitmap(valid), pa.py_buffer(target)])


def to_decimals(data: Bytes, at: Int64, size: Int64, valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Return an array of a decimal type from big-endian two's complement (Avro's); the caller has seen to it that each value fits."""
    width = kind.bit_width // 8
    target = empty(at.size * width + 1, np.uint8)
    _reverse(data, at, size, width, target)
    return pa.Array.from_buffers(kind, at.size, [bitmap(valid), pa.py_buffer(target)])


def to_uuids(data: Bytes, at: Int64, size: Int64, valid: Mask | None) -> pa.Array:
    """Return the texts of UUIDs, sixteen bytes each; a value that is not there has the size 0."""
    found = to_fixed(data, at, size, valid, pa.binary(16)).to_pylist()
    return pa.array([None if one is None else str(UUID(bytes=one)) for one in found], pa.string())


@kernel
def _copy(data, at, size, width, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(at.size):
        for k in range(width):
            target[i * width + k] = data[at[i] + k] if size[i] else 0


@kernel
def _reverse(data, at, size, width, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(at.size):
        last = at[i] + size[i] - 1
        sign = np.uint8(0xFF) if size[i] > 0 and data[at[i]] >= 0x80 else np.uint8(0)
        for k in range(width):
            target[i * width + k] = data[last - k] if k < size[i] else sign
