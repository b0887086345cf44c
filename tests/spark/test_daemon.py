"""Workers that Spark has no more work for end without a word: the daemon itself, and in the session of a command."""

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from pyspark.serializers import UTF8Deserializer, read_int

# A worker tells which daemon started it. With the daemon halted, nobody ends the worker before it sees that its socket is closed.
_PROGRAM = """
    import os, signal, sys, time
    import pyarrow as pa
    from ledgerfs.spark.runtime.session import open_session

    def processes(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"worker": [os.getpid()], "daemon": [os.getppid()]})

    session = open_session("test", "local[1]", dict(a.split("=") for a in sys.argv[1:]))
    ((worker, daemon),) = session.range(1).coalesce(1).mapInArrow(processes, "worker long, daemon long").collect()
    print(open(f"/proc/{daemon}/cmdline").read().split("\\0")[2], flush=True)
    os.kill(daemon, signal.SIGSTOP)
    try:
        session.stop()
        while os.path.exists(f"/proc/{worker}"):
            time.sleep(0.01)
    finally:
        os.kill(daemon, signal.SIGCONT)
"""


def said_after_the_socket_was_closed(module: str) -> str:
    """Start a daemon as Spark does, have it start a worker, close its socket, and return what both write to standard error."""
    with tempfile.TemporaryDirectory() as folder:  # the path of a Unix domain socket is 107 bytes at most
        daemon = subprocess.Popen(
            [sys.executable, "-m", module, "pyspark.worker"],
            env={
                **os.environ,
                "PYTHON_UNIX_DOMAIN_ENABLED": "true",
                "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
                "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true",
                "SPARK_REUSE_WORKER": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(UTF8Deserializer().loads(daemon.stdout))
                with connection.makefile("rb") as answers:
                    assert read_int(answers) != daemon.pid
        finally:
            # The worker has the pipes as well, which end with the last of both.
            daemon.kill()
            _, said = daemon.communicate()
    return said.decode()


def test_a_worker_whose_socket_spark_has_closed_ends_without_a_word() -> None:
    assert said_after_the_socket_was_closed("ledgerfs.spark.runtime.daemon") == ""


def test_our_daemon_is_needed_as_long_as_sparks_own_prints_a_traceback() -> None:
    assert "BrokenPipeError" in said_after_the_socket_was_closed("pyspark.daemon")


def in_a_session_of_a_command(**settings: str) -> subprocess.CompletedProcess[str]:
    given = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", **settings}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), *(f"{key}={value}" for key, value in given.items())],
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_a_command_that_ends_while_the_daemon_is_busy_prints_no_traceback() -> None:
    done = in_a_session_of_a_command()
    assert done.stdout == "ledgerfs.spark.runtime.daemon\n"
    assert "Traceback" not in done.stderr, done.stderr


def test_sparks_own_daemon_where_ledgerfs_may_come_later_than_it_starts(tmp_path: Path) -> None:
    archive = tmp_path / "some.zip"
    archive.write_bytes(b"")
    done = in_a_session_of_a_command(**{"spark.submit.pyFiles": str(archive)})
    assert done.stdout == "pyspark.daemon\n"


def test_a_daemon_that_somebody_has_chosen() -> None:
    done = in_a_session_of_a_command(**{"spark.python.daemon.module": "pyspark.daemon"})
    assert done.stdout == "pyspark.daemon\n"
