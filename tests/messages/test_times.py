"""Times that a column of µs cannot hold: null, and counted with the first message and its number."""

from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.messages.proto.message_metadata_pb2 import (
    BatchedMetadataRecord,
    BrokerMetadataRecord,
    MessageMetadataRecord,
)
from ledgerfs.messages.transforms.unbatch import unbatch
from tests.support.entries import TOPIC, batch_of, batched, decode, frame, metadata
from tests.support.transforms import parts_of, transformed

NOW_MS = 1_760_000_000_000
NOW_NS = NOW_MS * 1_000_000
MOST_MS = 2**63 // 1000 - 1
TIMES = ("event_time", "broker_time", "deliver_at_time")


def event(ms: int) -> bytes:
    return frame(metadata(event_time_ms=ms % 2**64), b"value")


def decoded(entries: list[bytes], *columns: str) -> tuple[list[dict[str, int | None]], list[Undecodable]]:
    """Return the times in µs, and those that are counted."""
    decoder = TopicDecoder(TOPIC, DecodeOptions(columns))
    table = decode(decoder, batch_of(entries))
    times = [column.view("int64").to_pylist() for column in table.columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*times, strict=True)], decoder.undecodable


def reason(column: str) -> str:
    return f"its {column} does not fit 64 bits of µs and is null (Pulsar's times are ms)"


def test_times_that_fit_are_there_and_others_are_null_and_counted() -> None:
    given = [0, 1, -1, NOW_MS, NOW_MS * 1000, MOST_MS, -MOST_MS, NOW_NS, MOST_MS + 1, -MOST_MS - 1, -(2**63), 2**63 - 1]
    rows, counted = decoded([event(ms) for ms in given], "event_time")
    assert [row["event_time"] for row in rows] == [None, *(1000 * ms for ms in given[1:7]), *[None] * 5]
    assert counted == [Undecodable(None, reason("event_time"), 5, "1:7", raw=NOW_NS)]


def test_those_of_a_batch_are_named_by_their_index_and_summed_over_windows() -> None:
    batch = batched([(BatchedMetadataRecord(event_time_ms=ms), b"v") for ms in (NOW_MS, NOW_NS + 1, NOW_NS)])
    decoder = TopicDecoder(TOPIC, DecodeOptions(["event_time"]))
    for first in (0, 2):
        decode(decoder, batch_of([event(0), batch], first))
    assert decoder.undecodable == [Undecodable(None, reason("event_time"), 4, "1:1:1", raw=NOW_NS + 1)]


def test_each_column_of_times_counts_its_own_if_it_is_built() -> None:
    entry = frame(
        metadata(event_time_ms=NOW_NS, deliver_at_ms=2**63 - 1),
        b"v",
        broker=BrokerMetadataRecord(broker_time_ms=NOW_NS),
    )
    rows, counted = decoded([entry], *TIMES)
    assert rows == [dict.fromkeys(TIMES)]
    assert [(one.reason, one.count, one.raw) for one in counted] == [
        (reason("event_time"), 1, NOW_NS),
        (reason("broker_time"), 1, NOW_NS),
        (reason("deliver_at_time"), 1, 2**63 - 1),
    ]
    assert decoded([entry], "publish_time") == ([{"publish_time": 2000}], [])


def test_unbatch_keeps_the_numbers() -> None:
    times = [NOW_NS, 2**64 - 1, 2**63, 0]
    entry = batched([(BatchedMetadataRecord(event_time_ms=ms), b"v") for ms in times], deliver_at_ms=2**63 - 1)
    made = [MessageMetadataRecord.FromString(parts_of(one)[1]) for one in transformed(unbatch(), [entry])]
    assert [one.event_time_ms for one in made] == times
    assert [one.deliver_at_ms for one in made] == [2**63 - 1] * len(times)
