"""Which broker has a topic: the namespace's bundles of hashes, and who owns each.

With `ModularLoadManagerImpl` owners are nodes in ZooKeeper; with the extensible load manager they are messages of a topic, and not known
here. An owned bundle says that its topics may be loaded, no more; one without an owner, that none is.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from zlib import crc32

from ledgerfs.formats.topic_names import topic_of

NAMESPACES, BROKERS = "/namespace", "/loadbalance/brokers"
_BUNDLE = re.compile(r"0x([0-9a-f]{8})_0x([0-9a-f]{8})")
_LAST_HASH = 0xFFFFFFFF
_MODULAR = "ModularLoadManagerImpl"


class Owner(Enum):
    """What is known of a topic's broker."""

    NONE = "none"
    """No broker has the topic loaded."""
    SOME = "some"
    """A broker owns the topic's bundle, and may have it loaded."""
    UNKNOWN = "unknown"
    """Owners are not in ZooKeeper."""


@dataclass(slots=True)
class BundleOwners:
    """The owners of all bundles.

    Attributes
    ----------
    load_managers
        {id of a broker: the class of its load manager}.

    """

    load_managers: dict[str, str] = field(default_factory=dict)
    _owned: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def are_in_zookeeper(self) -> bool:
        """Whether a node in ZooKeeper comes and goes with each owner; there are none while there is no broker."""
        return all(name.endswith(_MODULAR) for name in self.load_managers.values())

    def own(self, path: str) -> None:
        """Take the node of an owner; one above it is passed over."""
        namespace, _, bundle = path.removeprefix(f"{NAMESPACES}/").rpartition("/")
        found = _BUNDLE.fullmatch(bundle)
        if found is not None:
            self._owned.setdefault(namespace, []).append((int(found[1], 16), int(found[2], 16)))

    def of(self, managed_ledger: str) -> Owner:
        """Return what is known of the broker of a topic."""
        place = hash_of(managed_ledger)
        owned = self._owned.get(namespace_of(managed_ledger), ())
        is_owned = any(low <= place < high or place == high == _LAST_HASH for low, high in owned)
        if is_owned:
            return Owner.SOME
        return Owner.NONE if self.are_in_zookeeper else Owner.UNKNOWN


def hash_of(managed_ledger: str) -> int:
    """Return where a topic lies between the boundaries of bundles."""
    return crc32(topic_of(managed_ledger).encode("utf-8", "surrogatepass"))


def namespace_of(managed_ledger: str) -> str:
    """Return the namespace of a topic: ``tenant/namespace``, or ``tenant/cluster/namespace`` in V1 names."""
    namespace, _, _ = managed_ledger.rpartition("/")
    return namespace.removesuffix("/persistent")
