"""Cases tried in a process of its own, which notes each before it tries it: a crash or a hang is a failed test that names the case."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 600
"""Seconds that one case may take, or the start of the process: only what hangs takes as long, however slow the machine is."""


class Note:
    """The case at work, written over the one before: a new file for each would cost more than most cases."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)

    def write(self, about: dict[str, Any]) -> None:
        """Note a case, or in the end what was counted."""
        os.pwrite(self._file.fileno(), json.dumps(about).encode() + b"\n", 0)


def counts_of(module: str, *arguments: object, folder: Path) -> dict[str, int]:
    """Run a module of tests as a program, with the path of its note as the last argument; return what it noted in the end."""
    path, said = folder / "case.json", folder / "said.txt"
    command = [sys.executable, "-X", "faulthandler", "-m", module, *map(str, arguments), str(path)]
    with said.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    note, end = "nothing yet", time.monotonic() + PATIENCE
    try:
        while process.poll() is None:
            if (last := _noted(path)) != note:
                note, end = last, time.monotonic() + PATIENCE
            if time.monotonic() > end:
                pytest.fail(f"hangs with {note}")
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    note = _noted(path)
    assert process.returncode == 0, f"exit code {process.returncode} with {note}\n{said.read_text()[-3000:]}"
    counts: dict[str, int] = json.loads(note)
    return counts


def _noted(path: Path) -> str:
    return path.read_bytes().partition(b"\n")[0].decode() if path.exists() else "nothing yet"
