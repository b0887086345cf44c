"""What a ledger's node says in the formats of old BookKeepers: lines of text (version 1), Protobuf's text format (version 2).

Both are read as the message that version 3 has, so that the rest is one. Apart from the current version since few clusters have any.
"""

import re

from google.protobuf import text_format

from ledgerfs.formats.bookkeeper.proto.ledger_text_pb2 import LedgerText
from ledgerfs.formats.ledger_metadata import DigestType, LedgerState
from ledgerfs.formats.proto.ledger_metadata_pb2 import LedgerMetadataRecord

_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)
_IN_RECOVERY = -102
_CLOSED = "CLOSED"


def read_lines(data: bytes) -> LedgerMetadataRecord:
    """Parse version 1; raises `ValueError`.

    Its entries have CRC32, since the node names no digest: what the writer took was told to readers by other means.
    """
    lines = data.decode("utf-8").removesuffix("\n").split("\n")
    if len(lines) < 4:
        raise ValueError("ledger metadata ends before its first ensemble")
    quorum, size, length = (_number(line) for line in lines[:3])
    record = LedgerMetadataRecord(
        write_quorum=quorum,
        ensemble_size=size,
        length=length,
        last_entry=-1,
        state=LedgerState.OPEN,
        digest_type=DigestType.CRC32,
    )
    for number, line in enumerate(lines[3:], 4):
        first, *bookies = line.split("\t")
        if record.state != LedgerState.OPEN or not bookies:
            raise ValueError(f"line {number} of ledger metadata is neither an ensemble nor its last line")
        if bookies != [_CLOSED]:
            record.ensemble.add(first_entry=_number(first), bookie=[bookie.encode() for bookie in bookies])
        elif _number(first) == _IN_RECOVERY:
            record.state = LedgerState.IN_RECOVERY
        else:
            record.state, record.last_entry = LedgerState.CLOSED, _number(first)
    return record


def read_text(data: bytes) -> LedgerMetadataRecord:
    """Parse version 2; raises `ValueError`, also for fields that it does not have: none was ever added."""
    try:
        text = text_format.Parse(data, LedgerText())
    except text_format.ParseError as error:
        raise ValueError(f"ledger metadata is not Protobuf's text: {error}") from error
    return LedgerMetadataRecord.FromString(text.SerializeToString())


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} in ledger metadata is not a number")
    return int(text)
