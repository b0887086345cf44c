"""Names of the array types that all packages use."""

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
