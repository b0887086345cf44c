"""Where the brokers of a cluster listen for clients, as their admin API tells."""

from typing import Any, Protocol
from urllib.parse import quote

from ledgerfs.display import printable
from ledgerfs.errors import AdminApiError


class LookupRequests(Protocol):
    """Requests to one broker, which leads to the others."""

    address: str

    def told(self, path: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the value that a GET is answered with; raises `LedgerfsError` and its kinds."""


def service_address(requests: LookupRequests, topic: str, *, has_tls: bool) -> str:
    """Return the address (``pulsar://…``, with TLS ``pulsar+ssl://…``) of the broker that has a topic, which this question makes it load.

    Any broker of a cluster leads to the others, so one address is enough for all topics. Raises what `AdminRequests.told` raises, and
    `AdminApiError` for a broker that tells none.
    """
    namespace, _, name = topic.removeprefix("persistent://").rpartition("/")
    # Names with a cluster in them, of before Pulsar 2, are asked for elsewhere.
    kind = "destination" if namespace.count("/") == 2 else "topic"
    path = f"/lookup/v2/{kind}/persistent/{quote(namespace)}/{quote(name, safe='')}"
    told = requests.told(path)
    field = "brokerUrlTls" if has_tls else "brokerUrl"
    found = told.get(field) if isinstance(told, dict) else None
    if not isinstance(found, str) or not found.startswith("pulsar+ssl://" if has_tls else "pulsar://"):
        raise AdminApiError(
            f"the admin API tells no address for clients ({field}: {printable(str(found)[:100])}); give that of the brokers",
            key=requests.address + path,
        )
    return found
