"""Compile kernels (without the interpreter's lock; cached on disk until their code changes), and find C functions for them to call.

numba reuses a compiled function while its own source file is unchanged, even if functions and constants of other files that were compiled
into it have changed: after an upgrade, or an edit, old code would run. So each cached function is marked with the code of its module and of
all modules that it imports. Comments, docstrings and line numbers are not part of the mark: a reworded docstring recompiles nothing.

C functions come from extension modules of packages that we depend on, where these export them.
"""

import ast
import ctypes
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile

_FOLDER = Path(__file__).parent.parent
# Kernels of the toolkit call those of the core; its folder may be missing.
_PACKAGES = (_FOLDER, _FOLDER.with_name("ledgerfs_cluster"))


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401  (numba's dispatcher)
    """Compile a function on its first call from Python, and cache it on disk."""
    try:
        dispatcher = _compiled(function, cache=True)
    except RuntimeError:
        # No folder can hold the cache, neither beside the source nor at home: each process compiles it.
        return _compiled(function)
    # numba has no public API for this. Where its internals differ, its own mark stays; so it does for a package in an archive, since numba
    # compares the whole archive.
    kept: Any = getattr(dispatcher, "_cache", None)
    if hasattr(kept, "_cache_file") and _FOLDER.is_dir():
        # numba's name for the file has the function's line, which a docstring above it moves.
        name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}"
        file: Any = IndexDataCacheFile
        kept._cache_file = file(kept.cache_path, name, Stamp(function.__module__))  # noqa: SLF001
    return dispatcher


def inner_kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Compile a function for calls from kernels only: calls from Python need code that takes longer to compile than most kernels.

    A call from Python, also by another name, crashes the process.
    """
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined_kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Compile a function into the kernels that call it: for small ones, whose call would cost more than their code."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def _compiled(function: Callable[..., Any], **options: bool) -> Any:  # noqa: ANN401
    compiler: Any = njit  # its types do not accept options in a dictionary
    return compiler(nogil=True, **options)(function)


class Stamp:
    """A mark of the code of a module and of all modules of these packages that it imports, at the top or inside functions.

    It equals a cached mark if the code is equal. Comparing code requires parsing, so the text of all modules is compared first: it changes
    only while they are edited. Both are read from the files when the first kernel is made; later edits do not count.
    """

    __slots__ = ("_code", "_module", "_text")

    def __init__(self, module: str) -> None:
        self._module = module
        self._text = _digest_of_text()
        self._code = ""

    @property
    def code(self) -> str:
        """The digest of the code, made on first use."""
        if not self._code:
            self._code = _digest_of_code(self._module)
        return self._code

    def __reduce__(self) -> tuple[type, tuple[tuple[str, str, str]]]:
        """Pickle as a tuple, which every version of this class can read."""
        return tuple, ((self._module, self._text, self.code),)

    def __eq__(self, kept: object) -> bool:
        if not isinstance(kept, tuple) or len(kept) != 3:
            return NotImplemented
        module, text, code = kept
        return bool(module == self._module and (text == self._text or code == self.code))

    __hash__ = None  # type: ignore[assignment]


@cache
def _sources() -> dict[str, bytes]:
    """Return {name: text} of the modules that may hold kernels, or code of kernels; a package's text is its ``__init__.py``."""
    paths = sorted(
        path
        for package in _PACKAGES
        for place in ("*.py", "formats/**/*.py", "messages/**/*.py")
        for path in package.glob(place)
    )
    parts = {path: path.relative_to(_FOLDER.parent).with_suffix("").parts for path in paths}
    return {".".join(parts[path]).removesuffix(".__init__"): path.read_bytes() for path in paths}


@cache
def _digest_of_text() -> str:
    digest = hashlib.sha256()
    for name, text in _sources().items():
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


@cache
def _digest_of_code(module: str) -> str:
    """Return a digest of the code of a module and of those that it imports, directly or indirectly."""
    digest = hashlib.sha256()
    found, left = {module}, [module]
    while left:
        new = _parsed(left.pop())[1] - found
        found |= new
        left += new
    for name in sorted(found):
        digest.update(f"{name}\n{_parsed(name)[0]}\n".encode())
    return digest.hexdigest()


@cache
def _parsed(module: str) -> tuple[str, frozenset[str]]:
    """Return a digest of the code of one module, and the names of the modules of ours that it imports."""
    tree = ast.parse(_sources()[module])
    imported = frozenset(_imports(tree)) & _sources().keys()
    text = ast.dump(_WithoutProse().visit(tree))
    return hashlib.sha256(text.encode()).hexdigest(), imported


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield names that may be modules: for ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))


class _WithoutProse(ast.NodeTransformer):
    """Removes docstrings of modules, classes, functions and attributes: expressions that are a string alone."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def c_library(module: str, *names: str) -> ctypes.CDLL | None:
    """Return the shared library of an extension module; None unless it, or a library that it is linked to, exports all functions."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    # A built-in module exports its functions, and those of its libraries, with the program.
    place = None if spec.origin == "built-in" else spec.origin
    try:
        library = ctypes.CDLL(place)
    except OSError:  # a module inside the program is not a file
        return None
    return library if all(hasattr(library, name) for name in names) else None


def address_of(library: ctypes.CDLL | None, name: str) -> int:
    """Return the address of a function of a library; 0 without a library."""
    return 0 if library is None else ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
