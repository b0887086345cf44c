"""Workers that Spark has no more work for end without a word: the daemon itself, and in the session of a command."""

import os
import socket
import subprocess
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

from pyspark import SparkConf
from pyspark.serializers import UTF8Deserializer, read_int

from ledgerfs.spark.runtime.session import _DAEMON, _quieten_daemon


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


def test_which_daemon_the_session_of_a_command_has() -> None:
    """With files of Python, on a cluster, or in another Python, ledgerfs may come later than the daemon starts, or never."""
    ours, sparks = "ledgerfs.spark.runtime.daemon", "pyspark.daemon"
    for settings, master, python, wanted in (
        ({}, "local[1]", sys.executable, ours),
        ({}, "spark://master:7077", sys.executable, sparks),
        ({}, "local[1]", "/usr/bin/python3", sparks),
        ({"spark.submit.pyFiles": "some.zip"}, "local[1]", sys.executable, sparks),
        ({_DAEMON: sparks}, "local[1]", sys.executable, sparks),
    ):
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        of_java = SimpleNamespace(sc=lambda conf=conf: SimpleNamespace(conf=lambda: conf))
        context: Any = SimpleNamespace(master=master, pythonExec=python, getConf=lambda conf=conf: conf, _jsc=of_java)
        _quieten_daemon(context)
        assert conf.get(_DAEMON, sparks) == wanted, (settings, master, python)
