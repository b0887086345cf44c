"""What the holder of a cluster's lock says of itself."""

import json
import os
import socket

SERVICE = "lifecycle service"
"""What the holder of a lock is that goes on with all that is due."""


def holder_text(what: str) -> bytes:
    """Return what the holder of a cluster's lock says of itself to others that want it: what it is, host and process, as JSON."""
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "what": what}).encode()
