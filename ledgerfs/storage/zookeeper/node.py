"""One node of ZooKeeper, as it was when it was read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its data.

    Attributes
    ----------
    path
        Where it is, below the folder (chroot) of the session.
    data
        Its bytes; none for a node without data.
    created_ms, changed_ms
        When it was made, and its data set last, in ms since 1970 by the clock of the server that did it.
    version
        How often its data was set since it was made.
    children
        How many nodes are right below it.

    """

    path: str
    data: bytes
    created_ms: int
    changed_ms: int
    version: int
    children: int
