"""A moment for Arrow's threads at the end of a program.

pyarrow reads a data set over a Python filesystem with threads of its own, which let go of what they read a little later. When the program
ends in between, such a thread asks for an interpreter that is no more, and the process aborts (``terminate called without an active
exception``, exit code 134), though all was done. Seen with pyarrow 26 and fsspec's own local filesystem alike.
"""

import atexit
import sys
import time

_MOMENT = 0.1


def wait_for_arrow() -> None:
    """Let pyarrow's threads run for a tenth of a second, if the program used data sets."""
    if "pyarrow._dataset" in sys.modules:
        time.sleep(_MOMENT)


atexit.register(wait_for_arrow)
