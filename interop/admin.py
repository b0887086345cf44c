"""The broker's admin interface, as far as it is needed here."""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


class AdminError(Exception):
    """The broker refused."""


@dataclass(frozen=True)
class Admin:
    """``address`` is the broker's web service."""

    address: str

    def call(self, method: str, path: str, body: object = None, accept: tuple[int, ...] = ()) -> Any:
        """Return what the broker answers; a status in ``accept`` is fine too."""
        request = urllib.request.Request(
            f"{self.address}/admin/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            if error.code in accept:
                return None
            raise AdminError(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None
        return json.loads(text) if text else None

    def wait_until_ready(self, seconds: float = 600) -> None:
        """Wait for a broker whose port is open already, but whose service is not."""
        end = time.monotonic() + seconds
        while True:
            try:
                with urllib.request.urlopen(f"{self.address}/admin/v2/brokers/health", timeout=10):
                    return
            except OSError as error:
                if time.monotonic() > end:
                    raise AdminError(f"the broker is not ready after {seconds:.0f} s: {error}") from None
                time.sleep(0.3)

    def make_namespace(self, name: str) -> None:
        """Make a namespace: ``tenant/name``, or ``tenant/cluster/name`` of the old kind."""
        self.call("PUT", f"{_version(name, 2)}namespaces/{name}", accept=(409,))

    def topics(self, namespace: str) -> list[str]:
        """Return the topics of users in a namespace, each partition a topic."""
        names = self.call("GET", f"{_version(namespace, 2)}persistent/{namespace}")
        return sorted(name for name in names if "/__" not in name)

    def unload(self, topic: str) -> None:
        """Close a topic, and with it its ledger."""
        self.call("PUT", f"{_path(topic)}/unload")

    def terminate(self, topic: str) -> None:
        """Have a topic take no more messages for ever."""
        self.call("POST", f"{_path(topic)}/terminate")

    def set_retention(self, namespace: str, minutes: int, megabytes: int) -> None:
        """Give a namespace a retention."""
        retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        self.call("POST", f"v2/namespaces/{namespace}/retention", retention)

    def set_retention_of_topic(self, topic: str, retention: dict[str, int]) -> None:
        """Give a topic a retention of its own."""
        self.call("POST", f"{_path(topic)}/retention", retention)

    def set_ttl(self, namespace: str, seconds: int) -> None:
        """Give the messages of a namespace a time to live."""
        self.call("POST", f"v2/namespaces/{namespace}/messageTTL", seconds)

    def set_ttl_of_topic(self, topic: str, seconds: int) -> None:
        """Give the messages of a topic a time to live of their own."""
        self.call("POST", f"{_path(topic)}/messageTTL?messageTTL={seconds}")

    def expire(self, topic: str, seconds: int) -> None:
        """Have the broker expire what is older, for all subscriptions; those that have nothing left are refused, the others go on."""
        self.call("POST", f"{_path(topic)}/all_subscription/expireMessages/{seconds}", accept=(409,))

    def positions(self, topic: str) -> dict[str, tuple[int, int]]:
        """Return up to where each subscription has acknowledged all."""
        reported = self.call("GET", f"{_path(topic)}/internalStats")["cursors"]
        marks = {name: one["markDeletePosition"].split(":") for name, one in reported.items()}
        return {name: (int(ledger), int(entry)) for name, (ledger, entry) in marks.items()}

    def ledgers(self, topic: str) -> list[dict[str, Any]]:
        """Return what the broker tells of a topic's ledgers, the open one last."""
        found: list[dict[str, Any]] = self.call("GET", f"{_path(topic)}/internalStats")["ledgers"]
        return found

    def trim(self, topic: str) -> int:
        """Have the broker delete what is past its retention; return the first ledger that is left, so far."""
        self.call("POST", f"{_path(topic)}/trim")
        first: int = self.ledgers(topic)[0]["ledgerId"]
        return first

    def offload(self, topic: str, ledgers: int | None = None) -> list[int]:
        """Offload the oldest ledgers, as many as are told, or all but the open one; return their ids."""
        *closed, current = self.ledgers(topic)
        if ledgers is not None:
            *closed, current = (*closed, current)[: ledgers + 1]
        self.call(
            "PUT", f"{_path(topic)}/offload", {"ledgerId": current["ledgerId"], "entryId": 0, "partitionIndex": -1}
        )
        while (state := self.call("GET", f"{_path(topic)}/offload"))["status"] == "RUNNING":
            time.sleep(0.1)
        if state["status"] != "SUCCESS":
            raise AdminError(f"{topic} was not offloaded: {state}")
        return [ledger["ledgerId"] for ledger in closed]


def _version(name: str, parts: int) -> str:
    """Return ``v2/``, but nothing for names with a cluster in them, which only the first version of the interface knows."""
    return "v2/" if name.count("/") == parts - 1 else ""


def _path(topic: str) -> str:
    namespace, _, name = topic.removeprefix("persistent://").rpartition("/")
    return f"{_version(namespace, 2)}persistent/{namespace}/{quote(name, safe='')}"
