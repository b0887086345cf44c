"""Where the admin API has tenants and namespaces; those with a cluster in their names (V1) are known to its first version alone."""

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.topic_names import parse_managed_ledger_name

TENANTS = "/admin/v2/tenants"


def namespace_path(namespace: str) -> str:
    """Return the path of a namespace; raises `InvalidNameError` for what is none, since its name stands in the path as it is."""
    if parse_managed_ledger_name(f"{namespace}/persistent/x") is None:
        raise InvalidNameError("not the name of a namespace", key=namespace)
    version = "/admin" if is_legacy_namespace(namespace) else "/admin/v2"
    return f"{version}/namespaces/{namespace}"


def is_legacy_namespace(namespace: str) -> bool:
    """Whether a namespace's name has a cluster in it (V1)."""
    return namespace.count("/") == 2
