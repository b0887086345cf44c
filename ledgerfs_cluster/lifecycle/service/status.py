"""The service's report: a node in ZooKeeper, which `ledgerfs lifecycle status` reads, and gauges for Prometheus."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from uuid import uuid4

from ledgerfs.errors import CorruptMetadataError, InvalidOptionError, ObjectNotFoundError
from ledgerfs_cluster.errors import ChangedMeanwhileError
from ledgerfs_cluster.lifecycle.service.events import Trouble
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode, SetNode
from ledgerfs_cluster.zookeeper.nodes import NodeReader

STATUS_PATH = "/ledgerfs/lifecycle/status"
_MOST_MS = 1 << 47
"""Larger values are not valid times."""
_MOST_TEXT = 500
_COUNTS = ("done", "waiting", "refused")
_LONG = 2**63


@dataclass(frozen=True, slots=True)
class Status:
    """The service at the end of its last iteration; one that ended early only updates the errors and the finished work.

    Attributes
    ----------
    began_ms, passed_ms
        Start of the service, and end of the last whole iteration, ms since 1970 UTC; that may be an earlier service's. 0 for none.
    passes
        Number of whole iterations since the service started.
    backlog_ledgers, backlog_bytes, oldest_due_ms
        Ledgers and bytes that wait to be offloaded, and when the oldest was closed; 0 for none.
    done
        {kind of work with ``_ledgers`` or ``_bytes``: number since the service started}.
    waiting, refused
        {kind: number}, by the last plan.
    troubles
        The latest errors, the oldest first.
    failed_passes
        Number of iterations that ended early since the last whole one.

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
    troubles: Sequence[Trouble] = ()
    failed_passes: int = 0


def write_status(lock: ClusterLock, status: Status) -> int | None:
    """Write the status node, and return its time by the server's clock; None if unknown.

    Raises `LockLostError`, and the errors of ZooKeeper.
    """
    troubles = [replace(one, text=one.text[:_MOST_TEXT]) for one in status.troubles]
    data = json.dumps(asdict(replace(status, troubles=troubles))).encode()
    node = lock.node(STATUS_PATH)
    version = -1 if node is None else node.version
    try:
        lock.commit([MakeNode(STATUS_PATH, data) if node is None else SetNode(STATUS_PATH, data, version)])
    except ChangedMeanwhileError:
        # Only an operator changes the node meanwhile: the next iteration writes it.
        return None
    written = lock.node(STATUS_PATH)
    return written.changed_ms if written is not None and written.version == version + 1 else None


def read_status(nodes: NodeReader) -> Status | None:
    """Return the last status that a service has written; None without one.

    Raises `CorruptMetadataError` for other data, and the errors of ZooKeeper.
    """
    try:
        node = nodes.get(STATUS_PATH)
    except ObjectNotFoundError:
        return None
    return parse_status(node.data, key=node.path)


def parse_status(data: bytes, *, key: str) -> Status:
    """Parse the data of the status' node, whose path is ``key``; ignores unknown names.

    Raises `CorruptMetadataError` for any other data.
    """
    reported = json_object(data, key=key)
    try:
        found = Status(**{one.name: reported[one.name] for one in fields(Status) if one.name in reported})
        found = replace(found, troubles=[Trouble(**one) for one in reported.get("troubles", ())])
        values = asdict(found)
        counts, troubles = [values.pop(name) for name in _COUNTS], values.pop("troubles")
        texts = [one.pop("text") for one in troubles]
        for name, value in (pair for one in (values, *counts, *troubles) for pair in one.items()):
            if type(value) is not int or not 0 <= value < (_MOST_MS if name.endswith("_ms") else _LONG):
                raise ValueError(f"{name} is not a valid number of at least 0")
        if not all(isinstance(one, str) for one in texts):
            raise ValueError("the text of an error is not a string")
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptMetadataError(
            f"the node is not a valid status of the lifecycle service: {error}", key=key
        ) from error
    return found


def gauges_of(source: str, status: Status) -> Iterator[str]:
    """Yield the lines of Prometheus's text format."""
    gauges: tuple[tuple[str, str, float | Mapping[str, int], str], ...] = (
        ("last_pass_timestamp_seconds", "When the last complete pass ended, seconds since 1970.", status.passed_ms / 1000, ""),
        ("failed_passes", "Failed passes since the last complete one.", status.failed_passes, ""),
        ("backlog_ledgers", "Ledgers that are due to be offloaded.", status.backlog_ledgers, ""),
        ("backlog_bytes", "Bytes that are due to be offloaded.", status.backlog_bytes, ""),
        ("oldest_due_timestamp_seconds", "When the oldest due ledger was closed, seconds since 1970.", status.oldest_due_ms / 1000, ""),
        ("troubles", "Errors in the status.", len(status.troubles), ""),
        ("done_total", "Ledgers and bytes processed since the service started.", status.done, "what"),
        ("waiting", "Work that is not due yet.", status.waiting, "what"),
        ("refused", "Work that is refused, by reason.", status.refused, "why"),
    )  # fmt: skip
    for name, about, value, label in gauges:
        yield f"# HELP ledgerfs_lifecycle_{name} {about}"
        yield f"# TYPE ledgerfs_lifecycle_{name} gauge"
        for key, one in (value if isinstance(value, Mapping) else {"": value}).items():
            labels = {"cluster": source, **({label: key} if label else {})}
            texts = ",".join(f'{of}="{_escaped(text)}"' for of, text in labels.items())
            yield f"ledgerfs_lifecycle_{name}{{{texts}}} {round(one, 3)}"


def write_gauges_file(path: Path, lines: Iterable[str]) -> None:
    """Replace the file at once, for the textfile collector of a node exporter: readers see the old or the new file.

    Raises `InvalidOptionError` if it cannot be written.
    """
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("x", encoding="utf-8", errors="replace") as file:
            # Collectors run as another user.
            os.fchmod(file.fileno(), 0o644)
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise InvalidOptionError(f"the gauges cannot be written: {error.strerror}", key=str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
