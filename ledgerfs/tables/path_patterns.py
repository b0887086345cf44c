"""Paths that may be patterns (``*``, ``?``, ``[…]``), in trees whose names may hold these characters as well: a topic may be ``orders*``.

What is there as it is written is meant as it is written. Otherwise a path that a listing told would read, or remove, other topics.
"""

import glob
import re
from collections.abc import Callable

_MAGIC = re.compile(r"[*?\[]")


def is_pattern(path: str) -> bool:
    """Whether a path would be a pattern, were there nothing of that name."""
    return _MAGIC.search(path) is not None


def with_literal_beginning(path: str, exists: Callable[[str], bool]) -> str:
    """Return a pattern that takes its beginning literally, as far as that is there: ``orders[*]/*.entries`` for ``orders*/*.entries``.

    So a file that is gone from ``orders*`` is not looked for in ``orders``.
    """
    parts = path.split("/")
    literal = 0
    for end in range(1, len(parts)):
        if is_pattern(parts[end - 1]):
            if not exists("/".join(parts[:end])):
                break
            literal = end
    return "/".join([*map(glob.escape, parts[:literal]), *parts[literal:]])
