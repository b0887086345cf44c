"""How much memory this process may think of as its own: the machine's, or what its container is allowed."""

import os
from pathlib import Path

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_size() -> int:
    """Return bytes of memory."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue  # no such container
        if text.isdigit():
            sizes.append(int(text))
    return min(sizes)
