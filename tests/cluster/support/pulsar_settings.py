"""Brokers of ours as far as settings go: tenants, namespaces with their policies, and schemas, with the rules and answers of Pulsar 4.0.7.

Those of schemas: numbers are given out one after the other, to deletions, too; a schema gets the number of an equal one since the last
deletion; under any strategy but one another schema is refused (Pulsar lets some follow others, which no test here needs).
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from tests.support.admin_api import AdminServer, serving

_OF_AVRO = {"AVRO", "JSON", "PROTOBUF"}
_PRIMITIVES = {"BOOLEAN", "INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP"}
_DEFAULTS: dict[str, Any] = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "replication_clusters": [],
    "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
    "backlog_quota_map": {},
    "topicDispatchRate": {},
    "deleted": False,
    "encryption_required": False,
    "offload_threshold": -1,
    "schema_compatibility_strategy": "UNDEFINED",
    "is_allow_auto_update_schema": True,
    "properties": {},
}
_KNOWN = {
    *_DEFAULTS,
    *(
        "retention_policies",
        "message_ttl_in_seconds",
        "subscription_expiration_time_minutes",
        "offload_policies",
        "persistence",
    ),
    *(
        "deduplicationEnabled",
        "inactive_topic_policies",
        "max_producers_per_topic",
        "publishMaxMessageRate",
        "compaction_threshold",
    ),
}
Reported = tuple[int, str]


@dataclass
class Stored:
    """One version; a deletion has no type."""

    kind: str | None
    data: str = ""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass
class PulsarSettings:
    """The cluster; ``answer`` is what its brokers do, each request alone.

    ``admin`` is its web service, whose faults come instead of what is asked for.
    """

    admin: AdminServer
    cluster: str = "new"
    has_transactions: bool = True
    tenants: dict[str, dict[str, Any]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    schemas: dict[str, list[Stored]] = field(default_factory=dict)
    requests: AdminRequests = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.requests = AdminRequests(self.admin.url)

    def changes(self) -> list[tuple[str, str]]:
        """Return method and path of what was asked to be done."""
        return [(method, path.partition("?")[0]) for method, path, _ in self.admin.asked]

    def add_namespace(self, name: str, **policies: Any) -> None:
        tenant = name.partition("/")[0]
        self.tenants.setdefault(tenant, {"adminRoles": [], "allowedClusters": [self.cluster]})
        self.namespaces[name] = {**_DEFAULTS, "replication_clusters": [self.cluster], **policies}

    def tell(self, path: str) -> Reported:
        return self.answer("GET", path, None)

    def answer(self, method: str, path: str, value: Any) -> Reported:
        path, _, query = path.partition("?")
        with self._lock:
            match [unquote(one) for one in path.removeprefix("/admin/").removeprefix("v2/").split("/")]:
                case ["brokers", "configuration", "runtime"]:
                    reported = {
                        "clusterName": self.cluster,
                        "offloadersDirectory": "/pulsar/offloaders",
                        "transactionCoordinatorEnabled": str(self.has_transactions).lower(),
                    }
                    return 200, json.dumps(reported)
                case ["tenants", name]:
                    return self._tenant(method, name, value)
                case ["namespaces", *parts]:
                    return self._of_namespace(method, parts, value)
                case ["schemas", *owner, name, what] if what in {"schema", "schemas", "metadata"}:
                    return self._schema(method, "/".join([*owner, unquote(name)]), what, value, "force=true" in query)
        return 404, ""

    def _tenant(self, method: str, name: str, value: Any) -> Reported:
        if method == "PUT":
            if name in self.tenants:
                return 409, '{"reason":"Tenant already exist"}'
            self.tenants[name] = value
            return 204, ""
        return (
            (200, json.dumps(self.tenants[name]))
            if name in self.tenants
            else (404, '{"reason":"Tenant does not exist"}')
        )

    def _of_namespace(self, method: str, parts: list[str], value: Any) -> Reported:
        name, setting = "/".join(parts[:2]), parts[2:]
        if not setting and method == "PUT":
            return self._make(name, value)
        if name not in self.namespaces:
            return 404, '{"reason":"Namespace does not exist"}'
        policies = self.namespaces[name]
        match method, setting:
            case "GET", []:
                return 200, json.dumps(policies)
            case "PUT", ["schemaCompatibilityStrategy"]:
                policies["schema_compatibility_strategy"] = value
            case _:
                return 405, ""
        return 204, ""

    def _make(self, name: str, value: dict[str, Any]) -> Reported:
        tenant = self.tenants.get(name.partition("/")[0])
        if tenant is None:
            return 404, '{"reason":"Tenant does not exist"}'
        clusters = value.get("replication_clusters") or [self.cluster]
        if not set(clusters) <= {*tenant["allowedClusters"]}:
            return 403, '{"reason":"Cluster is not in the list of allowed clusters list for tenant"}'
        if name in self.namespaces:
            return 409, '{"reason":"Namespace already exists"}'
        reported = {one: what for one, what in value.items() if one in _KNOWN}
        if (reported.get("message_ttl_in_seconds") or 0) < 0:
            return 412, '{"reason":"Invalid value for message TTL"}'
        self.namespaces[name] = {**_DEFAULTS, "replication_clusters": clusters, **reported}
        return 204, ""

    def _schema(self, method: str, topic: str, what: str, value: Any, is_forced: bool) -> Reported:
        stored = self.schemas.get(topic, [])
        if what == "metadata":
            index = [{"ledgerId": 7, "entryId": 0, "version": number} for number in range(len(stored))]
            return 200, json.dumps({"info": index[-1], "index": index}) if index else ""
        shown = _shown(stored)
        if what == "schemas":
            return 200, json.dumps({"getSchemaResponses": shown})
        if topic.rpartition("/")[0] not in self.namespaces:
            return 404, '{"reason":"Namespace not found"}'
        if method == "DELETE":
            self.schemas[topic] = [] if is_forced else [*stored, Stored(None)]
            return 200, json.dumps({"version": -1 if is_forced else len(stored)})
        if method == "POST":
            return self._register(topic, Stored(value["type"], value["schema"], value["properties"]), shown)
        return 404, '{"reason":"Schema not found"}'

    def _register(self, topic: str, new: Stored, shown: list[dict[str, Any]]) -> Reported:
        refused = _refused(new)
        if refused is not None:
            return 422, page(422, refused)
        if new.kind == "KEY_VALUE":
            new.data = json.dumps(json.loads(new.data), separators=(",", ":"), ensure_ascii=False)
        for one in shown:
            if one["type"] == new.kind and _is_equal(new.kind, one["data"], new.data):
                return 200, json.dumps({"version": {"version": one["version"]}})
        strategy = self.namespaces[topic.rpartition("/")[0]]["schema_compatibility_strategy"]
        if shown and strategy != "ALWAYS_COMPATIBLE":
            return 409, page(
                409, f"Incompatible schema: exists schema type {shown[-1]['type']}, new schema type {new.kind}"
            )
        self.schemas.setdefault(topic, []).append(new)
        return 200, json.dumps({"version": {"version": len(self.schemas[topic]) - 1}})


def page(status: int, why: str) -> str:
    """Return what Jetty tells of a refusal."""
    return f"<html>\n<head>\n<title>Error {status} {why}</title>\n</head>\n<body><h2>HTTP ERROR {status} {why}</h2></body></html>"


def _shown(stored: list[Stored]) -> list[dict[str, Any]]:
    """Return what the API tells: what is behind the last deletion."""
    first = max((number for number, one in enumerate(stored) if one.kind is None), default=-1) + 1
    return [
        {
            "version": number,
            "type": one.kind,
            "timestamp": 1_700_000_000_000 + number,
            "data": one.data,
            "properties": one.properties,
        }
        for number, one in enumerate(stored)
        if number >= first
    ]


def _refused(new: Stored) -> str | None:
    if new.kind in _PRIMITIVES and new.data:
        return f"Invalid schema definition data for primitive schemas :length of schema data should be zero, not {len(new.data)}"
    if new.kind in {*_OF_AVRO, "KEY_VALUE"}:
        try:
            json.loads(new.data)
        except ValueError:
            return f"Invalid schema definition data for {new.kind} schema"
    return None


def _is_equal(kind: str, one: str, other: str) -> bool:
    return bool(json.loads(one) == json.loads(other)) if kind in _OF_AVRO else one == other


@contextmanager
def pulsar_settings(**options: Any) -> Iterator[PulsarSettings]:
    """Serve a cluster without tenants until the end of a block."""
    with serving({}) as admin:
        made = PulsarSettings(admin, **options)
        admin.does, admin.reports = made.answer, made.tell
        yield made


class CutRequests(AdminRequests):
    """Requests of a process that is ended at one of its changes: before it is sent, or before its answer is seen."""

    __slots__ = ("_at", "_is_sent", "_seen")

    def __init__(self, address: str, at: int, *, is_sent: bool) -> None:
        super().__init__(address)
        self._at, self._is_sent, self._seen = at, is_sent, 0

    @property
    def was_cut(self) -> bool:
        """Whether it came to that change."""
        return self._seen > self._at

    def change(self, method: str, path: str, value: object = None, *, is_repeatable: bool) -> Any:
        self._seen += 1
        if self._seen > self._at and not self._is_sent:
            raise KeyboardInterrupt
        answer = super().change(method, path, value, is_repeatable=is_repeatable)
        if self._seen > self._at:
            raise KeyboardInterrupt
        return answer
