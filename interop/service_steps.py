"""At which step the lifecycle's service is, by what it has noted in the cluster and put into the bucket."""

import json
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import ZnodeStat

from interop.chaos_watch import trash_lines
from interop.s3_server import S3Server
from ledgerfs.lifecycle.journal.trash_line import TrashState
from ledgerfs.offload.attempts import ROOT as ATTEMPTS


class Step(Enum):
    """A step, in the words of the table at the end."""

    COPY = "during a copy"
    """An attempt is noted, and its index, which is written last, is not there."""
    COPIED = "between copy and list set"
    """The objects of an attempt are there, and its note, which goes with the list's change, is, too."""
    MARKED = "between mark and delete"
    """A trash line is there, of which nothing is done."""
    DELETING = "during deletes"
    """What a trash line tells of is in no list any more, and not all of it is gone."""


def steps_now(nodes: KazooClient, s3: S3Server, since_ms: int) -> set[Step]:
    """Return the steps that are begun and not ended, copies only of attempts that were noted since ``since_ms``, by ZooKeeper's clock."""
    found: set[Step] = set()
    objects = s3.names()
    for name, data, stat in _attempts(nodes):
        if stat.ctime >= since_ms and not json.loads(data)["cleaned_ms"]:
            found.add(Step.COPIED if f"{name}-index" in objects else Step.COPY)
    for _, line, _ in trash_lines(nodes):
        if line.state is TrashState.MARKED:
            found.add(Step.MARKED)
        elif line.state is TrashState.UNLISTED:
            found.add(Step.DELETING)
    return found


def uncleaned_attempts(nodes: KazooClient) -> tuple[int, int]:
    """Return how many attempts are noted, and how many of these were never cleaned up after."""
    told = [json.loads(data) for _, data, _ in _attempts(nodes)]
    return len(told), sum(not one["cleaned_ms"] for one in told)


def _attempts(nodes: KazooClient) -> Iterator[tuple[str, bytes, ZnodeStat]]:
    """Yield name, data, and what ZooKeeper says of it, of the note of each attempt."""
    try:
        names = nodes.get_children(ATTEMPTS)
    except NoNodeError:
        return
    for name, answer in [(name, nodes.get_async(f"{ATTEMPTS}/{name}")) for name in names]:
        with suppress(NoNodeError):
            data, stat = answer.get(30)
            yield name, data, stat
