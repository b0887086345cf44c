"""What is noted of work that goes on, for the doctor of the cluster: by names of nodes, which tell it even of a damaged note."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.journal.trash_line import TRASH, TrashKind, TrashState, parse_trash_node_name
from ledgerfs.offload.attempts import ROOT as ATTEMPTS
from ledgerfs.storage.zookeeper.nodes import Nodes
from ledgerfs.upkeep.doctor.noted_work import NotedWork

Parsed = TypeVar("Parsed")
_Name = tuple[TrashKind, int, str | None]


def noted_work(nodes: Nodes) -> NotedWork:
    """Read what is noted; raises `AccessDeniedError` and `StoreUnreachableError`."""
    journal = read_journal(nodes)
    attempts = [*(one.path for one in journal.attempts), *journal.unreadable]
    keys: list[LedgerKey] = list(_named(attempts, ATTEMPTS, parse_ledger_key))
    # What a line in `TrashState.DELETED` is about is gone: what is there all the same nobody goes on with.
    going = [one.path for one in journal.lines if one.state is not TrashState.DELETED]
    lines: list[_Name] = list(_named([*going, *journal.unreadable], TRASH, _line_name))
    return NotedWork(
        frozenset((one.ledger_id, one.uuid) for one in keys),
        frozenset(ledger_id for kind, ledger_id, _ in lines if kind is not TrashKind.OBJECTS),
        frozenset((ledger_id, uuid) for _, ledger_id, uuid in lines if uuid is not None),
        journal.unreadable,
    )


def _named(paths: Iterable[str], root: str, parse: Callable[[str], Parsed | None]) -> Iterator[Parsed]:
    """Yield what the names of nodes right below a root tell, of those that tell anything."""
    for path in paths:
        folder, _, name = path.rpartition("/")
        told = parse(name) if folder == root else None
        if told is not None:
            yield told


def _line_name(name: str) -> _Name | None:
    try:
        return parse_trash_node_name(name)
    except CorruptMetadataError:
        return None
