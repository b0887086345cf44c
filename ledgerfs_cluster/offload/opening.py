"""The data in a cluster's lock that describe its holder."""

import json
import os
import socket

SERVICE = "lifecycle service"
"""``what`` of a lock's holder that is the lifecycle service."""


def holder_text(what: str) -> bytes:
    """Return a lock holder's data for other processes that want the lock: ``what``, host and process, as JSON."""
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "what": what}).encode()
