"""What moto's server was asked, as the server itself tells it."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

_REQUEST = re.compile(r'"(?:\x1b\[[0-9;]*m)*([A-Z]+) /([^/ ?]+)(\S*) HTTP')


class _Requests(logging.Handler):
    def __init__(self, bucket: str) -> None:
        super().__init__()
        self.bucket = bucket
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        match = _REQUEST.search(record.getMessage())
        if match is not None and match[2] == self.bucket:
            self.seen.append(f"{match[1]} {match[3].lstrip('/')}")


@contextmanager
def requests_of(bucket: str) -> Iterator[list[str]]:
    """Collect the requests about one bucket, in order: ``PUT <key>?<query>``."""
    logger = logging.getLogger("werkzeug")
    level, propagates = logger.level, logger.propagate
    handler = _Requests(bucket)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield handler.seen
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


def changes(requests: list[str]) -> list[str]:
    """Return those that change something."""
    return [request for request in requests if request.split(" ")[0] not in {"GET", "HEAD"}]
