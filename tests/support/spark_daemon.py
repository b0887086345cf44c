"""The Python that Spark starts in the shared session: what it forks has the libraries and ledgerfs already.

Spark runs a daemon each for tasks and for the steps of planning (their worker modules differ), and each forks a process for each plan. With
Spark's own Python these would import all of it each time, which takes more processor time than most queries of tests.
"""

import gc
import runpy
import sys
from importlib import import_module
from pathlib import Path

from tests.support.forked import LIBRARIES

ROOT = Path(__file__).parent.parent.parent
OF_SPARK = ("pandas", "pyspark.worker", "ledgerfs.spark", "ledgerfs.spark.source.data_source")


def python_of_spark(folder: Path) -> str:
    """Write the program that ``PYSPARK_PYTHON`` has to name, and return its path.

    It finds pyspark where it is installed. Spark names archives of it that hold no compiled modules.
    """
    program = folder / "python"
    # Spark also asks it for its version, by ``-c``.
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -m ]; then set -- -m {__name__} "$@"; fi\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


if __name__ == "__main__":
    for module in (*LIBRARIES, *OF_SPARK):
        import_module(module)
    gc.freeze()
    _, _, daemon, *sys.argv[1:] = sys.argv
    runpy.run_module(daemon, run_name="__main__", alter_sys=True)
