"""Spark's daemon for Python workers, changed so that workers exit silently after Spark has closed their socket.

Spark closes the sockets of idle workers after a minute, and of all workers when a session stops. A worker then tries to answer that it got
no further task. Over a Unix domain socket, unlike TCP, that fails at once: Spark's own daemon prints a traceback of ``BrokenPipeError`` for
each worker, in the middle of a command's output (seen with Spark 4.3). The error has no use, since the socket has no reader any more.

Spark runs this daemon if ``spark.python.daemon.module`` is ``ledgerfs.spark.runtime.daemon``, but only for tasks: the process that plans a
data source uses Spark's own daemon (seen with Spark 4.3). The commands plan in the driver.
"""

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run a task as Spark's daemon does; return the exit code, not 0 if the worker should exit."""
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
