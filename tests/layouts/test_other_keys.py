"""Topics encrypted for several readers, of which one has some of the keys."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import EncryptedMessageError
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from ledgerfs.scan.report import ScanReport
from tests.support.each import for_each
from tests.support.encryption import encrypted_entry, pem_of
from tests.support.entries import LZ4, compress, frame, framed, metadata
from tests.support.ledgers import offload, put_in_folder

TOPIC = "persistent://public/default/orders"
MINE, THEIRS = (rsa.generate_private_key(65537, 2048) for _ in range(2))
KEYS = {"mine": pem_of(MINE)}


def topic_of(folder: Path, *entries: bytes) -> Topic:
    return open_bucket(put_in_folder(folder, offload(list(entries)))).topic(TOPIC)


def mine(payload: bytes, **fields: object) -> bytes:
    return encrypted_entry(payload, ("mine", MINE), **fields)


def theirs(payload: bytes, **fields: object) -> bytes:
    return encrypted_entry(payload, ("theirs", THEIRS), **fields)


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    """Return one of messages for both, for me, and for others, who sent a batch, too."""
    batch = framed(BatchedMetadataRecord(), b"one") + framed(BatchedMetadataRecord(), b"two")
    return topic_of(
        tmp_path,
        frame(metadata(), b"plain"),
        encrypted_entry(b"both", ("theirs", THEIRS), ("mine", MINE)),
        theirs(b"theirs"),
        mine(batch, messages_in_batch=2),
        theirs(compress(LZ4, batch), messages_in_batch=2, compression=LZ4, uncompressed_size=len(batch)),
        mine(b"mine"),
    )


def test_by_default_a_message_for_other_keys_ends_reading_and_its_keys_are_named(topic):
    expected = (
        r"entry 1:2: the message is encrypted for 'theirs', the given private keys are: 'mine'; pass the right key"
    )
    with pytest.raises(EncryptedMessageError, match=expected):
        topic.scan(private_keys=KEYS).to_arrow()
    with pytest.raises(EncryptedMessageError, match=expected):
        topic.message("1:2", private_keys=KEYS)
    with pytest.raises(EncryptedMessageError, match=r"entry 1:1: .*'theirs' or 'mine', .* are: none;"):
        topic.scan().to_arrow()
    assert topic.message("1:5", private_keys=KEYS).value == b"mine"


def test_their_rows_are_null_or_left_out_as_those_without_any_key(topic):
    rows = topic.scan(["entry_id", "value"], private_keys=KEYS, on_encrypted="null").to_arrow()
    assert rows["entry_id"].to_pylist() == [0, 1, 2, 3, 3, 4, 5]
    assert rows["value"].to_pylist() == [b"plain", b"both", None, b"one", b"two", None, b"mine"]
    rows = topic.scan(["entry_id", "value"], private_keys=KEYS, on_encrypted="skip").to_arrow()
    assert rows["entry_id"].to_pylist() == [0, 1, 3, 3, 5]
    assert topic.message("1:2", private_keys=KEYS, on_encrypted="null").value is None


@for_each("choice", ["null", "skip"])
@for_each("keys", [None, KEYS])
def test_counting_counts_the_rows_of_a_scan(topic, choice, keys):
    options = {"private_keys": keys, "on_encrypted": choice}
    assert topic.count(**options) == topic.scan(**options).to_arrow().num_rows
    assert topic.count(private_keys=keys) == 8


@for_each("choice", ["raise", "null", "skip"])
def test_a_wrong_key_of_the_right_name_is_an_error_whatever_was_chosen(topic, choice):
    """A file that was mixed up must not make a topic look as if it had no values."""
    with pytest.raises(EncryptedMessageError, match=r"entry 1:1: the private key given as 'mine' does not fit"):
        topic.scan(private_keys={"mine": pem_of(THEIRS)}, on_encrypted=choice).to_arrow()


def chunk(number: int, is_mine: bool) -> bytes:
    fields = {"chunked_id": b"a", "chunks": 2, "chunk": number}
    return mine(b"part %d;" % number, **fields) if is_mine else theirs(b"part %d;" % number, **fields)


@pytest.mark.parametrize("are_mine", [(True, False), (False, True), (False, False)])
def test_a_chunked_message_of_which_a_part_is_for_others_has_no_value(tmp_path, are_mine):
    """Half a value, or one that begins with what is still encrypted, would be a wrong row."""
    topic = topic_of(tmp_path, chunk(0, are_mine[0]), chunk(1, are_mine[1]), mine(b"mine"))
    scan = topic.scan(["entry_id", "value"], private_keys=KEYS, on_encrypted="null")
    report = ScanReport()
    assert scan.to_arrow(report).to_pydict() == {"entry_id": [1, 2], "value": [None, b"mine"]}
    assert report.incomplete == []
    scan = topic.scan(["entry_id", "value"], private_keys=KEYS, on_encrypted="skip")
    report = ScanReport()
    assert scan.to_arrow(report).to_pydict() == {"entry_id": [2], "value": [b"mine"]}
    assert report.incomplete == []
    both = {**KEYS, "theirs": pem_of(THEIRS)}
    assert topic.scan(["value"], private_keys=both).to_arrow()["value"].to_pylist() == [b"part 0;part 1;", b"mine"]


def test_a_last_part_that_is_not_encrypted_makes_no_value_of_one_that_is(tmp_path):
    last = frame(metadata(chunked_id=b"a", chunks=2, chunk=1), b"part 1;")
    rows = topic_of(tmp_path, chunk(0, is_mine=False), last).scan(["value"], on_encrypted="null").to_arrow()
    assert rows["value"].to_pylist() == [None]


@pytest.mark.parametrize("choice", ["null", "skip"])
def test_a_chunked_message_for_others_that_lacks_parts_is_incomplete(tmp_path, choice):
    topic = topic_of(tmp_path, chunk(0, is_mine=False), mine(b"mine"))
    scan = topic.scan(["value"], private_keys=KEYS, on_encrypted=choice)
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [b"mine"]
    assert report.incomplete == [Incomplete(1, 0, 1, 2)]
