"""Every golden topic as a table, field by field against what Pulsar's own Java reader returned from the same bucket."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.cache import read_ahead
from ledgerfs.errors import EncryptedMessageError
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
from tests.support.golden_rows import expected_of, rows_of, wanted

PLAIN = "persistent://public/golden/plain"
ENCRYPTED = "persistent://public/golden/encrypted"


@pytest.fixture(scope="module")
def java_rows(golden_url: str, golden: Path) -> dict[str, list[dict[str, Any]]]:
    """What the Java reader returned of each topic that it could decrypt."""
    names = {topic.name for topic in open_bucket(golden_url).topics()} - {ENCRYPTED}
    found = {name: wanted(expected_of(golden, name)) for name in names}
    assert sum(map(len, found.values())) == 12_989 - 69
    return found


@pytest.mark.long
@pytest.mark.parametrize("window", [None, 1000, 4096])
def test_every_topic_is_what_the_java_reader_returned(
    golden_url: str, java_rows: dict[str, list[dict[str, Any]]], window: int | None
) -> None:
    bucket = open_bucket(golden_url)
    sizes = {topic.name: topic.bytes for topic in bucket.topics()}
    for name, expected in java_rows.items():
        with pytest.MonkeyPatch.context() as patch:
            if window is not None:
                # Some hundred windows of the largest topic, too.
                size = window * max(1, sizes[name] // 400_000)
                patch.setattr(read_ahead, "PART_BYTES", size)
                patch.setattr(read_ahead, "_FIRST_PARTS", (size,))
            assert rows_of(bucket.topic(name).scan()) == expected, name


@pytest.mark.long
def test_every_topic_is_that_also_in_four_threads_at_once(
    golden_url: str, java_rows: dict[str, list[dict[str, Any]]]
) -> None:
    bucket, names = open_bucket(golden_url), list(java_rows)

    def read(shift: int) -> None:
        for name in names[shift:] + names[:shift]:
            assert rows_of(bucket.topic(name).scan()) == java_rows[name], name

    # Two threads in the same order, so that they meet in one ledger; two elsewhere.
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, (0, 0, 9, 18)))


def test_an_encrypted_topic_raises_or_is_null_or_left_out(bucket: Bucket, golden: Path) -> None:
    topic = bucket.topic(ENCRYPTED)
    with pytest.raises(EncryptedMessageError, match="entry 44:0"):
        list(topic.scan())
    rows = rows_of(topic.scan(on_encrypted="null"))
    assert all(row.pop("value") == "" and row.pop("null_value") for row in rows)
    assert rows == wanted(expected_of(golden, ENCRYPTED), without=("value", "null_value"))
    assert rows_of(topic.scan(on_encrypted="skip")) == []


def test_with_its_private_key_an_encrypted_topic_is_decrypted(bucket: Bucket, golden: Path) -> None:
    keys = {"golden.key": golden / "keys" / "private.pem"}
    rows = rows_of(bucket.topic(ENCRYPTED).scan(private_keys=keys))
    assert rows == wanted(expected_of(golden, ENCRYPTED, "expected-decrypted"))


def test_columns_come_in_any_order_and_each_alone(bucket: Bucket) -> None:
    for name in (
        PLAIN,
        "persistent://public/golden/batched-lz4",
        "persistent://public/golden/txn",
        "persistent://public/golden/chunked",
    ):
        topic = bucket.topic(name)
        whole = topic.scan().to_arrow()
        backwards = tuple(reversed(DEFAULT_COLUMNS))
        assert topic.scan(columns=backwards).to_arrow() == whole.select(backwards)
        for column in DEFAULT_COLUMNS:
            assert topic.scan(columns=[column]).to_arrow() == whole.select([column]), column


def test_counting_is_as_scanning(bucket: Bucket, golden: Path) -> None:
    for topic in bucket.topics():
        expected = expected_of(golden, topic.name, "expected-decrypted" if topic.name == ENCRYPTED else "expected")
        assert bucket.topic(topic.name).count() == len(expected)
    times = [line["publish_time"] for line in expected_of(golden, PLAIN)]
    assert bucket.topic(PLAIN).count(start_time=times[300]) == sum(time >= times[300] for time in times)
    encrypted = bucket.topic(ENCRYPTED)
    for options in (
        {"on_encrypted": "null"},
        {"on_encrypted": "skip"},
        {"include_markers": True, "on_encrypted": "null"},
    ):
        assert encrypted.count(**options) == encrypted.scan(**options).to_arrow().num_rows
    txn = bucket.topic("persistent://public/golden/txn")
    for options in ({}, {"transactions": "all"}, {"include_markers": True}):
        assert txn.count(**options) == txn.scan(**options).to_arrow().num_rows


def test_transactions_show_their_outcome_when_all_are_asked_for(bucket: Bucket) -> None:
    topic = bucket.topic("persistent://public/golden/txn")
    table = topic.scan(transactions="all").to_arrow()
    states = table["txn_state"].to_pylist()
    assert states.count("aborted") == 48
    assert states.count("committed") + states.count(None) == 132
    assert {text[0] for text in table["txn_id"].to_pylist() if text} == {"("}
    assert all(
        (state is None) == (text is None) for state, text in zip(states, table["txn_id"].to_pylist(), strict=True)
    )
