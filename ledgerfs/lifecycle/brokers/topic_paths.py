"""Where the admin API has a topic; names with a cluster in them (V1) are known to its first version alone."""

from urllib.parse import quote

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.topic_names import ManagedLedgerName, decode_topic, parse_managed_ledger_name


def topic_path(managed_ledger: str) -> str:
    """Return the path of a topic, ``/admin/v2/persistent/…``; a partition is a topic. Raises `InvalidNameError` for what is no topic's."""
    name = _parsed(managed_ledger)
    version = "/admin/v2" if name.cluster is None else "/admin"
    return f"{version}/persistent/{_quoted(name)}"


def is_legacy(managed_ledger: str) -> bool:
    """Whether a topic's name has a cluster in it (V1); raises `InvalidNameError` for what is no topic's."""
    return _parsed(managed_ledger).cluster is not None


def _parsed(managed_ledger: str) -> ManagedLedgerName:
    name = parse_managed_ledger_name(managed_ledger)
    if name is None:
        raise InvalidNameError("not the managed ledger of a topic, so no broker has it", key=managed_ledger)
    return name


def _quoted(name: ManagedLedgerName) -> str:
    namespace = name.namespace if name.cluster is None else f"{name.cluster}/{name.namespace}"
    return f"{name.tenant}/{namespace}/{quote(decode_topic(name.encoded_topic), safe='')}"
