"""Count requests to a store, and bytes received and used, for ``--stats`` and ``fs.stats()``."""

from dataclasses import asdict, dataclass, fields

from ledgerfs.forked import ForkLock


@dataclass(frozen=True, slots=True)
class TrafficStats:
    """The counts of one store in this process.

    Attributes
    ----------
    requests
        Requests sent to the store: each GET, HEAD and page of a listing, and each retry.
    bytes_asked, bytes_received
        Bytes of objects that were requested, and that were received.
    retries
        Requests that repeat a failed one; ``requests`` includes them.
    bytes_used
        Bytes that readers received from the store, memory or disk.
    hits
        Reads served from memory or disk.
    waits
        Reads that waited for the request of another reader.
    bytes_sent
        Bytes of objects that were sent to the store, including retries.

    """

    requests: int = 0
    bytes_asked: int = 0
    bytes_received: int = 0
    retries: int = 0
    bytes_used: int = 0
    hits: int = 0
    waits: int = 0
    bytes_sent: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by their names."""
        return asdict(self)


class Traffic:
    """The counters of one store. Thread-safe; a forked child continues with its own copy; a pickle starts at zero."""

    __slots__ = ("_counts", "_lock")

    def __init__(self) -> None:
        self._counts = dict.fromkeys((field.name for field in fields(TrafficStats)), 0)
        self._lock = ForkLock()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), ())

    def count(self, **amounts: int) -> None:
        """Add to counters, by the names of `TrafficStats`."""
        with self._lock:
            for name, amount in amounts.items():
                self._counts[name] += amount

    def stats(self) -> TrafficStats:
        """Return a consistent snapshot of all counters."""
        with self._lock:
            return TrafficStats(**self._counts)
