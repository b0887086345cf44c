"""Indexes that lead elsewhere: whether a ledger is whole, and what is in it, its data tells, young or old."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.findings import Report
from ledgerfs.catalog.ledger_ref import CatalogState
from ledgerfs.errors import LedgerfsError, UnplacedLedgersWarning
from ledgerfs.formats.mapfile.header import RecordCompression
from ledgerfs.formats.mapfile.index import parse_index
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.mapfile import loading
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.verification import verify
from tests.support.ledgers import CREATED_MS
from tests.support.mapfile_buckets import LONG_AGO, MadeMapFile, mapfile, messages, put_mapfiles
from tests.support.mapfiles import MapFileWriter
from tests.support.remote import RemoteFolder

TOPIC = "persistent://public/default/orders"
ENTRIES = messages(2, 300, 300)
WRITERS = {one: MapFileWriter(one, sync_interval=2000, block_bytes=4000, index_interval=8) for one in RecordCompression}
MADE = {one: mapfile(ENTRIES, 2, writer=writer) for one, writer in WRITERS.items()}
YOUNG, OLD = "young", "old"
Pairs = list[tuple[int, int]]

LAST = {f"the last one {step:+}": step for step in (1, -1, 20, -20, 200, -200, 2000, -2000)}
OTHERS = ["all", "one in the middle", "key", "one before", "more", "header", "of another"]


def pairs_of(made: MadeMapFile) -> Pairs:
    index = parse_index(made.index, data_size=len(made.data))
    return list(zip(index.keys.tolist(), index.positions.tolist(), strict=True))


def lying(lie: str, compression: RecordCompression, made: MadeMapFile | None = None) -> bytes:
    """Return an index of a ledger that leads elsewhere."""
    made = MADE[compression] if made is None else made
    pairs, size = pairs_of(made), len(made.data)
    key, position = pairs[-1]
    middle = len(pairs) // 2
    if lie in LAST:
        # Not behind the end, and after the position before: else nobody would believe it for a moment.
        pairs[-1] = (key, min(max(position + LAST[lie], pairs[-2][1] + 1), size - 1))
    elif lie == "all":
        pairs = [(key, min(position + 3, size - 1)) for key, position in pairs]
    elif lie == "one in the middle":
        pairs[middle] = (pairs[middle][0], pairs[middle][1] + 7)
    elif lie == "key":
        # There is such a key, before the place.
        pairs[-1] = (pairs[-2][0] + 1, position)
    elif lie == "one before":
        pairs = [pairs[0], *((key, at) for (key, _), (_, at) in zip(pairs[2:], pairs[1:-1], strict=True))]
        pairs[-1] = (pairs[-1][0], pairs[-1][1] + 1)
    elif lie == "more":
        pairs.append((len(ENTRIES) - 1, size - 5))
    elif lie == "header":
        pairs[0] = (pairs[0][0], 5)
    elif lie == "of another":
        other = mapfile(messages(3, 280, 310), 3, writer=WRITERS[compression])
        pairs = [pair for pair in pairs_of(other) if pair[1] < size]
    else:
        assert lie == "none"
    return WRITERS[compression].index(pairs)


def put(folder: Path, made: MadeMapFile, index: bytes, *, is_young: bool) -> str:
    return put_beside_another(folder, 1, replace(made, index=index), YOUNG if is_young else OLD)


def put_beside_another(folder: Path, other: int, made: MadeMapFile, age: str) -> str:
    """Write a ledger that is so old, and one of ten entries before it in its topic, which has this id."""
    put_mapfiles(folder, mapfile(messages(1, 10), other, name=made.name))
    return put_mapfiles(folder, made, at=time.time() - 20 if age == YOUNG else LONG_AGO)


def kinds_of(report: Report) -> dict[int | None, set[str]]:
    """Return what is found by ledger."""
    kinds: dict[int | None, set[str]] = {}
    for one in report.findings:
        kinds.setdefault(one.ledger_id, set()).add(one.kind)
    return kinds


@pytest.fixture(params=["near", "far"])
def tail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the start of the data be among the last bytes that are read at most, or only a few markers; let there be many cuts."""
    monkeypatch.setattr(loading, "APART", 9000)
    if request.param == "far":
        monkeypatch.setattr(loading, "TAIL_BYTES", 6000)


@pytest.mark.long
@pytest.mark.usefixtures("tail")
@pytest.mark.parametrize("compression", RecordCompression)
def test_whole_ledgers_are_whole(compression: RecordCompression, tmp_path: Path) -> None:
    """Each lie is told of a ledger of its own topic, of one bucket: of a young one, and of an old one."""
    lies = dict(enumerate(product([*LAST, *OTHERS], (YOUNG, OLD)), 101))
    topics = {number: f"public/default/persistent/orders{number}" for number in lies}
    for number, (lie, age) in lies.items():
        made = mapfile(ENTRIES, number, name=topics[number], writer=WRITERS[compression])
        made = replace(made, index=lying(lie, compression, made))
        url = put_beside_another(tmp_path, number - 100, made, age)
    bucket = open_bucket(url)
    states = {one.ledger_id: one.state for one in bucket.catalog.refs()}
    assert len(states) == 2 * len(lies) == 60
    assert {number: state for number, state in states.items() if state is not CatalogState.SOUND} == {}
    first = CREATED_MS + 2000 + 150
    for number, case in lies.items():
        topic = bucket.topic(topic_of(topics[number]))
        assert topic.count() == 310, case
        assert topic.scan().to_arrow()["entry_id"].to_pylist() == [*range(10), *range(300)], case
        found = topic.scan(start_time=first, end_time=first + 10).to_arrow()["entry_id"].to_pylist()
        assert found == [*range(150, 160)], case
        reader = bucket.ledger(number)
        for entry in (0, 100, 295, 299):
            glance = reader.glance(entry, 50)
            assert (bytes(glance.front), glance.size) == (ENTRIES[entry][:50], len(ENTRIES[entry])), case
    assert {one.kind for one in verify(bucket, quick=True).findings} <= {"wrong-index"}
    report = verify(bucket)
    assert kinds_of(report) == {key: {"wrong-index"} for key in lies}
    assert report.entries == 310 * len(lies)


@pytest.mark.parametrize("kept", [1, 5])
def test_an_index_of_few_positions_is_right(kept: int, tmp_path: Path) -> None:
    made = MADE[RecordCompression.NONE]
    url = put(tmp_path, made, WRITERS[RecordCompression.NONE].index(pairs_of(made)[:kept]), is_young=True)
    assert open_bucket(url).topic(TOPIC).count() == 310
    assert verify(open_bucket(url)).findings == ()


@pytest.mark.usefixtures("tail")
@pytest.mark.parametrize("compression", RecordCompression)
def test_those_that_lack_their_end_are_not(compression: RecordCompression, tmp_path: Path) -> None:
    """Whatever their indexes say: the last records are not there, or the last one is cut."""
    lies = list(product(["the last one +1", "the last one -200", "none"], (False, True)))
    for number, (lie, is_cut) in enumerate(lies, 101):
        name = f"public/default/persistent/orders{number}"
        made = mapfile(ENTRIES, number, name=name, writer=WRITERS[compression], last_entry=309)
        pairs = pairs_of(made)
        pairs[-1] = (pairs[-1][0], pairs[-1][1] + LAST.get(lie, 0))
        made = replace(made, index=WRITERS[compression].index(pairs), data=made.data[: -3 if is_cut else None])
        young = put_beside_another(tmp_path / YOUNG, number - 100, made, YOUNG)
        old = put_beside_another(tmp_path / OLD, number - 100, made, OLD)
    bucket = open_bucket(young)
    kinds = kinds_of(verify(open_bucket(old), quick=True))
    for number, case in enumerate(lies, 101):
        with pytest.warns(UnplacedLedgersWarning, match="still being uploaded"):
            assert bucket.topic(f"public/default/orders{number}").scan().to_arrow().num_rows == 10, case
        assert "missing-entries" in kinds[number], case


@pytest.mark.parametrize("compression", [RecordCompression.NONE, RecordCompression.RECORD])
@pytest.mark.parametrize("is_whole", [True, False])
def test_without_markers_all_of_the_data_is_walked(
    is_whole: bool, compression: RecordCompression, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "TAIL_BYTES", 6000)
    writer = MapFileWriter(compression, sync_interval=1 << 30, index_interval=8)
    made = mapfile(ENTRIES, 2, writer=writer, last_entry=299 if is_whole else 300)
    pairs = pairs_of(made)
    key, position = pairs[-1]
    for step in (1, -1, 200):
        index = writer.index([*pairs[:-1], (key, position + step)])
        bucket = open_bucket(put(tmp_path, made, index, is_young=True))
        assert [one.ledger_id for one in bucket.catalog.refs()] == ([1, 2] if is_whole else [1])
        url = put(tmp_path, made, index, is_young=False)
        kinds = {one.kind for one in verify(open_bucket(url), quick=True).findings}
        assert kinds == ({"wrong-index"} if is_whole else {"missing-entries"})


class Counted(RemoteFolder):
    """`RemoteFolder` that remembers the requests of lists, too."""

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        for request in requests:
            yield self.read(request)


@pytest.mark.parametrize("compression", RecordCompression)
def test_a_right_index_costs_no_request_more(compression: RecordCompression, tmp_path: Path) -> None:
    """The start of the data, the index, and the last block or records of the data; once more only where these contradict each other."""
    made = MADE[compression]
    for lie, requests in (("none", 3), ("the last one +1", 4)):
        folder = tmp_path / lie
        put_mapfiles(folder, replace(made, index=lying(lie, compression)))
        store = Counted(folder)
        assert [ref.is_sound for ref in Bucket(store).catalog.refs()] == [True]
        assert len(store.requests) in {3, requests}, lie
        asked = [one.end - one.start for one in store.requests if one.key.endswith("/data")]
        assert asked[1] < 6000, lie
