"""Workers that Spark has no more work for end without a word: the daemon itself, and in the session of a command."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.serializers import UTF8Deserializer, read_int

# A worker tells which daemon started it. With the daemon halted, nobody ends the worker before it sees that its socket is closed.
_PROGRAM = """
import json, os, signal, sys, time
import pyarrow as pa
from ledgerfs.spark.runtime.session import open_session

def processes(batches):
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"worker": [os.getpid()], "daemon": [os.getppid()]})

for settings in json.loads(sys.argv[1]):
    session = open_session("test", "local[1]", {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", **settings})
    ((worker, daemon),) = session.range(1).coalesce(1).mapInArrow(processes, "worker long, daemon long").collect()
    name = open(f"/proc/{daemon}/cmdline").read().split("\\0")[2]
    os.kill(daemon, signal.SIGSTOP)
    try:
        session.stop()
        while os.path.exists(f"/proc/{worker}"):
            time.sleep(0.01)
    finally:
        os.kill(daemon, signal.SIGCONT)
    for output in (sys.stdout, sys.stderr):
        print(name, file=output, flush=True)
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


def test_which_daemon_the_session_of_a_command_has(tmp_path: Path) -> None:
    """With ours, a command that ends while its daemon is busy prints no traceback."""
    # With files of Python, ledgerfs may come later than the daemon starts.
    archive = tmp_path / "some.zip"
    archive.write_bytes(b"")
    ours, sparks = "ledgerfs.spark.runtime.daemon", "pyspark.daemon"
    settings = [{}, {"spark.submit.pyFiles": str(archive)}, {"spark.python.daemon.module": sparks}]
    command = [sys.executable, "-c", _PROGRAM, json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [ours, sparks, sparks]
    assert "Traceback" not in done.stderr.partition(ours)[0], done.stderr
