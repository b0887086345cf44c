"""Where a ZooKeeper is and how to log in; what travels in pickles."""

from dataclasses import dataclass, field


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
