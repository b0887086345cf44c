"""botocore's own client, made from the options of s3fs.

If botocore does not know all of them (a session or a connector), s3fs's own client is used.
"""

import os
from typing import Any

from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.storage.retries import store_timeout
from ledgerfs.storage.s3.direct_get import LeanGet

_ONLY_AIOHTTP = frozenset({"connector_args", "http_session_cls"})


class S3Client:
    """botocore's client for the endpoint of an s3fs filesystem, made on first use, and again in a forked child."""

    __slots__ = ("_lean", "_lock", "_process")

    def __init__(self) -> None:
        self._lean: LeanGet | None = None
        self._process = 0
        self._lock = ForkLock()

    def of(self, fs: Any) -> LeanGet:  # noqa: ANN401  (s3fs is not typed)
        """Return the client's `LeanGet`."""
        with self._lock:
            if self._lean is None or self._process != os.getpid():
                self._lean = LeanGet(_make_client(fs))
                self._process = os.getpid()
            if not hasattr(fs, "_kwargs_helper"):
                # s3fs makes it with its own session, which a process that only reads bytes, such as a forked child, does not open.
                from s3fs.utils import ParamKwargsHelper

                fs._kwargs_helper = ParamKwargsHelper(self._lean.client)  # noqa: SLF001
            return self._lean

    def forget(self) -> None:
        """Drop the client, so that the next one is made with the credentials of then."""
        with self._lock:
            self._lean = None


def is_known_to_botocore(options: dict[str, Any]) -> bool:
    """Whether botocore alone supports the options of s3fs."""
    return not options.get("session") and not _ONLY_AIOHTTP & set(options.get("config_kwargs") or ())


def _make_client(fs: Any) -> Any:  # noqa: ANN401
    """Make a client as `s3fs.S3FileSystem.set_session` does."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.session import Session

    secrets = {
        "aws_access_key_id": fs.key,
        "aws_secret_access_key": fs.secret,
        "aws_session_token": fs.token,
    }
    client = {"endpoint_url": fs.endpoint_url, "use_ssl": fs.use_ssl, **secrets, **fs.client_kwargs}
    config = fs._prepare_config_kwargs()  # noqa: SLF001
    config["read_timeout"] = min(config["read_timeout"], store_timeout() / 4)
    if fs.anon:
        config["signature_version"] = UNSIGNED
        client = {name: value for name, value in client.items() if name not in secrets}
    fs.connect()  # loads the operations, by which s3fs makes arguments
    session = Session(**fs.kwargs)
    # s3fs's session has read botocore's descriptions of S3 already.
    session.register_component("data_loader", fs.session.get_component("data_loader"))
    given = {name: value for name, value in client.items() if value is not None}
    return session.create_client("s3", config=Config(**config), **given)
