"""Sessions with ZooKeeper, as this process has them."""

import threading
from collections.abc import Collection

PATIENT_S = 240
"""The time-out where an answer comes for certain, also on a busy machine."""


def kazoo_threads(others: Collection[threading.Thread] = ()) -> set[threading.Thread]:
    """Return the threads of sessions that are open or just ending, without ``others``, which were there before."""
    found = {thread for thread in threading.enumerate() if "(run)" in thread.name or "zookeeper" in thread.name}
    return found - set(others)
