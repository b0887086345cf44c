"""fsspec's own abstract tests, as far as a filesystem that is read only can run them: all of ``get``.

Those tests lay out files of names of their own (``subdir/nesteddir/nestedfile``), which no bucket can have. So they run on
`LedgerFileSystem` over another tree, which shows golden ledgers under the names asked for; everything above the tree is what users run.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.errors import NotFoundError
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.vfs.tree import Node, Tree, tree_of
from ledgerfs.vfs.views.info import Document

LEDGER = "entries/public/golden/string/{}.entries"


class NamedTree:
    """Ledgers, or given bytes, under any names."""

    def __init__(self, real: Tree) -> None:
        self.real = real
        self.nodes: dict[str, Node] = {"": Node("", None, 0)}
        self.contents: dict[str, bytes] = {}
        self.targets = [node.path for node in real.walk("entries") if not node.is_directory]

    def add(self, path: str, *, directory: bool = False) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.add(parent, directory=True)
        real = self.real.node(self.targets[len(self.nodes) % len(self.targets)])
        self.nodes[path] = Node(path, None, 0) if directory else Node(path, real.ref, real.size)

    def remove(self, path: str) -> None:
        self.nodes = {
            name: node for name, node in self.nodes.items() if name != path and not name.startswith(f"{path}/")
        }

    def node(self, path: str) -> Node:
        if path not in self.nodes:
            raise NotFoundError("no such file or directory", key=path)
        return self.nodes[path]

    def children(self, path: str) -> Iterator[Node]:
        self.node(path)
        return (node for name, node in self.nodes.items() if name and name.rpartition("/")[0] == path)

    def walk(self, path: str) -> Iterator[Node]:
        for node in self.children(path):
            yield node
            yield from self.walk(node.path)

    def open(self, path: str) -> FileReader:
        ref = self.node(path).ref
        assert ref is not None
        if path in self.contents:
            # For the one test that compares what is in its files.
            return Document(self.contents[path])
        return self.real.open(next(node.path for node in self.real.walk("entries") if node.ref == ref))


class WritableNames(LedgerFileSystem):
    """The filesystem under test, whose tree the fixtures may lay out."""

    cachable = False
    names: NamedTree

    @property
    def _tree(self) -> NamedTree:
        return self.names

    def touch(self, path: str, *_: Any, **__: Any) -> None:
        self.names.add(self._strip_protocol(path))

    def pipe(self, path: str, value: bytes) -> None:
        self.touch(path)
        self.names.contents[self._strip_protocol(path)] = value

    def makedirs(self, path: str, *_: Any, **__: Any) -> None:
        self.names.add(self._strip_protocol(path), directory=True)

    mkdir = makedirs

    def rm(self, path: str, *_: Any, **__: Any) -> None:
        self.names.remove(self._strip_protocol(path))

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode == "wb":
            self.touch(path)
            return Path("/dev/null").open("wb")
        return super().open(path, mode, **kwargs)


class LedgerFixtures(AbstractFixtures):
    @pytest.fixture
    def fs(self, golden_url: str) -> WritableNames:
        fs = WritableNames(fo=golden_url)
        fs.names = NamedTree(tree_of(fs.bucket))
        return fs

    @pytest.fixture
    def fs_path(self) -> str:
        return "root"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True


class TestGet(AbstractGetTests, LedgerFixtures):
    """`fs.get` in all its forms."""
