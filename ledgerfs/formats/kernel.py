"""How kernels are compiled: without the interpreter's lock, and kept on disk until any kernel of this package changes.

numba keeps a compiled function as long as its own source file is the same, though the functions of other files that were compiled into it
may have changed: after an upgrade, or an edit, old code would go on running. So what is kept is marked with all of these files.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401  (numba's dispatcher)
    """Compile a function on its first call."""
    return _compiled(function)


def inlined_kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Compile a function into the kernels that call it: for small ones, which would cost more to call than to run."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., Any], **options: bool) -> Any:  # noqa: ANN401
    compiler: Any = njit  # whose types know no options in a dictionary
    try:
        dispatcher = compiler(nogil=True, cache=True, **options)(function)
    except RuntimeError:
        # No folder to keep it in, neither beside the source nor at home: compiled anew by each process.
        return compiler(nogil=True, **options)(function)
    # There is no public way; a numba that has another one keeps its own, shorter mark.
    index = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if index is not None:
        index._source_stamp = (index._source_stamp, _stamp())  # noqa: SLF001
    return dispatcher


@cache
def _stamp() -> str:
    """Return a digest of all modules that may hold kernels."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted([*package.glob("formats/**/*.py"), *package.glob("messages/**/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
