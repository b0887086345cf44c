"""botocore's own client, made from the options of s3fs.

If botocore does not know all of them (a session or a connector), s3fs's own client is used.
"""

import os
import re
from typing import Any

from ledgerfs.forked import ForkLock
from ledgerfs.storage.retries import store_timeout
from ledgerfs.storage.s3.direct_get import LeanGet

_ONLY_AIOHTTP = frozenset({"connector_args", "http_session_cls"})
_ILLEGAL = re.compile(
    rb"&#(?:[xX]0*(?:[0-8bBcCeEfF]|1[0-9a-fA-F])|0*(?:[0-8]|1[1245-9]|2[0-9]|3[01]));|[\x00-\x08\x0b\x0c\x0e-\x1f]"
)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
_LISTING = b"<ListBucketResult"
_EVENT = "before-parse.s3.ListObjectsV2"


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


def accept_control_characters(client: Any) -> None:  # noqa: ANN401  (botocore is not typed)
    """Have a client replace control characters in the answers to its listings; once for each client, however often it is called.

    XML cannot express them in a key, and some stores send them all the same: one such key would make the whole bucket unreadable. They
    become U+FFFD; no object of Pulsar has one.
    """
    client.meta.events.register_last(_EVENT, _replace, unique_id="ledgerfs-listing-characters")


def _replace(response_dict: dict[str, Any], **_: object) -> None:
    body = response_dict["body"]
    if _LISTING in body[:1024] and _ILLEGAL.search(body):
        # botocore has made 500 of the status, since the body could not be parsed.
        response_dict.update(status_code=200, body=_ILLEGAL.sub(_REPLACEMENT, body))
