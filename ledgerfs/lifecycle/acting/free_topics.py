"""Whether a topic may be changed without its broker, asked right before it is."""

from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.survey import is_of_brokers
from ledgerfs.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo
from ledgerfs.offload.owners import TopicOwners

_WHY = {
    Owner.SOME: "a broker has the topic",
    Owner.UNKNOWN: "it is not known which broker has the topic",
}


def why_not_free(owners: TopicOwners, managed_ledger: str, info: ManagedLedgerInfo) -> str | None:
    """Return why a topic's list may not be changed; None if it may, as long as it is of the version that was read before this.

    A broker that loads the topic changes the list, so it is not changed by two; but loading a terminated topic changes nothing.
    """
    if is_of_brokers(managed_ledger):
        return "it is a topic of the brokers' own"
    if info.terminated is not None:
        return "the topic is terminated: a broker that loads it changes nothing, and would not notice"
    return _WHY.get(owners.owner_of(managed_ledger))
