"""The rule of one topic: the cluster's own policies, overridden by the first matching pattern of the policy file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext
from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile, TopicWishes, Via
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket
from ledgerfs_cluster.rules.retention import retention_of
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.policies import NOTHING_SET, OffloadTarget, OffloadThresholds, Retention
from ledgerfs_cluster.snapshot.survey import Survey

_PERSISTENT = "persistent://"
_OF_BROKERS = "broker"
_NO_WISHES = TopicWishes(re.compile(""))


@dataclass(frozen=True, slots=True)
class TopicRule:
    """The effective policy of a topic.

    Attributes
    ----------
    managed_ledger
        The topic.
    thresholds
        Thresholds for offloading ledgers; ``is_size_the_files``, ``is_time_the_files``: whether the file sets each of them.
    retention, retention_from
        Retention, and its source: ``topic``, ``system``, ``namespace`` or ``broker``. The file has none of its own.
    deletion_lag_ms
        Time that brokers keep BookKeeper's copy of a ledger after the offload; below 0 for ever.
    is_retention_told, is_lag_told
        Whether retention and lag are known: a broker's default, which its configuration may change, is not.
    via, trash_grace_ms, trim, offload
        As in `ledgerfs_cluster.lifecycle.policy.policy_file.TopicWishes`.
    bucket, is_bucket_the_files
        Bucket to offload to, None if unknown; and whether a pattern of the file names it.
    brokers_bucket
        Brokers' bucket by the cluster's policies, which do not include the file; None if it is not known which of the file it is.

    """

    managed_ledger: str
    thresholds: OffloadThresholds
    is_size_the_files: bool
    is_time_the_files: bool
    retention: Retention
    retention_from: str
    deletion_lag_ms: int
    is_retention_reported: bool
    is_lag_reported: bool
    via: Via
    trash_grace_ms: int
    bucket: OffloadBucket | None
    is_bucket_the_files: bool
    brokers_bucket: OffloadBucket | None
    trim: bool
    offload: bool

    @property
    def are_thresholds_the_files(self) -> bool:
        """Whether the cluster's policies have no influence on what is offloaded."""
        return self.is_size_the_files and self.is_time_the_files


class TopicRules:
    """Returns the rule of each topic of a snapshot.

    Parameters
    ----------
    file
        The policy file.
    survey
        Has the cluster's own policies.

    """

    __slots__ = ("_file", "_survey", "_targets")

    def __init__(self, file: PolicyFile, survey: Survey) -> None:
        self._file = file
        self._survey = survey
        self._targets: dict[OffloadTarget, OffloadBucket | None] = {}

    def of(self, managed_ledger: str) -> TopicRule:
        """Return the rule of a topic."""
        file, survey = self._file, self._survey
        reported = survey.policies_of(managed_ledger)
        wishes = wishes_for(file, managed_ledger) or _NO_WISHES
        size, time, grace = wishes.offload_size, wishes.offload_time_ms, wishes.trash_grace_ms
        own = reported.offload(file.broker.offload)
        namespace = survey.policies.get(namespace_of(managed_ledger), NOTHING_SET)
        retention, whose = retention_of(managed_ledger, namespace, file.broker, survey.own_policies(managed_ledger))
        return TopicRule(
            managed_ledger,
            OffloadThresholds(own.size if size is None else size, own.time_ms if time is None else time),
            size is not None,
            time is not None,
            retention,
            whose,
            file.broker.deletion_lag_ms if reported.deletion_lag_ms is None else reported.deletion_lag_ms,
            whose != _OF_BROKERS or file.is_broker_retention_reported,
            reported.deletion_lag_ms is not None or file.is_broker_lag_reported,
            wishes.via or file.via,
            file.trash_grace_ms if grace is None else grace,
            self._bucket(wishes, reported.target),
            wishes.bucket is not None,
            self._bucket_of(reported.target) if reported.target.is_set else None,
            wishes.trim,
            wishes.offload,
        )

    def _bucket(self, wishes: TopicWishes, target: OffloadTarget) -> OffloadBucket | None:
        """Return the bucket of the pattern, else that of the cluster's policies, else that of the file's defaults."""
        if wishes.bucket is not None:
            return self._file.buckets[wishes.bucket]
        if target.is_set:
            return self._bucket_of(target)
        return None if self._file.bucket is None else self._file.buckets[self._file.bucket]

    def _bucket_of(self, target: OffloadTarget) -> OffloadBucket | None:
        if target not in self._targets:
            self._targets[target] = bucket_of(self._file, target)
        return self._targets[target]


def wishes_for(file: PolicyFile, managed_ledger: str) -> TopicWishes | None:
    """Return the first ``[[topics]]`` that matches a topic, for a partition also by its topic's name; None for none."""
    name = topic_of(managed_ledger).removeprefix(_PERSISTENT)
    names = {name, split_partition(name)[0]}
    return next((one for one in file.topics if any(one.match.fullmatch(text) for text in names)), None)


def without_topics(file: PolicyFile, managed_ledgers: Iterable[str]) -> list[TopicWishes]:
    """Return the ``[[topics]]`` of a file that are not the first match of any topic: misspelt, or hidden by an earlier one."""
    used = {id(one) for one in (wishes_for(file, name) for name in managed_ledgers) if one is not None}
    return [one for one in file.topics if id(one) not in used]


def bucket_of(file: PolicyFile, target: OffloadTarget) -> OffloadBucket | None:
    """Return the bucket of the file that a policy of the cluster refers to; None if there is none, or more than one.

    Bucket names belong to one endpoint: if the policy names an endpoint, the file's bucket must have the same.
    """
    found = [one for one in file.buckets.values() if one.is_meant(target.driver, target.bucket, target.endpoint)]
    return found[0] if len(found) == 1 else None


def url_of(file: PolicyFile, context: OffloadContext) -> str | None:
    """Return the URL of the bucket with the objects of an offload, by its context; None if the file has no such bucket, or several."""
    # An offload without an endpoint is only at its driver's own.
    found = [one.url for one in file.buckets.values() if one.url_of(context) is not None]
    return found[0] if len(found) == 1 else None
