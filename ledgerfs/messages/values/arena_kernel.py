"""Functions of kernels to append to the nodes of an arena: ``words`` and ``nodes`` are those of `ledgerfs.messages.values.arena.Arena`."""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, inner_kernel
from ledgerfs.messages.values.arena import END, NEXT


@inlined_kernel
def append(words, nodes, node, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Append a word; return whether there was room for it."""
    at = nodes[node, NEXT]
    if at >= nodes[node, END]:
        return False
    words[at] = word
    nodes[node, NEXT] = at + 1
    return True


@inlined_kernel
def append_place(words, nodes, node, start, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Append the position and number of bytes; return whether there was room for both."""
    at = nodes[node, NEXT]
    if at + 2 > nodes[node, END]:
        return False
    words[at] = start
    words[at + 1] = size
    nodes[node, NEXT] = at + 2
    return True


@inner_kernel
def append_blanks(tables, at, count, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Append zeros to nodes: ``tables`` has each and its words (one or two) from ``at`` on. Return the node without room, or -1."""
    for k in range(at, at + 2 * count, 2):
        node, size = tables[k], tables[k + 1]
        place = nodes[node, NEXT]
        if place + size > nodes[node, END]:
            return node
        words[place] = 0
        words[place + size - 1] = 0
        nodes[node, NEXT] = place + size
    return np.int64(-1)
