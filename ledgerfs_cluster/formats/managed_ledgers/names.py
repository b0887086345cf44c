"""Paths of managed ledgers and their cursors in ZooKeeper.

A managed ledger is at ``/managed-ledgers/<tenant>/<namespace>/persistent/<encoded topic>``, one with a legacy V1 name, which every cluster
has, one folder deeper (``<tenant>/<cluster>/<namespace>/persistent/…``). Its children are its cursors. So the folder ``persistent`` decides
the kind of a node, not its depth alone. If both the third and the fourth component have that name, the node is a topic ``persistent``: V1
namespaces of that name are refused (`ledgerfs_cluster.snapshot.managed_ledger_paths`).
"""

from ledgerfs.formats.topic_names import decode_topic, encode_topic

ROOT = "/managed-ledgers"
COMPACTION = "__compaction"
"""The cursor that refers to a topic's compacted ledger."""
_DOMAIN = "persistent"
_COORDINATOR_LOGS = "pulsar/system/persistent/__transaction_log_"
_PENDING_ACKNOWLEDGEMENTS = "__transaction_pending_ack"


def managed_ledger_of(path: str) -> str | None:
    """Return the name of the managed ledger at a path, such as ``t/ns/persistent/x``; None for folders, cursors, and other paths."""
    parts, ledger = _placed(path)
    return "/".join(parts) if ledger and len(parts) == ledger else None


def is_of_transactions(name: str) -> bool:
    """Return whether a managed ledger is one of Pulsar's logs of transactions: its entries are not messages, and no client reads it.

    Pulsar distinguishes them by these names, too (``SystemTopicNames.isTransactionInternalName``).
    """
    return name.startswith(_COORDINATOR_LOGS) or name.endswith(_PENDING_ACKNOWLEDGEMENTS)


def cursor_of(path: str) -> tuple[str, str] | None:
    """Return the managed ledger and the decoded name of the cursor at a path; None for all other paths."""
    parts, ledger = _placed(path)
    return ("/".join(parts[:-1]), decode_topic(parts[-1])) if ledger and len(parts) == ledger + 1 else None


def is_above_managed_ledgers(path: str) -> bool:
    """Return whether managed ledgers may be children or grandchildren of a path: a walk descends into such folders only."""
    if path == ROOT:
        return True
    parts, ledger = _placed(path)
    return bool(parts) and (len(parts) < ledger if ledger else len(parts) <= 3)


def managed_ledger_path(name: str) -> str:
    """Return the path of the node of a managed ledger."""
    return f"{ROOT}/{name}"


def coordinator_log_path(number: int) -> str:
    """Return the path of the node of a transaction coordinator's log."""
    return managed_ledger_path(f"{_COORDINATOR_LOGS}{number}")


def cursor_path(name: str, cursor: str) -> str:
    """Return the path of the node of a managed ledger's cursor."""
    return f"{ROOT}/{name}/{encode_topic(cursor)}"


def is_node_name(text: str) -> bool:
    """Return whether a text is a valid name of a ZooKeeper node."""
    return text not in {"", ".", ".."} and "/" not in text and text.isprintable()


def is_managed_ledger(name: str) -> bool:
    """Return whether a text is the name of a managed ledger."""
    return all(map(is_node_name, name.split("/"))) and managed_ledger_of(managed_ledger_path(name)) == name


def _placed(path: str) -> tuple[list[str], int]:
    """Return the components below the root, and how many of them name a managed ledger; 0 if the path cannot be one."""
    if not path.startswith(f"{ROOT}/"):
        return [], 0
    parts = path[len(ROOT) + 1 :].split("/")
    if not all(parts):
        return [], 0
    if parts[2:3] == [_DOMAIN]:
        return parts, 4
    return parts, 5 if parts[3:4] == [_DOMAIN] else 0
