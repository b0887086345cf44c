"""Compiled kernels are those of the sources that are there now; functions of C are found where they are."""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.formats.kernel import _imports, _sources, address_of, c_library

PACKAGE = Path(__file__).parent.parent.parent / "ledgerfs"
# One of the smallest kernels that call a kernel of another file: each change compiles it again.
READ = """
import numpy as np
from ledgerfs.messages.encode.values.avro_kernels import number_sizes
print(number_sizes(np.array([True]), np.array([5]))[0])
"""
WRITING = "messages/kernels/wire_writing.py"
SIZE = "size = 1"


# Forks a process for each program, which has numba but nothing of ledgerfs: importing numba takes longer than most of the rest.
FORKS = """
import json, os, sys, traceback
import numba.core.registry, numpy, pyarrow

def run(folder, program, environment):
    os.chdir(folder)
    sys.path.insert(0, folder)
    os.environ.update(environment)
    exec(program, {"__name__": "__main__"})

for line in sys.stdin:
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.dup2(writer, 1)
        status = 1
        try:
            run(*json.loads(line))
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as output:
        said = output.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said]), flush=True)
"""


class Copy:
    """A copy of the package, and what runs programs with it, each in a process of its own."""

    def __init__(self, folder: Path, forks: "subprocess.Popen[str]") -> None:
        self.folder = folder
        self._forks = forks

    def read(self, program: str = READ, **environment: str) -> str:
        """Return what a program prints."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps([str(self.folder), program, environment]) + "\n")
        self._forks.stdin.flush()
        status, said = json.loads(self._forks.stdout.readline())
        assert status == 0
        return said.strip()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy with what is compiled when it reads."""
    folder = tmp_path_factory.mktemp("compiled")
    shutil.copytree(PACKAGE, folder / "ledgerfs", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        copy = Copy(folder, forks)
        assert copy.read("import ledgerfs; print(ledgerfs.__file__)") == str(folder / "ledgerfs" / "__init__.py")
        assert copy.read() == "1"
        yield copy
        forks.stdin.close()


@pytest.fixture
def copied(compiled: Copy, tmp_path: Path) -> Copy:
    shutil.copytree(compiled.folder / "ledgerfs", tmp_path / "ledgerfs")
    return Copy(tmp_path, compiled._forks)


def kept(folder: Path) -> dict[str, int]:
    """Return when each file of compiled code was written."""
    found = {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.nb[ci]")}
    assert any(name.startswith("ledgerfs.messages.encode.values.avro_kernels") for name in found)
    return found


def change(folder: Path, module: str, old: str, new: str) -> None:
    path = folder / "ledgerfs" / module
    source = path.read_text()
    assert source.count(old) == 1
    path.write_text(source.replace(old, new))


def test_a_change_in_a_function_of_another_file_is_compiled_anew(copied):
    before = kept(copied.folder)
    assert copied.read() == "1"
    assert kept(copied.folder) == before
    change(copied.folder, WRITING, SIZE, SIZE.replace("1", "42"))
    assert copied.read() == "42"


def test_a_change_in_a_constant_of_another_file_is_compiled_anew(copied):
    change(copied.folder, WRITING, SIZE, SIZE.replace("1", "ADDED"))
    change(copied.folder, WRITING, "_SEVEN = ", "from ledgerfs.messages.kernels.added import ADDED\n_SEVEN = ")
    added = copied.folder / "ledgerfs" / "messages" / "kernels" / "added.py"
    added.write_text("from ledgerfs.messages.kernels import later\n\nADDED = later.NUMBER\n")
    later = added.with_name("later.py")
    for number in (3, 42):
        later.write_text(f"NUMBER = {number}\n")
        assert copied.read() == str(number)


def test_words_and_modules_that_have_no_part_in_it_compile_nothing_anew(copied):
    before = kept(copied.folder)
    change(copied.folder, WRITING, SIZE, f"{SIZE}  # so")
    for module in (WRITING, "messages/encode/values/avro_kernels.py", "messages/kernels/arrays.py"):
        path = copied.folder / "ledgerfs" / module
        path.write_text(path.read_text().replace('"""', '"""Said in other words, of\n\n\nmore lines: ', 1))
    for module in ("messages/decode/metadata_walk.py", "messages/encode/encode_kernels.py"):
        path = copied.folder / "ledgerfs" / module
        path.write_text(path.read_text() + "\n\nNEW = 1\n")
    assert copied.read() == "1"
    assert kept(copied.folder) == before


def test_code_that_is_edited_while_a_process_runs_is_not_kept_as_the_new_one(copied):
    edit = f"""
from pathlib import Path
import ledgerfs.messages.encode.values.avro_kernels
writing = Path("ledgerfs/{WRITING}")
writing.write_text(writing.read_text().replace("{SIZE}", "{SIZE.replace("1", "42")}"))
"""
    assert copied.read(edit + READ) == "1"
    assert copied.read() == "42"


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
    for package in (copied.folder / "ledgerfs").rglob("__init__.py"):
        shutil.rmtree(package.with_name("__pycache__"), ignore_errors=True)
        package.with_name("__pycache__").write_text("")
    assert copied.read(HOME=str(blocked), XDG_CACHE_HOME=str(blocked)) == "1"
    assert not [*copied.folder.rglob("*.nb[ci]")]


@pytest.mark.parametrize(
    ("name", "function", "is_there"),
    [
        ("lz4.block._block", "LZ4_of_nobody", False),
        ("lz4.block._nowhere", "f", False),
        ("sys", "of_nobody", False),
        ("lz4.block._block", "LZ4_decompress_safe", True),
        ("zlib", "inflate", True),
        ("sys", "Py_IsInitialized", True),
    ],
)
def test_functions_of_extensions_their_libraries_and_python_are_found(name: str, function: str, is_there: bool) -> None:
    library = c_library(name, function)
    assert (library is not None) == is_there
    assert (address_of(library, function) > 0) == is_there
