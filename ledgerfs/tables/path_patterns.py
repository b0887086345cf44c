"""Paths that may be patterns (``*``, ``?``, ``[…]``), in trees whose names may also contain these characters: a topic may be ``orders*``.

An existing path is literal. Otherwise a path from a listing could read, or remove, other topics.
"""

import glob
import re
from collections.abc import Callable

_MAGIC = re.compile(r"[*?\[]")


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern, unless it exists."""
    return _MAGIC.search(path) is not None


def with_literal_beginning(path: str, exists: Callable[[str], bool]) -> str:
    """Escape the longest existing prefix of a pattern: ``orders[*]/*.entries`` for ``orders*/*.entries``.

    So a file that was deleted from ``orders*`` is not searched in ``orders``.
    """
    parts = path.split("/")
    literal = 0
    for end in range(1, len(parts)):
        if is_pattern(parts[end - 1]):
            if not exists("/".join(parts[:end])):
                break
            literal = end
    return "/".join([*map(glob.escape, parts[:literal]), *parts[literal:]])
