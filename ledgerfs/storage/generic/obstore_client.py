"""obstore's client for a bucket of gcsfs or adlfs, for reads of one version.

A version is a generation (Google) or an ETag (Azure). If obstore lacks an option or is not installed, the filesystem reads without a
version; a debug line contains the reason.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ledgerfs.errors import StaleObjectError
from ledgerfs.storage.failures import replaced
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.obstore_gets import NO_RETRIES, UnexplainedError, client_options, fetch, is_usable
from ledgerfs.storage.retries import store_timeout
from ledgerfs.storage.sent_requests import Sent

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import AzureConfig, AzureStore, GCSCredential, GCSStore

_log = logging.getLogger("ledgerfs.store")

_GOOGLE, _AZURE = ("gcsfs.core", "GCSFileSystem"), ("adlfs.spec", "AzureBlobFileSystem")


@dataclass(frozen=True, slots=True)
class CloudClient:
    """A client of one bucket, and the prefix of its keys; with ``has_generations``, versions are generations."""

    store: "GCSStore | AzureStore"
    prefix: str
    has_generations: bool

    def get(self, request: ReadRequest, sent: Sent, head: Callable[[], object]) -> memoryview:
        """Read the bytes of a request, of its version if it has one; raises as `error_of`.

        After a failed condition, ``head`` shows whether the object was replaced or deleted, which the store's answer does not.
        """
        condition: GetOptions = {}
        if request.version and self.has_generations:
            condition["version"] = request.version
        elif request.version:
            condition["if_match"] = f'"{request.version}"'
        try:
            return fetch(self.store, self.prefix + request.key, request, condition, sent)
        except (StaleObjectError, FileNotFoundError) as error:
            if not request.version:
                raise
            head()
            raise replaced(request.key, request.start) from error


def cloud_client(handle: FsspecHandle, root: str) -> CloudClient | None:
    """Return a client for the folder ``root``; None if the filesystem must read."""
    make = next((made for kind, made in _MAKERS.items() if handle.is_kind(*kind)), None)
    if make is None or not is_usable():
        return None
    bucket, _, prefix = root.partition("/")
    try:
        store = make(handle.fs, bucket)
    except Exception as error:  # noqa: BLE001  (obstore's constructors, or attributes with other names in other versions)
        _log.debug("%s is read through %s and not through obstore: %s", root, handle.cls.__name__, error)
        return None
    return CloudClient(store, f"{prefix}/" if prefix else "", handle.is_kind(*_GOOGLE))


def _google(fs: Any, bucket: str) -> "GCSStore":  # noqa: ANN401  (gcsfs is not typed)
    if fs.requester_pays or fs.session_kwargs or getattr(fs, "_use_client_cert", False):
        raise UnexplainedError("it lacks requester_pays, session_kwargs and client certificates")
    from obstore.store import GCSStore

    base = fs.base.partition("/storage/")[0]
    is_anonymous = fs.credentials.credentials is None

    def credential() -> "GCSCredential":
        fs.credentials.maybe_refresh()
        current = fs.credentials.credentials
        return {"token": current.token, "expires_at": current.expiry and current.expiry.replace(tzinfo=UTC)}

    return GCSStore(
        bucket,
        config={"base_url": base, "skip_signature": is_anonymous},
        client_options=client_options(base, store_timeout() / 4),
        retry_config=NO_RETRIES,
        credential_provider=None if is_anonymous else credential,
    )


def _azure(fs: Any, bucket: str) -> "AzureStore":  # noqa: ANN401  (adlfs is not typed)
    from obstore.store import AzureStore

    service = fs.service_client
    url = urlsplit(service.url)
    endpoint = f"{url.scheme}://{url.netloc}{url.path}".rstrip("/")
    config: AzureConfig = {"account_name": service.account_name, "endpoint": endpoint}
    if key := getattr(service.credential, "account_key", None):
        config["account_key"] = key
    elif url.query:
        config["sas_key"] = url.query
    elif fs.anon:
        config["skip_signature"] = True
    else:
        raise UnexplainedError("it has no account key, no SAS token, and is not anonymous")
    return AzureStore(
        bucket, config=config, client_options=client_options(endpoint, store_timeout() / 4), retry_config=NO_RETRIES
    )


_MAKERS: dict[tuple[str, str], Callable[[Any, str], "GCSStore | AzureStore"]] = {_GOOGLE: _google, _AZURE: _azure}
