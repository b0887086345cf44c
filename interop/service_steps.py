"""At which step the lifecycle's service is, by what it has noted in the cluster and put into the bucket."""

from enum import Enum

from kazoo.client import KazooClient

from interop.chaos_watch import records_now
from interop.s3_server import S3Server


class Step(Enum):
    """A step, in the words of the table at the end."""

    COPY = "during a copy"
    """An attempt is noted, and its index, which is written last, is not there."""
    COPIED = "between copy and list set"
    """The objects of an attempt are there, and its record, which goes with the list's change, is, too."""
    MARKED = "between mark and delete"
    """Something is marked."""


def steps_now(nodes: KazooClient, s3: S3Server, since_ms: int) -> set[Step]:
    """Return the steps that are begun and not ended, copies only of attempts that were noted since ``since_ms``, by ZooKeeper's clock."""
    found: set[Step] = set()
    objects = s3.names()
    for one in records_now(nodes):
        if one.is_marked:
            found.add(Step.MARKED)
        elif one.noted_ms >= since_ms and not one.due_ms:
            found.add(Step.COPIED if one.key.index_key in objects else Step.COPY)
    return found


def uncleaned_attempts(nodes: KazooClient) -> tuple[int, int]:
    """Return how many attempts are noted, and how many of these were never cleaned up after."""
    attempts = [one for one in records_now(nodes) if not one.is_marked]
    return len(attempts), sum(not one.due_ms for one in attempts)
