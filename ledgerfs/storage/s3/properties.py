"""Preserve the properties of an S3 object (other than bytes and user metadata) when it is copied onto itself.

S3 changes user metadata only by a copy, and a copy has only the properties that its request names: otherwise the bucket's default
encryption, no content type and, if copied in parts, no tags. An object with a property that a request cannot set is not copied.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ledgerfs.errors import AccessDeniedError, LedgerfsError, ObjectNotFoundError, StoreError, UnsupportedWriteError
from ledgerfs.storage.failures import code_of, status_of
from ledgerfs.storage.sent_requests import Asked

if TYPE_CHECKING:
    from ledgerfs.storage.s3.store import S3Store

_CARRIED = (
    "BucketKeyEnabled",
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
    "SSEKMSKeyId",
    "ServerSideEncryption",
    "StorageClass",
    "WebsiteRedirectLocation",
)
"""Properties by botocore's names, which are equal in the answer to a HEAD and in a copy request."""

_UNKNOWN_TO_STORE = frozenset({"NotImplemented", "XNotImplemented"})


@dataclass(frozen=True, slots=True)
class S3Properties:
    """The properties of one object.

    Attributes
    ----------
    headers
        Request arguments that give an object the same encryption, storage class and headers.
    tags
        Names and values, in botocore's form.

    """

    headers: Mapping[str, Any]
    tags: tuple[tuple[str, str], ...]

    @property
    def tagging(self) -> dict[str, str]:
        """Request arguments that give an object the same tags."""
        return {"Tagging": urlencode(self.tags)} if self.tags else {}

    def missing_in(self, other: "S3Properties") -> list[str]:
        """Return the names of properties that another object lacks or has with other values."""
        # The bucket key only makes requests cheaper.
        reported = self.headers.items() - {("BucketKeyEnabled", True)}
        names = sorted(name for name, value in reported if other.headers.get(name) != value)
        return names if sorted(self.tags) == sorted(other.tags) else [*names, "tags"]


def read_properties(store: "S3Store", key: str, version: str) -> S3Properties:
    """Request the properties of an object of version ``version`` (``""``: any), with a HEAD and a GET of its tags.

    Raises `UnsupportedWriteError` if a copy would lose properties, `AccessDeniedError` if the store refuses to return the tags, and
    `StaleObjectError` for another version.
    """
    match: dict[str, Any] = {"IfMatch": version} if version else {}
    head = store.request(Asked("HEAD", key), "head_object", Key=key, **match)
    _require_copyable(key, head)
    headers = {name: head[name] for name in _CARRIED if head.get(name)}
    return S3Properties(headers, _tags_of(store, key))


def _require_copyable(key: str, head: Mapping[str, Any]) -> None:
    reason = None
    if head.get("SSECustomerAlgorithm"):
        reason = "it is encrypted with a key that only its owner has (SSE-C)"
    elif head.get("ObjectLockMode") or head.get("ObjectLockLegalHoldStatus") == "ON" or head.get("ObjectLockEventHold"):
        reason = "it is locked (object lock); the copy would be another version beside it"
    elif head.get("MissingMeta"):
        reason = f"{head['MissingMeta']} of its user metadata cannot be read"
    elif head.get("ExpiresString") and not head.get("Expires"):
        reason = f"its header Expires is not a time: {head['ExpiresString']!r}"
    if reason is not None:
        raise UnsupportedWriteError(
            f"user metadata cannot be changed without a loss: {reason}; copy the object with new user metadata", key=key
        )


def _tags_of(store: "S3Store", key: str) -> tuple[tuple[str, str], ...]:
    try:
        answer = store.request(Asked("GET", key), "get_object_tagging", Key=key)
    except ObjectNotFoundError:
        raise
    except (AccessDeniedError, StoreError) as error:
        cause = error.__cause__ or error
        if status_of(cause) == 501 or code_of(cause) in _UNKNOWN_TO_STORE:
            return ()  # a store without tags
        kind: type[LedgerfsError] = type(error)
        reason = f"user metadata cannot be changed without a loss: its tags cannot be read (s3:GetObjectTagging): {error.reason}"
        raise kind(reason, key=key) from error
    return tuple((tag["Key"], tag["Value"]) for tag in answer.get("TagSet", ()))
