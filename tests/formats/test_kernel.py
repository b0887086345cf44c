"""Compiled kernels are those of the sources that are there now."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerfs.formats.kernel import _imports, _sources

PACKAGE = Path(__file__).parent.parent.parent / "ledgerfs"
READ = """
import numpy as np
from ledgerfs.messages.decode.metadata_walk import Meta, walk_metadata
from ledgerfs.formats.records import EntryBatch
entry = bytes([0, 0, 0, 7, 10, 1, 112, 16, 1, 24, 2])
batch = EntryBatch(0, memoryview(entry), np.array([0]), np.array([len(entry)]))
print(walk_metadata(batch)[Meta.SEQUENCE_ID, 0])
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with what is compiled when it reads."""
    folder = tmp_path_factory.mktemp("compiled")
    shutil.copytree(PACKAGE, folder / "ledgerfs", ignore=shutil.ignore_patterns("__pycache__"))
    assert read(folder) == "1"
    return folder


@pytest.fixture
def copied(compiled: Path, tmp_path: Path) -> Path:
    shutil.copytree(compiled / "ledgerfs", tmp_path / "ledgerfs")
    return tmp_path


def read(folder: Path, program: str = READ, **environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def kept(folder: Path) -> dict[str, int]:
    """Return when each file of compiled code was written."""
    found = {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.nb[ci]")}
    assert any(name.startswith("ledgerfs.messages.decode.metadata_walk") for name in found)
    return found


def change(folder: Path, module: str, old: str, new: str) -> None:
    path = folder / "ledgerfs" / module
    source = path.read_text()
    assert source.count(old) == 1
    path.write_text(source.replace(old, new))


def test_a_change_in_a_function_of_another_file_is_compiled_anew(copied):
    before = kept(copied)
    assert read(copied) == "1"
    assert kept(copied) == before
    change(copied, "messages/kernels/wire.py", "table[action, row] = value", "table[action, row] = value + 41")
    assert read(copied) == "42"


def test_a_change_in_a_constant_of_another_file_is_compiled_anew(copied):
    change(copied, "messages/kernels/wire.py", "table[action, row] = value", "table[action, row] = value + ADDED")
    change(
        copied, "messages/kernels/wire.py", "ABSENT = ", "from ledgerfs.messages.kernels.added import ADDED\nABSENT = "
    )
    added = copied / "ledgerfs" / "messages" / "kernels" / "added.py"
    added.write_text("from ledgerfs.messages.kernels import later\n\nADDED = later.NUMBER\n")
    later = added.with_name("later.py")
    for number in (1, 41):
        later.write_text(f"NUMBER = {number}\n")
        assert read(copied) == str(1 + number)


def test_words_and_modules_that_have_no_part_in_it_compile_nothing_anew(copied):
    before = kept(copied)
    change(copied, "messages/kernels/wire.py", "table[action, row] = value", "table[action, row] = value  # so")
    for module in ("messages/kernels/wire.py", "messages/decode/metadata_walk.py", "formats/records.py"):
        path = copied / "ledgerfs" / module
        path.write_text(path.read_text().replace('"""', '"""Said in other words, of\n\n\nmore lines: ', 1))
    for module in ("messages/text/json_text.py", "messages/encode/encode_kernels.py"):
        path = copied / "ledgerfs" / module
        path.write_text(path.read_text() + "\n\nNEW = 1\n")
    assert read(copied) == "1"
    assert kept(copied) == before


def test_code_that_is_edited_while_a_process_runs_is_not_kept_as_the_new_one(copied):
    edit = """
from pathlib import Path
import ledgerfs.messages.decode.metadata_walk
wire = Path("ledgerfs/messages/kernels/wire.py")
wire.write_text(wire.read_text().replace("table[action, row] = value", "table[action, row] = value + 41"))
"""
    assert read(copied, edit + READ) == "1"
    assert read(copied) == "42"


def test_all_that_kernels_import_of_the_package_is_part_of_the_mark():
    found = 0
    for module in _sources():
        if not module.startswith(("ledgerfs.formats", "ledgerfs.messages")):
            continue
        for name in _imports(ast.parse(_sources()[module])):
            assert name != "ledgerfs", (
                f"{module} imports the front door, and so everything, without a trace in its imports"
            )
            if name.startswith("ledgerfs."):
                assert {name, name.rpartition(".")[0]} & _sources().keys(), f"{module} imports {name}"
                found += 1
    assert found > 100


def test_where_nothing_can_be_kept_kernels_work_all_the_same(copied, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for package in (copied / "ledgerfs").rglob("__init__.py"):
        shutil.rmtree(package.with_name("__pycache__"), ignore_errors=True)
        package.with_name("__pycache__").write_text("")
    assert read(copied, HOME=str(blocked), XDG_CACHE_HOME=str(blocked), PYTHONDONTWRITEBYTECODE="1") == "1"
