"""Owners of topics: a namespace's hash bundles, and the broker that owns each.

With `ModularLoadManagerImpl` owners are nodes in ZooKeeper; with the extensible load manager they are messages of a topic, and unknown
here. Topics in an owned bundle may be loaded; topics in a bundle without an owner are not.
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
    """State of a topic's broker."""

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
        """Whether owners are ephemeral nodes in ZooKeeper; also True without any broker."""
        return all(name.endswith(_MODULAR) for name in self.load_managers.values())

    def own(self, path: str) -> None:
        """Add the node of an owner; ignores parent nodes."""
        namespace, _, bundle = path.removeprefix(f"{NAMESPACES}/").rpartition("/")
        found = _BUNDLE.fullmatch(bundle)
        if found is not None:
            self._owned.setdefault(namespace, []).append((int(found[1], 16), int(found[2], 16)))

    def of(self, managed_ledger: str) -> Owner:
        """Return the state of a topic's broker."""
        place = hash_of(managed_ledger)
        owned = self._owned.get(namespace_of(managed_ledger), ())
        is_owned = any(low <= place < high or place == high == _LAST_HASH for low, high in owned)
        if is_owned:
            return Owner.SOME
        return Owner.NONE if self.are_in_zookeeper else Owner.UNKNOWN


def hash_of(managed_ledger: str) -> int:
    """Return a topic's hash, which lies between the boundaries of its bundle."""
    return crc32(topic_of(managed_ledger).encode("utf-8", "surrogatepass"))


def namespace_of(managed_ledger: str) -> str:
    """Return the namespace of a topic: ``tenant/namespace``, or ``tenant/cluster/namespace`` in V1 names."""
    namespace, _, _ = managed_ledger.rpartition("/")
    return namespace.removesuffix("/persistent")
