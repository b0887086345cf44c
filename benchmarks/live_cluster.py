"""Reading hot ledgers against the best plain pipelining of the same bookies, listing many topics, and checking a cluster.

``python -m benchmarks.live_cluster`` reads bookies of ours in a process beside it, which answer quicker than real ones: they show what the
client costs. ``--cluster URL --topic NAME`` reads those of a real cluster. The baseline sends the same reads, 64 single ones or 4 batches
of 256 KiB ahead on one connection a bookie, and counts the bytes that come: it parses lengths only, and verifies nothing.
"""

import argparse
import multiprocessing
import random
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import ledgerfs
from ledgerfs.catalog.reader import Span
from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY
from ledgerfs_cluster.check.check import Check, Rules, check_cluster
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.live_source.reader import LiveReader
from ledgerfs_cluster.live_source.stream import stream_live
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages

TOPIC = "public/default/orders"
_SINGLE, _BATCH = struct.Struct(">iIqq"), struct.Struct(">iIqqqiq")
_BATCH_BYTES = 256 << 10


def serve(address: "multiprocessing.Queue[str]", end: "multiprocessing.Queue[None]", shape: tuple[int, ...]) -> None:
    """Serve a cluster whose topic has ledgers of this (number, entries, bytes of an entry, ensemble, further topics)."""
    ledgers, entries, size, ensemble, topics = shape
    with tempfile.TemporaryDirectory() as folder, LiveCluster(Path(folder)) as cluster:
        payloads = messages(entries, size=max(1, size - 40))
        for _ in range(ledgers):
            cluster.write_ledger(TOPIC, payloads, ensemble=ensemble)
        cluster.roll_over(TOPIC)
        few = messages(3)
        for number in range(topics):
            for _ in range(2):
                cluster.write_ledger(f"public/space{number % 10}/topic{number}", few)
        # Without an orphan a check would not look twice.
        owner = (MANAGED_LEDGER_KEY, TOPIC.replace("/orders", "/persistent/orders").encode())
        orphan = (("component", b"managed-ledger"), owner, ("application", b"pulsar"))
        cluster.write_unlisted(few, orphan, state=CLOSED)
        address.put(cluster.url)
        end.get()


@contextmanager
def served(*shape: int) -> Iterator[str]:
    """Run `serve` in a process of its own, and give its URL."""
    context = multiprocessing.get_context("spawn")
    address: multiprocessing.Queue[str] = context.Queue()
    end: multiprocessing.Queue[None] = context.Queue()
    process = context.Process(target=serve, args=(address, end, shape))
    process.start()
    try:
        yield address.get()
    finally:
        end.put(None)
        process.join()


class Plain:
    """The baseline: one connection to each bookie, as many requests ahead as said, and nothing done with the replies."""

    def __init__(self, ledgers: Sequence[LiveReader], *, batches: bool) -> None:
        self._ledgers = ledgers
        self._batches = batches
        self._sockets: dict[str, socket.socket] = {}

    def read(self) -> int:
        """Read all entries; return how many replies came."""
        return sum(self._read(ledger) for ledger in self._ledgers)

    def _read(self, ledger: LiveReader) -> int:
        node = ledger._access.stored(ledger.ref.ledger_id).node  # noqa: SLF001  (what the reader itself asks)
        by_bookie: dict[str, list[bytes]] = {}
        if self._batches:
            by_bookie[node.bookies_of(0)[0]] = list(self._batch_requests(ledger))
        else:
            for entry in range(ledger.last_entry + 1):
                request = _SINGLE.pack(20, 2 << 24 | 2 << 16, ledger.ref.ledger_id, entry)
                by_bookie.setdefault(node.bookies_of(entry)[0], []).append(request)
        ahead = 4 if self._batches else 64
        waiting = {bookie: iter(requests) for bookie, requests in by_bookie.items()}
        buffers = {bookie: bytearray() for bookie in waiting}
        left = {bookie: len(requests) for bookie, requests in by_bookie.items()}
        for bookie, requests in waiting.items():
            self._socket(bookie).sendall(b"".join(islice(requests, ahead)))
        while any(left.values()):
            for bookie in [bookie for bookie, count in left.items() if count]:
                count = _take(self._socket(bookie), buffers[bookie])
                left[bookie] -= count
                self._socket(bookie).sendall(b"".join(islice(waiting[bookie], count)))
        return sum(map(len, by_bookie.values()))

    def _batch_requests(self, ledger: LiveReader) -> Iterator[bytes]:
        step = max(1, _BATCH_BYTES // max(1, ledger.length // ledger.ref.entries + 40))
        for first in range(0, ledger.last_entry + 1, step):
            count = min(step, ledger.last_entry + 1 - first)
            yield _BATCH.pack(40, 2 << 24 | 7 << 16, ledger.ref.ledger_id, first, first, count, 5 << 20)

    def _socket(self, bookie: str) -> socket.socket:
        if bookie not in self._sockets:
            host, port = bookie.rsplit(":", 1)
            self._sockets[bookie] = socket.create_connection((host, int(port)))
        return self._sockets[bookie]


def _take(connection: socket.socket, buffer: bytearray) -> int:
    """Receive once, and return how many replies are whole by then, which are dropped."""
    buffer += connection.recv(1 << 20)
    at = count = 0
    while len(buffer) - at >= 4 and len(buffer) - at >= 4 + (size := int.from_bytes(buffer[at : at + 4], "big")):
        at += 4 + size
        count += 1
    del buffer[:at]
    return count


def ours(ledgers: Sequence[LiveReader]) -> int:
    """Read all entries as a scan does, with every digest verified."""
    spans = [Span(ledger, 0, ledger.last_entry) for ledger in ledgers]
    return sum(len(batch) for _, batch in stream_live(spans))


def measured(work: Callable[[], int]) -> tuple[float, float]:
    """Return the seconds and the CPU's seconds that some work takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def compare(url: str, topic: str, rounds: int) -> None:
    """Print what our reader and the baselines make of the hot ledgers of a topic, in turn, best of some rounds."""
    ledgers = [one for one in ledgerfs.open_bucket(url).topic(topic).ledgers if isinstance(one, LiveReader)]
    entries, size = sum(one.ref.entries for one in ledgers), sum(one.length for one in ledgers)
    node = ledgers[0]._access.stored(ledgers[0].ref.ledger_id).node  # noqa: SLF001
    subjects: dict[str, Callable[[], int]] = {"ledgerfs": lambda: ours(ledgers)}
    subjects["64 single reads ahead"] = Plain(ledgers, batches=False).read
    if node.ensemble_size == node.write_quorum:
        subjects["4 batches ahead"] = Plain(ledgers, batches=True).read
    best = {name: (float("inf"), float("inf")) for name in subjects}
    for _ in range(rounds):
        for name, work in subjects.items():
            best[name] = min(best[name], measured(work))
    print(
        f"{len(ledgers)} ledgers, {entries:,} entries of {size // entries:,} bytes, ensemble {node.ensemble_size}/{node.write_quorum}:"
    )
    plain = min(wall for name, (wall, _) in best.items() if name != "ledgerfs")
    for name, (wall, cpu) in best.items():
        ratio = f", {plain / wall:.2f} x the best baseline" if name == "ledgerfs" else ""
        print(f"  {name}: {entries / wall:,.0f} entries/s, {cpu / entries * 1e6:.2f} µs of CPU an entry{ratio}")


def listing(url: str) -> None:
    """Print how long a listing of all topics takes."""
    bucket = ledgerfs.open_bucket(url)
    wall, cpu = measured(lambda: len(bucket.topics()))
    print(f"topics of {len(bucket.topics()):,} managed ledgers: {wall:.2f} s, of which {cpu:.2f} s CPU of the client")


def checking(url: str) -> None:
    """Print how long two looks of `ledgerfs cluster check` take, without the time between them."""
    cluster = ClusterFileSystem().cluster(url.removeprefix("pulsar+zk://"))
    done: list[Check] = []

    def check() -> int:
        done.append(check_cluster(cluster, NewestEntries(cluster.reading), [], Rules(0, 0), lambda *_: None))
        return len(done)

    wall, cpu = measured(check)
    looked = f"{done[0].survey.ledgers.size:,} ledgers of {len(done[0].survey.topics):,} topics, {done[0].passes} looks"
    print(f"cluster check of {looked}: {wall:.2f} s, of which {cpu:.2f} s CPU of the client")


def following(count: int = 60) -> None:
    """Print how long after its publishing a follower has each of some messages, with pauses of up to 2 s between them."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder, LiveCluster(Path(folder)) as cluster:
        cluster.write_ledger(TOPIC, messages(1))
        rows = ledgerfs.open_bucket(cluster.url, {"open_end": "acknowledged"}).topic(TOPIC).follow(["value"])
        published: list[float] = []

        def publish() -> None:
            for _ in range(count):
                time.sleep(chance.uniform(0, 2))
                published.append(time.monotonic())
                cluster.publish(TOPIC, messages(1, f"late{len(published)}-"))

        thread = threading.Thread(target=publish)
        thread.start()
        came: list[float] = []
        while len(came) < count:
            values = next(rows)["value"].to_pylist()
            came += [time.monotonic() for value in values if value.startswith(b"late")]
        thread.join()
    delays = sorted(there - begin for begin, there in zip(published, came, strict=True))
    print(
        f"follow: median {delays[count // 2]:.2f} s, 19 of 20 within {delays[count * 19 // 20]:.2f} s, at most {delays[-1]:.2f} s"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", help="URL of a real cluster")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--topics", type=int, default=10_000)
    arguments = parser.parse_args()
    if arguments.cluster:
        compare(arguments.cluster, arguments.topic, arguments.rounds)
        listing(arguments.cluster)
        checking(arguments.cluster)
        return
    for shape in ((40, 1000, 1024, 3, 0), (40, 1000, 1024, 2, 0), (4, 500, 100 << 10, 3, 0)):
        with served(*shape) as url:
            compare(url, TOPIC, arguments.rounds)
    with served(1, 1, 100, 3, 1000) as url:
        checking(url)
    following()
    with served(1, 1, 100, 3, arguments.topics) as url:
        listing(url)


if __name__ == "__main__":
    main()
