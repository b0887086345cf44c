"""Follow a topic: yield the rows from a start on, and all that arrive later."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import pyarrow as pa

from ledgerfs.catalog.tail import BEGINNING, Next, Tail
from ledgerfs.catalog.time_arguments import Milliseconds
from ledgerfs.display import names_shown, printable
from ledgerfs.errors import InvalidOptionError, StoreUnreachableError
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.scan.follow_start import FirstMessage, StartAt, started
from ledgerfs.scan.followed_topic import FollowedTopic
from ledgerfs.scan.followed_values import FollowedValues
from ledgerfs.scan.shown_values import IDENTITY

if TYPE_CHECKING:
    from ledgerfs.catalog.missing_ledgers import MissingLedger
    from ledgerfs.messages.decode.undecodable import Undecodable
    from ledgerfs.scan.scan import Scan


class Followed(NamedTuple):
    """A topic, or one partition: its name, and the source of its snapshots."""

    topic: str
    tail: Tail


@dataclass(slots=True)
class _Part:
    """A partition that is followed.

    Attributes
    ----------
    since
        The first message to show, until it was found.
    waiting
        Rows that are read, but not yielded, because the schemas of their values could not be loaded.

    """

    topic: FollowedTopic
    since: FirstMessage | None
    waiting: pa.RecordBatch | None = None

    def next_batch(self) -> pa.RecordBatch | None:
        """Return the next rows; None if there are none now."""
        if self.waiting is not None:
            return self.waiting if self.topic.due_s <= time.monotonic() else None
        batch = self.topic.next_batch()
        if batch is not None and self.since is not None:
            batch, self.since = _from(self.since, batch), None
        self.waiting = batch
        return batch


class Following:
    """An iterator over the messages of a live topic, as Arrow record batches; it waits for new ones.

    It stops only with the topic (which is terminated), with `close`, or with an error. Yields each message once, the messages of a
    partition in order. For one thread; a context manager, which closes it.

    Parameters
    ----------
    whole
        A scan of no ledgers with the name of the topic, and the options.
    parts
        The topic, or its partitions.
    start
        Where to begin.
    schemas
        Returns the present schemas of the topic.
    poll_s, patience_s
        As in `Topic.follow`.

    Attributes
    ----------
    undecodable
        Values and times that could not be decoded so far, by version and reason.
    on_wait
        Called whenever no messages have arrived, before the next snapshot.

    """

    __slots__ = ("_decode", "_parts", "_topics", "_whole", "on_wait", "undecodable")

    def __init__(
        self,
        whole: "Scan",
        parts: Iterable[Followed],
        start: StartAt,
        *,
        schemas: Callable[[], TopicSchemas],
        poll_s: float,
        patience_s: float,
    ) -> None:
        for name, number in (("poll_s", poll_s), ("patience_s", patience_s)):
            if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
                raise InvalidOptionError("expected seconds, 0 or more", key=f"{name}={number!r}")
        self._whole = whole
        self.undecodable: list[Undecodable] = []
        self.on_wait: Callable[[], None] | None = None
        values = whole.projection.values
        self._decode = None if values is None else FollowedValues(values, self.undecodable, schemas)
        columns = whole.projection.read
        if start.message is not None:
            columns = (*columns, *(name for name in IDENTITY if name not in columns))
        options = replace(whole.options, start_time=None if start.start_ms is None else Milliseconds(start.start_ms))
        self._topics: list[FollowedTopic] = []
        self._parts: deque[_Part] = deque()
        for one in parts:
            scan = replace(whole, topic=one.topic, options=options)
            look = one.tail.look(BEGINNING)
            at = started(start, look, scan)
            topic = FollowedTopic(
                scan,
                columns,
                self.undecodable,
                tail=one.tail,
                start=at.position,
                look=look,
                poll_s=poll_s,
                patience_s=patience_s,
            )
            topic.leave_out(at.gone)
            self._topics.append(topic)
            self._parts.append(_Part(topic, at.since))

    def __repr__(self) -> str:
        return f"<following {printable(self.topic)}: columns {', '.join(self.schema.names)}>"

    def __dir__(self) -> list[str]:
        return list(names_shown(self))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next messages, at least one; wait for them."""
        while self._parts:
            batch = self._round()
            if batch is not None:
                return batch
            self._wait()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._whole.topic

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._whole.schema

    @property
    def skipped(self) -> list[Skipped]:
        """Entries that ``on_corrupt="skip"`` has left out so far: damaged, or trimmed before they were read."""
        return [one for topic in self._topics for one in topic.decoder.skipped]

    @property
    def incomplete(self) -> list[Incomplete]:
        """Chunked messages that lack parts, so far."""
        return [one for topic in self._topics for one in topic.decoder.chunks.incomplete]

    @property
    def missing(self) -> "Sequence[MissingLedger]":
        """Empty: lost entries are in `skipped`."""
        return ()

    @property
    def positions(self) -> dict[str, Next]:
        """The next entry to read of each topic or partition."""
        return {one.decoder.topic: one.position for one in self._topics}

    def close(self) -> None:
        """Stop; the next call of `next` ends the iteration."""
        for one in self._parts:
            one.topic.close()
        self._parts.clear()

    def _round(self) -> pa.RecordBatch | None:
        """Try each partition in turn; return the first rows."""
        for _ in range(len(self._parts)):
            part = self._parts[0]
            self._parts.rotate(-1)
            batch = part.next_batch()
            if batch is None:
                if part.topic.is_ended and part.waiting is None:
                    self._parts.remove(part)
                continue
            try:
                shown = self._shown(batch)
            except StoreUnreachableError as error:
                part.topic.bear(error)
                continue
            part.waiting = None
            if shown is not None:
                return shown
        return None

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        rows = list(self._whole.projection.rows([batch], self._decode))
        return rows[0] if rows else None

    def _wait(self) -> None:
        """Wait until a partition is due."""
        if self.on_wait is not None:
            self.on_wait()
        now = time.monotonic()
        time.sleep(max(0.0, min((one.topic.due_s for one in self._parts), default=now) - now))


def _from(first: FirstMessage, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the messages from the first one to show on."""
    rows = zip(*(batch[name].to_pylist() for name in IDENTITY), strict=True)
    keep = np.array([first.is_shown(Next(ledger, entry), index) for ledger, entry, index in rows])
    return batch if keep.all() else batch.filter(pa.array(keep))
