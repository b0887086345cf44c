"""Topics as ledgerfs reads them, and as Pulsar's reader does, row by row."""

from itertools import zip_longest
from typing import Any

from interop.java_client import Lines
from interop.keys import KEY_NAME, KeyPair
from interop.s3_server import BUCKET, S3Server
from ledgerfs import open_bucket
from tests.support.golden_rows import rows_of, wanted


def read_with_ledgerfs(s3: S3Server, keys: KeyPair) -> Lines:
    """Return every topic of the bucket, in the words of the Java reader."""
    bucket = open_bucket(f"s3://{BUCKET}", storage_options=s3.options)
    private = {KEY_NAME: keys.private}
    return {topic.name: rows_of(bucket.topic(topic.name).scan(private_keys=private)) for topic in bucket.topics()}


def in_the_same_words(lines: Lines) -> Lines:
    """Return what the Java reader returned with one name for what is the same: no value, and an empty one."""
    return {topic: wanted(rows) for topic, rows in lines.items()}


def differences(found: Lines, expected: Lines) -> list[str]:
    """Describe the first difference of each topic; nothing, if there is none."""
    described = []
    for topic in sorted(found.keys() | expected.keys()):
        if topic not in found or topic not in expected:
            described.append(f"{topic}: {'not expected' if topic in found else 'missing'}")
            continue
        rows = zip_longest(found[topic], expected[topic])
        for number, (row, other) in enumerate(rows):
            if row != other:
                described.append(f"{topic}, row {number} of {len(expected[topic])}: {_fields_that_differ(row, other)}")
                break
    return described


def _fields_that_differ(row: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    if row is None or other is None:
        return f"only one has {_short(row or other)}"
    differing = [name for name in row.keys() | other.keys() if row.get(name) != other.get(name)]
    place = f"entry {other['ledger_id']}:{other['entry_id']}:{other['batch_index']}"
    return place + "".join(
        f"; {name}: {_short(row.get(name))} instead of {_short(other.get(name))}" for name in differing
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
