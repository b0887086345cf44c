"""Many nodes that are asked for as their paths are found; those that are deleted meanwhile are left out.

Some may not be read: who can go on without them takes these, to everybody else they are errors.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ledgerfs.errors import AccessDeniedError, LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.zookeeper.nodes import Nodes

Result = TypeVar("Result")
OnDenied = Callable[[str, AccessDeniedError], None]
"""Is told of a path that may not be read, and why; raises the error if nobody can go on without it."""


def paths_below(nodes: Nodes, folders: Iterable[str], on_denied: OnDenied | None = None) -> Iterator[str]:
    """Yield the paths right below each of some nodes; raises the errors of ZooKeeper, those of ``on_denied`` as that has it."""
    for folder, names in answered(nodes.children_many, folders, on_denied):
        for name in names:
            yield f"{folder}/{name}"


def answered(
    ask: Callable[[Iterable[str]], Iterator[Result | LedgerfsError]],
    paths: Iterable[str],
    on_denied: OnDenied | None = None,
) -> Iterator[tuple[str, Result]]:
    """Yield each path that is still there with the answer; raises all other errors, unless ``on_denied`` takes those of single nodes."""
    asked: deque[str] = deque()

    def noted() -> Iterator[str]:
        for path in paths:
            asked.append(path)
            yield path

    for answer in ask(noted()):
        path = asked.popleft()
        if isinstance(answer, ObjectNotFoundError):
            continue
        if isinstance(answer, AccessDeniedError) and on_denied is not None:
            on_denied(path, answer)
            continue
        if isinstance(answer, LedgerfsError):
            raise answer
        yield path, answer
