"""Address and login of a ZooKeeper; can be pickled."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgerfs.errors import InvalidOptionError

USERNAME_VARIABLE, PASSWORD_VARIABLE = "LEDGERFS_ZOOKEEPER_USERNAME", "LEDGERFS_ZOOKEEPER_PASSWORD"
"""Environment variables of the login, since other users can see options of commands, and options in plans of Spark's tasks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a client; its repr does not contain the login.

    Attributes
    ----------
    servers
        ``host:port,host:port``, optionally with a chroot for all paths: ``host:port,host:port/folder``.
    timeout_s
        Seconds until a server that never answered is given up, and session timeout without a connection. A request whose connection is
        lost is retried for twice as long.
    most_per_second
        Maximum nodes a second that this process requests.
    username, password
        A login with the scheme ``digest``.
    use_ssl, verify_certs, check_hostname, ca, certfile, keyfile
        As in kazoo. Host names are checked unless certificates are not verified at all.

    Raises `InvalidOptionError` for a time or rate that is not positive, and a name with a colon.

    """

    servers: str
    timeout_s: float = 10
    most_per_second: float | None = None
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    use_ssl: bool = False
    verify_certs: bool = True
    check_hostname: bool = True
    ca: str | None = None
    certfile: str | None = None
    keyfile: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, number in (("timeout_s", self.timeout_s), ("most_per_second", self.most_per_second)):
            if number is not None and not number > 0:
                raise InvalidOptionError(f"must be greater than 0, not {number}", key=name)
        if self.username is not None and ":" in self.username:
            raise InvalidOptionError("the username must not contain a colon", key="username")

    @property
    def logins(self) -> list[tuple[str, str]]:
        """Credentials that kazoo sends after each connect."""
        return [] if self.username is None else [("digest", f"{self.username}:{self.password or ''}")]

    @property
    def hosts(self) -> int:
        """Number of servers."""
        return self.servers.partition("/")[0].count(",") + 1

    @property
    def folder(self) -> str:
        """The chroot, without a slash at its end; empty for the root."""
        parts = [part for part in self.servers.partition("/")[2].split("/") if part]
        return "".join(f"/{part}" for part in parts)


def with_login(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return session options with the login from the environment, if they have no user, or the same user without a password."""
    given = {"username": os.environ.get(USERNAME_VARIABLE), "password": os.environ.get(PASSWORD_VARIABLE)}
    username = options.get("username")
    if username is not None and given["username"] not in {None, username}:
        return dict(options)
    found = {name: value for name, value in given.items() if value}
    return {**found, **{name: value for name, value in options.items() if value is not None}}
