"""Spark's daemon, which starts the Python workers, except that workers end without a word once Spark has closed their socket.

Spark closes the sockets of idle workers after a minute, and of all when a session stops. A worker then tries to say that it got no further
task, and over a Unix domain socket, unlike over TCP, that fails at once: Spark's own daemon prints a traceback of ``BrokenPipeError`` for
each of them, in the middle of what a command prints (seen with Spark 4.3). Whoever has closed the socket waits for nothing any more, so
there is nobody whom such an error could tell anything.

Spark runs it in place of Spark's own where ``spark.python.daemon.module`` is ``ledgerfs.spark.runtime.daemon``, but for tasks only: what
plans a data source has Spark's own (seen with Spark 4.3). The commands plan in the driver.
"""

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Do a task as Spark's daemon does; return the exit code, which is not 0 where the worker is to end."""
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
