"""Expand paths and patterns to files, and compute the target of each in a copy.

fsspec's own function treats every path with a ``*`` as a pattern, even if a file has that name.
"""

import os
from collections.abc import Iterable
from typing import Any

from fsspec.implementations.local import LocalFileSystem, make_path_posix, trailing_sep
from fsspec.spec import AbstractFileSystem
from fsspec.utils import other_paths, stringify_path

from ledgerfs.errors import NotFoundError
from ledgerfs.tables.path_patterns import is_pattern, with_literal_beginning
from ledgerfs.vfs.target import require_file_name, target_of

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def expand(
    fs: AbstractFileSystem,
    paths: Paths,
    *,
    recursive: bool = False,
    maxdepth: int | None = None,
    assume_literal: bool = False,
    **options: Any,  # noqa: ANN401  (of fsspec's glob and find)
) -> list[str]:
    """Return the matches of paths and patterns, sorted and distinct; with ``recursive`` also all below them, ``maxdepth`` levels deep.

    ``assume_literal`` disables patterns. A pattern counts as the first level, as in fsspec. Raises `NotFoundError` if nothing matches,
    and `ValueError` for a depth below 1.
    """
    if maxdepth is not None and maxdepth < 1:
        raise ValueError("maxdepth must be at least 1")
    found: set[str] = set()
    for path in (fs._strip_protocol(one) for one in _each(paths)):  # noqa: SLF001  (as in fsspec's own methods)
        roots, depth = [path], maxdepth
        if is_pattern(path) and not (assume_literal or fs.exists(path)):
            roots = fs.glob(with_literal_beginning(path, fs.exists), maxdepth=maxdepth, **options)
            found.update(roots)
            depth = None if maxdepth is None else maxdepth - 1
        elif not recursive or fs.exists(path):
            found.add(path)
        if recursive and depth != 0:
            for root in roots:
                found.update(fs.find(root, maxdepth=depth, withdirs=True, **options))
    if not found:
        raise NotFoundError("no such file or directory", key=", ".join(map(str, _each(paths))))
    return sorted(found)


def _has_pattern(paths: object) -> bool:
    """Whether any of the paths is a pattern and not the name of a file."""
    return isinstance(paths, str | os.PathLike | list | tuple | set) and any(
        is_pattern(stringify_path(one)) for one in _each(paths)
    )


def pairs(
    source: AbstractFileSystem,
    paths: Any,  # noqa: ANN401  (a path, or a list of them)
    target: AbstractFileSystem,
    places: Any,  # noqa: ANN401
    *,
    recursive: bool = False,
    maxdepth: int | None = None,
) -> tuple[Any, Any]:
    """Return the matches of patterns in one filesystem, and the target of each in the other, by fsspec's rules.

    A file or directory is copied into an existing target directory, else to the target's name; matches of a pattern always into it.
    Returns paths without patterns unchanged: fsspec applies the same rules to them.
    """
    if not _has_pattern(paths):
        return paths, places
    if isinstance(target, LocalFileSystem):
        places = make_path_posix(places)
    if isinstance(places, list) and not isinstance(paths, str | os.PathLike):
        return list(map(stringify_path, _each(paths))), places
    found = expand(source, paths, recursive=recursive, maxdepth=maxdepth)
    one = stringify_path(paths) if isinstance(paths, str | os.PathLike) else None
    is_within = False
    if one is not None:
        if not recursive or maxdepth is not None:
            found = [path for path in found if not source.isdir(path)]
        if is_pattern(one) and not source.exists(one):
            is_within = len(found) == 1
        else:
            is_within = isinstance(places, str) and _is_folder(target, places) and not trailing_sep(one)
    return (found, other_paths(found, places, exists=is_within, flatten=one is None)) if found else ([], [])


def require_names(
    source: AbstractFileSystem, paths: Paths, places: object, *, recursive: bool, maxdepth: int | None
) -> None:
    """Raise `InvalidNameError` or `ReadOnlyError` if a file cannot become a ledger at its target, before any file is written.

    ``paths`` and ``places`` are the arguments of `pairs`.
    """
    if isinstance(paths, list) and isinstance(places, list):
        for path, place in zip(paths, places, strict=False):
            if not source.isdir(path):
                target_of(stringify_path(place))
        return
    for path in map(stringify_path, _each(paths)):
        if recursive and source.isdir(path):
            for file in source.find(path, maxdepth=maxdepth):
                require_file_name(file)
        elif isinstance(paths, list) and not source.isdir(path):
            require_file_name(path)


def _is_folder(fs: AbstractFileSystem, path: str) -> bool:
    return bool(trailing_sep(path) or fs.isdir(path))


def _each(paths: Paths) -> Iterable[str | os.PathLike[str]]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths
