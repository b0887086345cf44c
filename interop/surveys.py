"""The ledgers of topics, as their nodes have them."""

from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path


def list_of(client: KazooClient, topic: str) -> tuple[ManagedLedgerInfo, ZnodeStat]:
    """Return what the node of a topic says, and its version."""
    path = path_of(topic)
    data, stat = client.get(path)
    return parse_managed_ledger_info(data, key=path), stat


def ledgers_of(client: KazooClient, topic: str) -> Sequence[LedgerInfo]:
    """Return the ledgers of a topic."""
    return list_of(client, topic)[0].ledgers


def path_of(topic: str) -> str:
    """Return the node of a topic."""
    return managed_ledger_path(managed_ledger_of(topic))
