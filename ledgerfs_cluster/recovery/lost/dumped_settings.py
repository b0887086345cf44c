"""What a dump of the lost cluster tells of its settings and schemas: nodes of ZooKeeper, policies of topics, stored schemas.

Only what is asked for is parsed, so that a damaged node is the trouble of its namespace alone.
"""

from dataclasses import dataclass, field
from typing import Any

from ledgerfs_cluster.snapshot.answers import SchemaAnswer, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.partitioned_topics import parse_partitions, partitioned_path
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.snapshot.survey_builder import POLICIES

_LOCAL_POLICIES = "/admin/local-policies"


@dataclass(frozen=True, slots=True)
class DumpedSettings:
    """Settings and schemas of the lost cluster; nothing of them without a dump.

    All methods raise `CorruptMetadataError`, naming the node, for one that is not what it should be.

    Attributes
    ----------
    nodes
        {path below ``/admin``: value}.
    topic_policies
        By namespace: what its topics had set for themselves.
    locators
        {path below ``/schemas``: value}.
    schemas
        {path below ``/schemas``: what BookKeeper had of each version}.

    """

    nodes: dict[str, bytes] = field(default_factory=dict)
    topic_policies: dict[str, TopicPoliciesAnswer] = field(default_factory=dict)
    locators: dict[str, bytes] = field(default_factory=dict)
    schemas: dict[str, list[SchemaAnswer]] = field(default_factory=dict)

    def tenant(self, name: str) -> dict[str, Any] | None:
        """Return the roles and clusters of a tenant; None if nothing is known of it."""
        return self._object(f"{POLICIES}/{name}")

    def policies(self, namespace: str) -> dict[str, Any] | None:
        """Return the policies of a namespace, as ZooKeeper had them; None if nothing is known of it."""
        return self._object(f"{POLICIES}/{namespace}")

    def local_policies(self, namespace: str) -> dict[str, Any] | None:
        """Return the policies that a namespace had in its cluster alone, as groups of bookies; None if it had none."""
        return self._object(f"{_LOCAL_POLICIES}/{namespace}")

    def partitions(self, managed_ledger: str) -> int | None:
        """Return how many partitions a topic had; None if it is not known to have had any."""
        path = partitioned_path(managed_ledger)
        data = self.nodes.get(path)
        return None if data is None or not data.strip() else parse_partitions(data, key=path) or None

    def _object(self, path: str) -> dict[str, Any] | None:
        data = self.nodes.get(path)
        return None if data is None or not data.strip() else json_object(data, key=path)
