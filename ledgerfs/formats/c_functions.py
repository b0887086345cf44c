"""C functions for kernels to call: those inside the extension modules of packages that we depend on, where these export them."""

import ctypes
from importlib.util import find_spec


def c_library(module: str, *names: str) -> ctypes.CDLL | None:
    """Return the shared library of an extension module if it exports all the functions, or one that it is linked to does."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    # What is a part of Python itself exports its functions, and those of its libraries, with the program.
    place = None if spec.origin == "built-in" else spec.origin
    try:
        library = ctypes.CDLL(place)
    except OSError:  # where all is one program, the module is no file
        return None
    return library if all(hasattr(library, name) for name in names) else None


def address_of(library: ctypes.CDLL | None, name: str) -> int:
    """Return where a function of a library is; 0 where there is no library."""
    return 0 if library is None else ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
