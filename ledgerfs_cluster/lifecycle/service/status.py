"""What the service tells of itself: a node in ZooKeeper, which `ledgerfs lifecycle status` reads, and gauges for Prometheus."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ledgerfs.errors import CorruptMetadataError, ObjectNotFoundError
from ledgerfs_cluster.errors import ChangedMeanwhileError
from ledgerfs_cluster.lifecycle.service.events import Trouble
from ledgerfs_cluster.rules.gauges_file import gauge_lines
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode, SetNode
from ledgerfs_cluster.zookeeper.nodes import NodeReader

STATUS_PATH = "/ledgerfs/lifecycle/status"
_MOST_MS = 1 << 47
"""More is no time that a calendar has."""
_MOST_TEXT = 500
_COUNTS = ("done", "waiting", "refused", "journal")
_LONG = 2**63


@dataclass(frozen=True, slots=True)
class Status:
    """The service as it was at the end of its last pass; of one that ended early there are the latest troubles, and what was done.

    Attributes
    ----------
    began_ms, passed_ms
        When the service began, and when the last whole pass ended, ms since 1970 UTC; that may be one of the service before. 0 for none.
    passes
        How many whole ones there were since the service began.
    backlog_ledgers, backlog_bytes, oldest_due_ms
        What is due to be offloaded by this program and is not yet, and since when; 0 for nothing.
    done
        {kind of work with ``_ledgers`` or ``_bytes``: how many since the service began}.
    waiting, refused
        {kind: how many}, by the last plan.
    journal
        {kind: records of the journal}.
    troubles
        The latest, the oldest first.
    failed_passes, failing_since_ms
        How many passes have ended early since the last whole one, and when the first of them did; 0 for none.
    broker_backlog_ledgers, broker_backlog_bytes, broker_oldest_due_ms
        What is due to be offloaded by brokers, and since when; 0 for nothing.

    """

    began_ms: int
    passed_ms: int
    passes: int
    backlog_ledgers: int = 0
    backlog_bytes: int = 0
    oldest_due_ms: int = 0
    done: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    journal: Mapping[str, int] = field(default_factory=dict)
    troubles: Sequence[Trouble] = ()
    failed_passes: int = 0
    failing_since_ms: int = 0
    broker_backlog_ledgers: int = 0
    broker_backlog_bytes: int = 0
    broker_oldest_due_ms: int = 0


def write_status(lock: ClusterLock, status: Status) -> int | None:
    """Write the status for others to read, and return when that was by the server's clock; None if it is not known.

    Raises `LockLostError`, and the errors of ZooKeeper.
    """
    troubles = [replace(one, text=one.text[:_MOST_TEXT]) for one in status.troubles]
    data = json.dumps(asdict(replace(status, troubles=troubles))).encode()
    node = lock.node(STATUS_PATH)
    version = -1 if node is None else node.version
    try:
        lock.commit([MakeNode(STATUS_PATH, data) if node is None else SetNode(STATUS_PATH, data, version)])
    except ChangedMeanwhileError:
        # Only an operator's hand comes between: the next pass writes it.
        return None
    written = lock.node(STATUS_PATH)
    return written.changed_ms if written is not None and written.version == version + 1 else None


def read_status(nodes: NodeReader) -> Status | None:
    """Return what a service has written last; None if none ever did.

    Raises `CorruptMetadataError` for what is no status, and the errors of ZooKeeper.
    """
    try:
        node = nodes.get(STATUS_PATH)
    except ObjectNotFoundError:
        return None
    return parse_status(node.data, key=node.path)


def parse_status(data: bytes, *, key: str) -> Status:
    """Parse the data of the status' node, whose path is ``key``; names that are not known are left out.

    Raises `CorruptMetadataError` for anything else than a status.
    """
    told = json_object(data, key=key)
    try:
        return Status(**{one.name: _read(one.name, told[one.name]) for one in fields(Status) if one.name in told})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptMetadataError(f"no status of the lifecycle service: {error}", key=key) from error


def gauges_of(source: str, status: Status) -> list[str]:
    """Return the lines of Prometheus's text format."""
    gauges: tuple[tuple[str, str, float | Mapping[str, int], str], ...] = (
        ("last_pass_timestamp_seconds", "When the last whole pass ended, seconds since 1970.", status.passed_ms / 1000, ""),
        ("failed_passes", "Passes that have ended early since the last whole one.", status.failed_passes, ""),
        ("backlog_ledgers", "Ledgers that are due to be offloaded by the service itself.", status.backlog_ledgers, ""),
        ("backlog_bytes", "Bytes that are due to be offloaded by the service itself.", status.backlog_bytes, ""),
        ("oldest_due_timestamp_seconds", "Since when the oldest of them has been due.", status.oldest_due_ms / 1000, ""),
        ("broker_backlog_ledgers", "Ledgers that are due to be offloaded by brokers.", status.broker_backlog_ledgers, ""),
        ("broker_backlog_bytes", "Bytes that are due to be offloaded by brokers.", status.broker_backlog_bytes, ""),
        ("broker_oldest_due_timestamp_seconds", "Since when the oldest of them has been due.", status.broker_oldest_due_ms / 1000, ""),
        ("troubles", "Troubles that the status has.", len(status.troubles), ""),
        ("done_total", "Ledgers and bytes that were done since the service began.", status.done, "what"),
        ("waiting", "Things that are not due yet.", status.waiting, "what"),
        ("refused", "Things that must not be done, by why.", status.refused, "why"),
        ("journal_records", "Records of the journal.", status.journal, "kind"),
    )  # fmt: skip
    lines: list[str] = []
    for name, about, value, label in gauges:
        values = value if isinstance(value, Mapping) else {"": value}
        samples = (
            ({"cluster": source, **({label: key} if label else {})}, round(one, 3)) for key, one in values.items()
        )
        lines += gauge_lines(f"ledgerfs_lifecycle_{name}", about, samples)
    return lines


def _read(name: str, value: Any) -> Any:  # noqa: ANN401  (JSON)
    """Return the value of a field; raises an error of its type for any other value."""
    if name in _COUNTS:
        return {key: _number(one) for key, one in value.items()}
    if name == "troubles":
        return [Trouble(_number(one["when_ms"], _MOST_MS), _text(one["text"]), _number(one["times"])) for one in value]
    return _number(value, _MOST_MS if name.endswith("_ms") else _LONG)


def _number(value: Any, most: int = _LONG) -> int:  # noqa: ANN401  (JSON)
    if type(value) is not int or not 0 <= value < most:
        raise ValueError(f"{str(value)[:50]!r} is not a number from 0 on that fits")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:50]!r} is not a text")
    return value
