"""A line of the trash journal: one ledger, or the objects of one offload, on the way to their deletion.

Each line is a node of its own. Nothing is deleted without one, so a crash at any step is gone on with from its line.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ledgerfs.errors import CorruptMetadataError, InvalidOptionError
from ledgerfs.formats.managed_ledgers.names import is_managed_ledger

TRASH = "/ledgerfs/lifecycle/trash"
"""The node whose children are the lines of the trash journal, below the chroot of the cluster."""
MOST_BYTES = 65_536
"""Of a line; a longer one is none of ours."""

_MOST_TEXT = 4096
_MOST_DIGITS = 19
_LEDGER_ID = re.compile(rf"0|[1-9][0-9]{{0,{_MOST_DIGITS - 1}}}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_LONG = 2**63
_WATCHED_MS = 600_000
_INT = 2**31


class TrashKind(Enum):
    """What is to be deleted; the value is the word in node names, JSON and tables."""

    OFFLOADED = "offloaded"
    """BookKeeper's copy of a ledger that is offloaded completely."""
    TRIMMED = "trimmed"
    """A ledger past its topic's retention, with its objects if it is offloaded."""
    ORPHAN = "orphan"
    """A ledger that nothing names."""
    FLAGGED = "flagged"
    """A ledger that its list calls deleted in BookKeeper, and that is there."""
    OBJECTS = "objects"
    """The objects of an offload that no list names."""


_LISTED = frozenset({TrashKind.TRIMMED, TrashKind.OFFLOADED, TrashKind.FLAGGED})
"""What a list names, or named, as if it could be read."""


_WITHOUT_A_LIST = frozenset({TrashKind.ORPHAN, TrashKind.FLAGGED, TrashKind.OBJECTS})
"""What goes without a change of a list: it is marked, and then deleted."""


class TrashState(Enum):
    """How far a deletion is."""

    MARKED = "marked"
    """Written down, and nothing is changed: `ledgerfs lifecycle undo` takes it back."""
    UNLISTED = "unlisted"
    """The list of the topic does not name it any more, or calls it deleted: the deletion goes on, and cannot be taken back."""
    DELETED = "deleted"
    """Nothing of it is there. The line stays until no broker can have a list that tells otherwise."""


@dataclass(frozen=True, slots=True)
class TrashLine:
    """A line of the trash journal.

    Attributes
    ----------
    kind, ledger_id
        What is to be deleted.
    managed_ledger
        Whose it is or was; None if that is not known.
    uuid
        Of the offload whose objects are to be deleted; None without objects.
    bucket
        The URL of the bucket that has these objects; None without objects.
    why
        In one sentence.
    version
        Of the ledger's own node when it was marked; -1 for none.
    size
        Bytes that are freed.
    marked_ms, due_ms
        When it was marked, and from when on it may be deleted, ms since 1970 UTC.
    state
        How far the deletion is.
    changed_ms
        When the line was set last by ZooKeeper's clock, ms since 1970 UTC; 0 for one that was not read. It is no part of its data.

    """

    kind: TrashKind
    ledger_id: int
    managed_ledger: str | None
    uuid: str | None
    bucket: str | None
    why: str
    version: int
    size: int
    marked_ms: int
    due_ms: int
    state: TrashState
    changed_ms: int = field(default=0, compare=False)

    @property
    def watched_until_ms(self) -> int:
        """Until when somebody looks who has the topic of a deleted ledger, ms since 1970 UTC; 0 for what no list named.

        A broker that was stopped, and lost its session, has the list as it was before; nobody knows that there is one before it goes on.
        """
        return self.changed_ms + _WATCHED_MS if self.managed_ledger is not None and self.kind in _LISTED else 0

    @property
    def node_name(self) -> str:
        """The name of its node: ``<kind>-<ledgerId>``, with ``-<uuid>`` behind it if there is one."""
        return trash_node_name(self.kind, self.ledger_id, self.uuid)

    @property
    def path(self) -> str:
        """The path of its node, below the chroot of the cluster."""
        return f"{TRASH}/{self.node_name}"


def trash_node_name(kind: TrashKind, ledger_id: int, uuid: str | None = None) -> str:
    """Return the name of the node of a line."""
    return f"{kind.value}-{ledger_id}" if uuid is None else f"{kind.value}-{ledger_id}-{uuid}"


def parse_trash_node_name(name: str) -> tuple[TrashKind, int, str | None]:
    """Return kind, ledger and uuid that the name of a node tells; raises `CorruptMetadataError` for one that is none of ours."""
    kind, _, rest = name.partition("-")
    ledger, has_uuid, uuid = rest.partition("-")
    kinds = {one.value: one for one in TrashKind}
    is_ours = kind in kinds and _is_ledger_id(ledger) and (not has_uuid or _UUID.fullmatch(uuid) is not None)
    if not is_ours:
        raise CorruptMetadataError("the node is not named as a line of the trash journal", key=f"{TRASH}/{name}"[:200])
    return kinds[kind], int(ledger), uuid if has_uuid else None


def build_trash_line(line: TrashLine) -> bytes:
    """Return the data of the node of a line: JSON, one key an attribute; raises `InvalidOptionError` for what could not be read again."""
    data = json.dumps(
        {
            "kind": line.kind.value,
            "ledger_id": line.ledger_id,
            "managed_ledger": line.managed_ledger,
            "uuid": line.uuid,
            "bucket": line.bucket,
            "why": line.why,
            "version": line.version,
            "size": line.size,
            "marked_ms": line.marked_ms,
            "due_ms": line.due_ms,
            "state": line.state.value,
        }
    ).encode()
    try:
        parse_trash_line(data, key=line.path)
    except CorruptMetadataError as error:
        raise InvalidOptionError(f"this is no line of a trash journal: {error.reason}", key=line.path) from error
    return data


def parse_trash_line(data: bytes, *, key: str) -> TrashLine:
    """Parse the data of a line's node, whose path is ``key``; keys that are not known are left alone.

    Raises `CorruptMetadataError` for anything else than a whole line, and for one of another node.
    """
    told = _object(data, key)
    line = TrashLine(
        kind=_one_of(TrashKind, told, "kind", key),
        ledger_id=_number(told, "ledger_id", key, 0, _LONG),
        managed_ledger=_text_or_none(told, "managed_ledger", key),
        uuid=_text_or_none(told, "uuid", key),
        bucket=_text_or_none(told, "bucket", key),
        why=_text(told, "why", key),
        version=_number(told, "version", key, -1, _INT),
        size=_number(told, "size", key, 0, _LONG),
        marked_ms=_number(told, "marked_ms", key, 0, _LONG),
        due_ms=_number(told, "due_ms", key, 0, _LONG),
        state=_one_of(TrashState, told, "state", key),
    )
    if line.uuid is not None and _UUID.fullmatch(line.uuid) is None:
        raise CorruptMetadataError("uuid is no uuid in lower case", key=key)
    if line.kind is TrashKind.OBJECTS and (line.uuid is None or line.bucket is None):
        raise CorruptMetadataError("the line is of objects, and has no uuid or no bucket", key=key)
    if line.state is TrashState.UNLISTED and line.kind in _WITHOUT_A_LIST:
        raise CorruptMetadataError(
            f"the line is {line.state.value}, as none of kind {line.kind.value} ever is", key=key
        )
    if line.managed_ledger is not None and not is_managed_ledger(line.managed_ledger):
        raise CorruptMetadataError("managed_ledger is the name of none", key=key)
    name = key.rpartition("/")[2]
    if name != line.node_name:
        raise CorruptMetadataError(f"the line is that of another node, {line.node_name}", key=key)
    return line


def _object(data: bytes, key: str) -> Mapping[str, Any]:
    if len(data) > MOST_BYTES:
        raise CorruptMetadataError(f"the node has {len(data):,} bytes, more than any line", key=key)
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptMetadataError(f"the node is not JSON: {error}", key=key) from error
    if not isinstance(told, dict):
        raise CorruptMetadataError("the node is no JSON object", key=key)
    return told


def _one_of(values: type[Any], told: Mapping[str, Any], name: str, key: str) -> Any:  # noqa: ANN401  (a value of the enumeration)
    known = {one.value: one for one in values}
    value = told.get(name)
    if not isinstance(value, str) or value not in known:
        raise CorruptMetadataError(f"{name} is none of {', '.join(known)}", key=key)
    return known[value]


def _number(told: Mapping[str, Any], name: str, key: str, least: int, end: int) -> int:
    value = told.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < end:
        raise CorruptMetadataError(f"{name} is no number from {least} on that fits", key=key)
    return value


def _text(told: Mapping[str, Any], name: str, key: str) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_TEXT:
        raise CorruptMetadataError(f"{name} is no text of 1 to {_MOST_TEXT:,} characters", key=key)
    return value


def _text_or_none(told: Mapping[str, Any], name: str, key: str) -> str | None:
    return None if told.get(name) is None else _text(told, name, key)


def _is_ledger_id(text: str) -> bool:
    return _LEDGER_ID.fullmatch(text) is not None and int(text) < _LONG
