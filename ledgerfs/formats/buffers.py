"""Bytes and arrays by the names that all rooms give them."""

import numpy as np
import numpy.typing as npt

Buffer = bytes | memoryview
"""Bytes that do not change."""

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
