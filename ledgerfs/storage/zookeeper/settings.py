"""Where a ZooKeeper is and how to log in; what travels in pickles."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

USERNAME_VARIABLE, PASSWORD_VARIABLE = "LEDGERFS_ZOOKEEPER_USERNAME", "LEDGERFS_ZOOKEEPER_PASSWORD"
"""Environment variables of the login, for commands, whose options other users see, and for tasks of Spark, whose options are in plans."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What `ledgerfs.storage.zookeeper.nodes.Nodes` was made with; its repr shows no login."""

    servers: str
    timeout_s: float
    most_per_second: float | None
    username: str | None = field(repr=False)
    password: str | None = field(repr=False)
    use_ssl: bool
    verify_certs: bool
    check_hostname: bool
    ca: str | None
    certfile: str | None
    keyfile: str | None = field(repr=False)

    @property
    def logins(self) -> list[tuple[str, str]]:
        """What kazoo sends after each connect."""
        return [] if self.username is None else [("digest", f"{self.username}:{self.password or ''}")]

    @property
    def hosts(self) -> int:
        """How many servers are named."""
        return self.servers.partition("/")[0].count(",") + 1

    @property
    def folder(self) -> str:
        """The folder (chroot) that all paths are below, without a slash at its end; empty for the root."""
        parts = [part for part in self.servers.partition("/")[2].split("/") if part]
        return "".join(f"/{part}" for part in parts)


def with_login(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a session with the login of the environment, where they name none, or the same user without a password."""
    told = {"username": os.environ.get(USERNAME_VARIABLE), "password": os.environ.get(PASSWORD_VARIABLE)}
    username = options.get("username")
    if username is not None and told["username"] not in {None, username}:
        return dict(options)
    found = {name: value for name, value in told.items() if value}
    return {**found, **{name: value for name, value in options.items() if value is not None}}
