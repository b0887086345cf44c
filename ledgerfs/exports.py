"""Lazy exports of a package (PEP 562): names are imported on first use, so that the import of the package is fast."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_exports(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    Parameters
    ----------
    package
        The name of the package.
    places
        The module of each exported name; for an exported module, its own name.

    """

    def load(name: str) -> object:
        module = sys.modules[package]
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
        loaded = import_module(place)
        found = loaded if place == f"{package}.{name}" else getattr(loaded, name)
        setattr(module, name, found)
        return found

    def names() -> list[str]:
        own = (name for name in vars(sys.modules[package]) if name.startswith("__") and name.endswith("__"))
        return sorted({*places, *own})

    return load, names
