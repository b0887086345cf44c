"""The ledger of a path to write or remove: only ``entries/<tenant>/<namespace>/<topic>/<id>.entries`` is allowed."""

import re

from ledgerfs.catalog.layouts_known import layout_rows
from ledgerfs.errors import InvalidNameError, IsADirectoryPathError, ReadOnlyError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.topic_names import managed_ledger_in
from ledgerfs.vfs.tree import Tree

WRITABLE_VIEW = "entries"

_PARTS = 5
_FILE_NAME = re.compile(r"(0|[1-9][0-9]{0,18})\.entries\Z", re.ASCII)


def target_of(path: str) -> tuple[str, int]:
    """Return the managed ledger and the ledger id of a path.

    Raises `ReadOnlyError` outside ``entries``, and `InvalidNameError` for a path that is not the file of a topic's ledger.
    """
    _view, *directory = require_writable(path).split("/")
    if not directory:
        raise IsADirectoryPathError("is a directory", key=path)
    name = directory.pop()
    match = _FILE_NAME.match(name)
    if match is None:
        raise InvalidNameError("not the name of a ledger's file; expected <ledger id>.entries", key=path)
    try:
        return managed_ledger_in(directory), int(match[1])
    except InvalidNameError as error:
        raise InvalidNameError(error.reason, key=path) from error


def is_file_of_ledger(path: str) -> bool:
    """Whether a path has the form of a ledger's file, existing or not: ``entries/<tenant>/<namespace>/<topic>/<id>.entries``."""
    parts = path.split("/")
    return len(parts) == _PARTS and parts[0] == WRITABLE_VIEW and _FILE_NAME.match(parts[-1]) is not None


def require_file_name(path: str) -> None:
    """Raise `InvalidNameError` for a file that keeps its name in a copy, if that is not the name of a ledger's file."""
    if _FILE_NAME.match(path.rpartition("/")[2]) is None:
        raise InvalidNameError("not the name of a ledger's file; expected <ledger id>.entries", key=path)


def require_writable(path: str) -> str:
    """Return the path without leading and trailing slashes; raises `ReadOnlyError` outside ``entries``, the only writable directory."""
    stripped = path.strip("/")
    if stripped.partition("/")[0] != WRITABLE_VIEW:
        raise ReadOnlyError(f"only {WRITABLE_VIEW}/ can be written to", key=path)
    return stripped


def removable(tree: Tree, path: str) -> LedgerKey:
    """Return the names of the objects of the ledger at a path; also of a missing ledger, so that its other objects can be removed.

    Raises `NotFoundError`, `IsADirectoryPathError`, `ReadOnlyError`.
    """
    node = tree.node(require_writable(path))
    ledger = node.missing if node.ref is None else node.ref
    if ledger is None:
        raise IsADirectoryPathError("is a directory", key=path)
    if not layout_rows(ledger.layout).IS_WRITABLE:
        raise ReadOnlyError(f"ledgerfs reads but does not write ledgers in the layout of {ledger.key}", key=path)
    return LedgerKey(ledger.uuid, ledger.ledger_id, is_index=False)
