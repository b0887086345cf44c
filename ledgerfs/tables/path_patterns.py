"""Paths that may be patterns (``*``, ``?``, ``[…]``), in trees whose names may contain these characters, too: a topic may be ``orders*``.

A path that exists is taken literally. Otherwise a path from a listing would read, or remove, other topics.
"""

import glob
import re
from collections.abc import Callable

_MAGIC = re.compile(r"[*?\[]")


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern, if nothing of that name exists."""
    return _MAGIC.search(path) is not None


def with_literal_beginning(path: str, exists: Callable[[str], bool]) -> str:
    """Return a pattern whose beginning is literal as far as it exists: ``orders[*]/*.entries`` for ``orders*/*.entries``.

    So a file that was deleted from ``orders*`` is not looked for in ``orders``.
    """
    parts = path.split("/")
    literal = 0
    for end in range(1, len(parts)):
        if is_pattern(parts[end - 1]):
            if not exists("/".join(parts[:end])):
                break
            literal = end
    return "/".join([*map(glob.escape, parts[:literal]), *parts[literal:]])
