"""Compiled kernels are those of the sources that are there now."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "ledgerfs"
READ = """
import numpy as np
from ledgerfs.messages.decode.metadata_walk import Meta, walk_metadata
from ledgerfs.formats.records import EntryBatch
entry = bytes([0, 0, 0, 7, 10, 1, 112, 16, 1, 24, 2])
batch = EntryBatch(0, memoryview(entry), np.array([0]), np.array([len(entry)]))
print(walk_metadata(batch)[Meta.SEQUENCE_ID, 0])
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package, without what was compiled of it."""
    shutil.copytree(PACKAGE, tmp_path / "ledgerfs", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def read(folder: Path, **environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), **environment}
    done = subprocess.run([sys.executable, "-c", READ], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_change_in_a_function_of_another_file_is_compiled_anew(copied):
    assert read(copied) == "1"
    kept = {path: path.stat().st_mtime_ns for path in copied.rglob("metadata_walk*.nbi")}
    assert kept
    assert read(copied) == "1"
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("metadata_walk*.nbi")} == kept
    wire = copied / "ledgerfs" / "messages" / "kernels" / "wire.py"
    source = wire.read_text()
    changed = source.replace("table[action, row] = value", "table[action, row] = value + 41")
    assert changed != source
    wire.write_text(changed)
    assert read(copied) == "42"


def test_where_nothing_can_be_kept_kernels_work_all_the_same(copied, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for package in (copied / "ledgerfs").rglob("__init__.py"):
        package.with_name("__pycache__").write_text("")
    assert read(copied, HOME=str(blocked), XDG_CACHE_HOME=str(blocked), PYTHONDONTWRITEBYTECODE="1") == "1"
