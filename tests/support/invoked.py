"""The command ``ledgerfs`` in this process, for tests of its output and exit code; `tests.support.commands` starts a process for each."""

import io
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ledgerfs.cache.block_cache import process_cache
from ledgerfs.cli import group
from ledgerfs.fsspec_impl import LedgerFileSystem


class Done(NamedTuple):
    """What a command wrote, and its exit code."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run(*arguments: str, code: int | None = 0, env: Mapping[str, str] | None = None) -> Done:
    """Run a command that finds no blocks in memory, as in a process of its own, and check its exit code, unless that is None.

    ``env`` holds variables beside those of this process. Clients of S3, which keep what they find there, are forgotten before and after.
    """
    process_cache.clear()
    LedgerFileSystem.clear_instance_cache()
    if env is not None:
        _forget_s3()
    with (
        Path(os.devnull).open(encoding="utf-8") as nothing,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["ledgerfs", *arguments])
        patch.setattr(sys, "stdin", nothing)
        patch.setattr(sys, "stdout", io.TextIOWrapper(stdout, encoding="utf-8"))
        patch.setattr(sys, "stderr", io.TextIOWrapper(stderr, encoding="utf-8", errors="backslashreplace"))
        patch.setattr(logging, "lastResort", logging.lastResort)
        # Handlers that a command adds for the rest of its process, such as a mount's, would write to a file that is closed.
        patch.setattr(logging.root, "handlers", [*logging.root.handlers])
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        # A command that cannot write its output replaces the file behind standard output.
        written = [os.dup(file.fileno()) for file in (stdout, stderr)]
        returned = group.run()
        sys.stdout.flush()
        sys.stderr.flush()
        done = Done(returned, *map(_taken, written))
        sys.stdout.detach()  # type: ignore[union-attr]
        sys.stderr.detach()  # type: ignore[union-attr]
    if env is not None:
        _forget_s3()
    assert code in {None, done.returncode}, done
    return done


def output(*arguments: str, code: int = 0, env: Mapping[str, str] | None = None) -> str:
    return run(*arguments, code=code, env=env).stdout.decode()


def _taken(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def _forget_s3() -> None:
    if "s3fs" in sys.modules:
        sys.modules["s3fs"].S3FileSystem.clear_instance_cache()
