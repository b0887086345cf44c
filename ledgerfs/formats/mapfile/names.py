"""Paths of a bucket that Pulsar's filesystem offloader wrote: the kind of each object by its path.

A ledger is a folder, ``tenant/namespace/persistent/<encoded topic>/<ledger id>-<uuid>`` (legacy V1 topics: with a cluster), with the
objects ``data`` and ``index``. Hadoop leaves checksums beside them on local file systems. The uuid is that of one offload attempt.
"""

import re
from dataclasses import dataclass
from enum import Enum
from unicodedata import normalize

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LEDGER_FOLDER = re.compile(rf"(0|[1-9][0-9]{{0,18}})-({_UUID})\Z", re.ASCII)
_NEARLY_A_LEDGER = re.compile(rf"\A[+-]?(?!{_UUID})(\d{{1,40}})(?![\dA-Za-z])|(\d{{1,40}})-{_UUID}", re.IGNORECASE)
_MAX_LEDGER_ID = 2**63 - 1


class FileKind(Enum):
    """Kind of an object, by its path."""

    DATA = "data"
    """The records."""
    INDEX = "index"
    """Positions of some of the records in the data."""
    CHECKSUM = "checksum"
    """A checksum that Hadoop's local file system writes beside each file."""
    OTHER = "other"
    """Not an object of a ledger."""


KINDS = {
    "data": FileKind.DATA,
    "index": FileKind.INDEX,
    ".data.crc": FileKind.CHECKSUM,
    ".index.crc": FileKind.CHECKSUM,
}


@dataclass(frozen=True, slots=True)
class MapFileLedger:
    """The parsed path of a ledger's folder: name of the managed ledger, ledger, and offload attempt."""

    managed_ledger: str
    ledger_id: int
    uuid: str

    @property
    def folder(self) -> str:
        """Path of the ledger's folder."""
        return f"{self.managed_ledger}/{self.ledger_id}-{self.uuid}"

    @property
    def data_key(self) -> str:
        """Path of the ledger's data."""
        return f"{self.folder}/data"

    @property
    def index_key(self) -> str:
        """Path of the index of the data."""
        return f"{self.folder}/index"


def parse_ledger_folder(path: str) -> MapFileLedger | None:
    """Return the parts of the path of a ledger's folder, or None when ``path`` is not exactly one.

    The path begins with the tenant. Its topic may be encoded differently than by Java: `topic_names` handles those.
    """
    managed_ledger, _, name = path.rpartition("/")
    parsed = parse_ledger_name(name)
    parts = managed_ledger.split("/")
    if parsed is None or len(parts) not in {4, 5} or parts[-2] != "persistent" or not all(parts):
        return None
    return MapFileLedger(managed_ledger, *parsed)


def parse_ledger_name(name: str) -> tuple[int, str] | None:
    """Return ledger id and uuid of the name of a ledger's folder, or None when it is not exactly one."""
    match = _LEDGER_FOLDER.match(name)
    return (int(match[1]), match[2]) if match is not None and int(match[1]) <= _MAX_LEDGER_ID else None


def nearly_a_ledger(name: str) -> int | None:
    """Return the ledger id of a folder name that Pulsar never writes, but that may be one that was changed; None for any other.

    These are names in upper case, with zeros or a sign before the id, with another uuid or none, with text before or after, and with
    digits of other scripts. The id is a guess: ``1_0-…`` may have been 1 or 10. A uuid alone has none.
    """
    match = _NEARLY_A_LEDGER.search(normalize("NFKC", name))
    return None if match is None else min(int(match[1] or match[2]), _MAX_LEDGER_ID)
