"""A follower of a topic, which goes on in a thread of its own through all that happens to the cluster, and keeps what it was given."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.filling import for_each
from interop.java_client import Lines
from interop.waiting import wait_until
from interop.ways import OPEN_END
from ledgerfs import open_bucket
from tests.support.golden_rows import as_java_says


class _EndOfTestError(Exception):
    """Raised in a follower that waits, and shall wait no more."""


@dataclass
class Follower:
    """What came so far.

    Attributes
    ----------
    rows
        In the words of the Java reader.
    came_ms
        When each of them came, ms since 1970 UTC.

    """

    topic: str
    private_keys: Mapping[str, Path] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    came_ms: list[float] = field(default_factory=list)
    failure: BaseException | None = None
    _ending: threading.Event = field(default_factory=threading.Event)

    def wait(self, rows: int, seconds: float = 60) -> None:
        """Wait for so many rows; raises what the follower failed with."""
        wait_until(lambda: self.failure or len(self.came_ms) >= rows, f"{rows} rows of {self.topic} came", seconds)
        if self.failure is not None:
            raise self.failure

    def delays_ms(self) -> list[float]:
        """Return how long after its publishing each row came."""
        came = list(self.came_ms)
        return [time_ms - float(row["publish_time"]) for row, time_ms in zip(self.rows, came, strict=False)]

    def follow(self, url: str) -> None:
        """Follow from the start of the topic on, until `end`."""
        try:
            topic = open_bucket(url, OPEN_END).topic(self.topic)
            with topic.follow(start="earliest", private_keys=self.private_keys) as batches:
                batches.on_wait = self._look_up
                for batch in batches:
                    now = time.time() * 1000
                    self.rows += [as_java_says(row) for row in batch.to_pylist()]
                    self.came_ms += [now] * batch.num_rows
                    self._look_up()
        except _EndOfTestError:
            pass
        except Exception as error:  # noqa: BLE001 (whoever waits for rows raises it)
            self.failure = error
        else:
            self.failure = AssertionError(f"{self.topic} has an end")

    def end(self) -> None:
        """Have it end when it next waits."""
        self._ending.set()

    def _look_up(self) -> None:
        if self._ending.is_set():
            raise _EndOfTestError


def rows_that_come(url: str, rows: Mapping[str, int], private_keys: Mapping[str, Path]) -> Lines:
    """Follow topics, some at once, each until so many rows have come and it waits for more; return all that came."""
    found: Lines = {}

    def follow(topic: str) -> None:
        with followed(url, topic, private_keys) as follower:
            follower.wait(rows[topic])
        if follower.failure is not None:
            raise follower.failure
        found[topic] = follower.rows

    for_each(rows, follow)
    return found


@contextmanager
def followed(url: str, topic: str, private_keys: Mapping[str, Path] | None = None) -> Iterator[Follower]:
    """Follow a topic meanwhile, from its start on."""
    follower = Follower(topic, private_keys or {})
    thread = threading.Thread(target=follower.follow, args=(url,), daemon=True)
    thread.start()
    try:
        yield follower
    finally:
        follower.end()
        thread.join(60)
    assert not thread.is_alive(), "the follower neither waits nor is given rows"
