"""Follow a topic of a live cluster, partition by partition."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ledgerfs.bucket.wanted_topics import NamedTopic
from ledgerfs.catalog.tail import Tail
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.scan.options import ScanOptions

_NOT_FOLLOWED = {
    "start_time": "cannot be used when following a topic; use start",
    "end_time": "cannot be used when following a topic, which has no end",
    "limit": "cannot be used when following a topic, which has no end",
    "order": "cannot be used when following a topic: messages of all partitions are returned as they arrive",
}
"""Scan options that following does not support, with the reasons."""

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.scan.follow_start import StartAt
    from ledgerfs.scan.following import Following


def following(
    bucket: "Bucket", named: NamedTopic, options: ScanOptions, start: "StartAt", *, poll_s: float, patience_s: float
) -> "Following":
    """Return the iterator of `Topic.follow` over a managed ledger, or over those of partitions.

    Raises `InvalidOptionError` for a source that cannot be followed, and for options that need an end.
    """
    # This imports pyarrow and numba, which listing and copying do not need.
    from ledgerfs.scan.following import Followed, Following
    from ledgerfs.scan.scan import scan_of, shown_values

    require_following(bucket)
    for name, reason in _NOT_FOLLOWED.items():
        if getattr(options, name) not in {None, "partition"}:
            raise InvalidOptionError(reason, key=name)
    topic = topic_of(named.managed_ledger)
    shown = shown_values(topic, options, lambda: bucket.schemas_of(topic))
    if shown is not None and shown.source.awaits_values:
        reason = "columns of JSON values are inferred from all values, but a followed topic has no end: pass schema_version too"
        raise InvalidOptionError(reason, key="values='json'")
    whole = scan_of(topic, (), options, shown)
    managed_ledgers = named.managed_ledgers(bucket.catalog)
    tails = list(_tails(bucket, managed_ledgers))
    if start.message is not None and len(tails) > 1:
        reason = "a message id belongs to one partition: follow that partition by its own name"
        raise InvalidOptionError(reason, key=f"message {start.message}")
    parts = [Followed(topic_of(name), tail) for name, tail in zip(managed_ledgers, tails, strict=True)]
    return Following(
        whole, parts, start, schemas=lambda: bucket.schemas_of(topic), poll_s=poll_s, patience_s=patience_s
    )


def require_following(bucket: "Bucket") -> None:
    """Raise `InvalidOptionError` for a bucket, which gets only whole ledgers."""
    list(_tails(bucket, [None]))


def _tails(bucket: "Bucket", managed_ledgers: Sequence[str | None]) -> Iterator[Tail]:
    for name in managed_ledgers:
        tail = bucket.source.tail(name)
        if tail is None:
            reason = "only topics of a live cluster (pulsar+zk://…) can be followed: a bucket receives whole ledgers, so read it again"
            raise InvalidOptionError(reason, key=bucket.url)
        yield tail
