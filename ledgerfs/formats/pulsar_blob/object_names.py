"""Keys of a bucket: the kind of each object by its name.

Pulsar's keys are flat (``docs/formats/pulsar-blob.md``): ``<uuid>-ledger-<id>`` is a data object, the same with ``-index`` its index.
The uuid is that of one offload attempt, so one ledger can have several pairs.
"""

import re
from dataclasses import dataclass
from enum import Enum

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
INDEX_SUFFIX = "-index"
"""Suffix of an index's key after the key of its data object."""
_LEDGER_KEY = re.compile(rf"({_UUID})-ledger-(0|[1-9][0-9]{{0,18}})(-index)?\Z", re.ASCII)
_STREAMING_KEY = re.compile(rf"{_UUID}(-index)?\Z", re.ASCII)
_GCS_PART_KEY = re.compile(rf"{_UUID}_[0-9]{{8}}\Z", re.ASCII)
_MAX_LEDGER_ID = 2**63 - 1


class KeyKind(Enum):
    """Kind of an object, by its key."""

    DATA = "data"
    """V1 data object."""
    INDEX = "index"
    """V1 index object."""
    STREAMING = "streaming"
    """PIP-76 (V2) data or index object; no broker writes these, ledgerfs does not read them."""
    GCS_PART = "gcs-part"
    """A part that jclouds left behind when it emulated a multipart upload on Google Cloud Storage."""
    FOREIGN = "foreign"
    """Not an object of Pulsar."""


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """The parsed name of a V1 object: offload attempt, ledger, and whether it is the index."""

    uuid: str
    ledger_id: int
    is_index: bool

    @property
    def data_key(self) -> str:
        """Key of the data object of this pair."""
        return f"{self.uuid}-ledger-{self.ledger_id}"

    @property
    def index_key(self) -> str:
        """Key of the index object of this pair."""
        return f"{self.data_key}{INDEX_SUFFIX}"


def parse_ledger_key(key: str) -> LedgerKey | None:
    """Return the parts of a V1 key, or None when ``key`` is not exactly one."""
    match = _LEDGER_KEY.match(key)
    if match is None:
        return None
    uuid, digits, suffix = match.groups()
    ledger_id = int(digits)
    if ledger_id > _MAX_LEDGER_ID:
        return None
    return LedgerKey(uuid, ledger_id, suffix is not None)


def kind_of_key(key: str) -> KeyKind:
    """Classify any key of a bucket."""
    parsed = parse_ledger_key(key)
    if parsed is not None:
        return KeyKind.INDEX if parsed.is_index else KeyKind.DATA
    if _STREAMING_KEY.match(key):
        return KeyKind.STREAMING
    if _GCS_PART_KEY.match(key):
        return KeyKind.GCS_PART
    return KeyKind.FOREIGN
