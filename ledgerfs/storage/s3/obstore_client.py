"""obstore's client for one bucket, configured like s3fs's client.

Copies from s3fs's client the address of the bucket (style, region, endpoint), credentials, proxy, certificates, and the arguments that s3fs
adds to a GET. If obstore does not support one of them, s3fs's client makes all reads; a debug line contains the reason.
"""

import asyncio
import base64
import logging
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.obstore_gets import NO_RETRIES, UnexplainedError, client_options, fetch, is_usable
from ledgerfs.storage.reading_threads import ReadingThreads
from ledgerfs.storage.retries import store_timeout

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, S3Config, S3Credential, S3Store

    from ledgerfs.storage.sent_requests import Sent

_log = logging.getLogger("ledgerfs.store")

MOST_READS = 48
"""At the same time, of all buckets."""

THREADS = ReadingThreads(MOST_READS, "ledgerfs-s3")
_KNOWN_ARGUMENTS = frozenset({"Bucket", "Key", "RequestPayer", "SSECustomerAlgorithm", "SSECustomerKey", "SSECustomerKeyMD5"})  # fmt: skip
_ONLY_AIOHTTP = frozenset({"connector_args", "http_session_cls"})


class ObstoreClient:
    """The client of one bucket, created on first use in an event loop; None if obstore cannot be used."""

    __slots__ = ("_bucket", "_client", "_is_given_up", "_options")

    def __init__(self, bucket: str, options: dict[str, Any]) -> None:
        self._bucket = bucket
        self._options = options
        self._client: S3Store | None = None
        self._is_given_up = False

    @property
    def made(self) -> "S3Store | None":
        """The client if `of` has made one, and this process can use it."""
        return None if self._is_given_up or self._client is None or not is_usable() else self._client

    async def of(self, fs: Any) -> "S3Store | None":  # noqa: ANN401  (s3fs is not typed)
        """Return the client, or None if obstore does not support all options of the filesystem."""
        if self._is_given_up or not is_usable():
            return None
        if self._client is None:
            try:
                self._client = await _make_client(fs, self._bucket, self._options)
            except UnexplainedError as error:
                self.give_up(str(error))
        return self._client

    def give_up(self, reason: str) -> None:
        """Use s3fs's client for all reads, until `forget`."""
        self._is_given_up = True
        _log.debug("%s is read through s3fs and not through obstore: %s", self._bucket, reason)

    def forget(self) -> None:
        """Drop the client, so that the next use creates one with current options and credentials."""
        self._client, self._is_given_up = None, False


def condition_of(request: ReadRequest, *, is_matched: bool) -> "GetOptions":
    """Return the condition of a GET: with ``is_matched`` only of the request's version."""
    return {"if_match": request.version} if is_matched else {}


async def get(client: "S3Store", key: str, request: ReadRequest, sent: "Sent", *, is_matched: bool) -> memoryview:
    """Read the bytes of a request from the object ``key``; with ``is_matched`` only of its version. Raises as `error_of`.

    Reads in a thread, which waits once for the header and once for the body: half the processor time of tasks. After a cancellation, the
    thread continues until the store sends something or the client's time-out ends.
    """
    reading: list[ReadRequest] = [request]
    condition = condition_of(request, is_matched=is_matched)
    try:
        return await asyncio.wrap_future(
            THREADS.start(fetch, client, key, request, condition, sent, is_wanted=lambda: bool(reading))
        )
    finally:
        reading.clear()


async def _make_client(fs: Any, bucket: str, options: dict[str, Any]) -> "S3Store":  # noqa: ANN401
    """Make the client; raises `UnexplainedError` with the option that obstore lacks."""
    client = await fs.get_s3(bucket)
    arguments = fs._get_s3_method_kwargs(client.get_object, Bucket=bucket, Key="k")  # noqa: SLF001
    operation, params = client.meta.service_model.operation_model("GetObject"), {"Bucket": bucket, "Key": "k"}
    context = {
        "client_region": client.meta.region_name,
        "client_config": client.meta.config,
        "auth_type": operation.auth_type,
    }
    # A presigned URL may have another address.
    url, _, _ = await client._resolve_endpoint_ruleset(operation, params, context)  # noqa: SLF001
    session = client._endpoint.http_session  # noqa: SLF001  (only here are resolved proxies and certificates)
    if lacking := _lacking(client, session, url, arguments, options):
        raise UnexplainedError(lacking)
    from obstore.store import S3Store

    is_path_style = urlsplit(url).path.endswith(f"/{bucket}")
    endpoint = url.removesuffix(f"/{bucket}") if is_path_style else url
    region = client.meta.region_name
    config: S3Config = {
        # Set both names, since obstore also reads the other one from the environment.
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "virtual_hosted_style_request": not is_path_style,
        "region": "us-east-1" if region in {None, "aws-global"} else region,
        "skip_signature": not isinstance(client.meta.config.signature_version, str),
        "request_payer": arguments.get("RequestPayer") == "requester",
    }
    if "SSECustomerKey" in arguments:
        secret = arguments["SSECustomerKey"]
        secret = secret.encode() if isinstance(secret, str) else secret
        config |= {
            "server_side_encryption": "sse-c",
            "sse_customer_key_base64": base64.b64encode(secret).decode(),
        }
    provider = None if config["skip_signature"] else _Credentials(client, fs.loop)
    try:
        return S3Store(
            bucket,
            config=config,
            client_options=_transport(client, session, url),
            retry_config=NO_RETRIES,
            credential_provider=provider,
        )
    except Exception as error:
        raise UnexplainedError(str(error).partition("\n")[0]) from error


def _lacking(client: Any, session: Any, url: str, arguments: dict[str, Any], options: dict[str, Any]) -> str:  # noqa: ANN401
    """Return the options that obstore does not support, as text; empty if it supports all."""
    from botocore import UNSIGNED
    from botocore.utils import get_environ_proxies

    bucket: str = arguments["Bucket"]
    config = client.meta.config
    proxies, scheme = session._proxy_config, urlsplit(url).scheme  # noqa: SLF001
    given = options.get("config_kwargs") or {}
    reasons = {
        "an access point": ":" in bucket,
        "S3 Express": bucket.endswith("--x-s3"),
        "a session of your own": bool(options.get("session")),
        "options of aiohttp": bool(_ONLY_AIOHTTP & set(given)),
        f"signature version {config.signature_version}": config.signature_version not in {"s3v4", UNSIGNED},
        "other arguments of a GET": not set(arguments) <= _KNOWN_ARGUMENTS,
        "a client certificate": session._cert_file is not None,  # noqa: SLF001
        "certificates in a folder": isinstance(session._verify, str) and not Path(session._verify).is_file(),  # noqa: SLF001
        "settings of a proxy": bool(proxies.settings),
        "a proxy of the environment that is turned off": (
            proxies.proxy_url_for(url) is None and scheme in get_environ_proxies(url)
        ),
    }
    return ", ".join(reason for reason, is_so in reasons.items() if is_so)


def _transport(client: Any, session: Any, url: str) -> "ClientConfig":  # noqa: ANN401
    config = client.meta.config
    options = client_options(url, min(config.read_timeout, store_timeout() / 4), config.connect_timeout)
    verify, proxy = session._verify, session._proxy_config.proxy_url_for(url)  # noqa: SLF001
    if verify is False:
        options["allow_invalid_certificates"] = True
    elif isinstance(verify, str):
        options["root_certificate"] = Path(verify).read_bytes()
    if proxy is not None:
        options["proxy_url"] = proxy
    return options


class _Credentials:
    """The current credentials of s3fs's client: key, secret and token, which botocore renews before they expire."""

    __slots__ = ("_client", "_loop")

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop) -> None:  # noqa: ANN401
        self._client = client
        self._loop = loop

    def __call__(self) -> "S3Credential":
        credentials = self._client._request_signer._credentials  # noqa: SLF001  (no public API)
        frozen = asyncio.run_coroutine_threadsafe(credentials.get_frozen_credentials(), self._loop).result()
        ends = getattr(credentials, "_expiry_time", None)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": ends and ends.astimezone(UTC),
        }
