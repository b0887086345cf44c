"""Spark's daemon, which starts the Python workers, except that workers end silently once Spark has closed their socket.

Spark closes the sockets of idle workers after a minute, and of all workers when a session stops. A worker then tries to answer that it got
no further task. Over a Unix domain socket, unlike TCP, that fails at once: Spark's own daemon prints a traceback of ``BrokenPipeError`` for
each of them, in the middle of a command's output (seen with Spark 4.3). Nobody waits at a closed socket, so the error is of no use.

Spark runs this daemon if ``spark.python.daemon.module`` is ``ledgerfs.spark.runtime.daemon``, but only for tasks: the process that plans a
data source has Spark's own (seen with Spark 4.3). The commands plan in the driver.
"""

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Do a task as Spark's daemon does; return the exit code, which is not 0 if the worker should end."""
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
