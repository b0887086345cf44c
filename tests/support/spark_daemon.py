"""Spark's daemon, whose Python workers have the libraries already: they are forked from a process that has them.

A worker that is killed, or ends with its task, costs the next one no second of imports. Workers import ledgerfs themselves, as those of
Spark's own daemon do. Spark runs this where ``spark.python.daemon.module`` is its name and ``PYTHONPATH`` has the folder of the tests.
"""

import gc
from importlib import import_module

from pyspark import daemon

from tests.support.forked import LIBRARIES

if __name__ == "__main__":
    for library in LIBRARIES:
        import_module(library)
    gc.freeze()
    daemon.manager()
