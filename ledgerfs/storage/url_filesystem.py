"""Open fsspec's filesystem for a URL, with errors of ledgerfs."""

import re
from collections.abc import Mapping
from typing import Any

import fsspec

from ledgerfs.errors import UnusableUrlError
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.failures import translate

_ONE_SLASH = re.compile(r"(?!file:|local:)([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "az": "azure"}


def filesystem_of(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the filesystem, and its path for the URL, which need not exist.

    Raises `UnusableUrlError` as `require_url` does, and if no filesystem can open the URL; otherwise the errors of a store
    (`AccessDeniedError`, `StoreError`, …).
    """
    require_url(url)
    key = without_credentials(url)
    try:
        fs, root = fsspec.core.url_to_fs(url, **storage_options)
    except ImportError as error:
        extra = _EXTRAS.get(url.partition("://")[0])
        hint = f"pip install '.[{extra}]' in a clone" if extra else "install that library"
        raise UnusableUrlError(f"{error}; {hint}", key=key) from error
    except OSError as error:
        raise translate(error, key) from error
    except Exception as error:
        raise UnusableUrlError(without_credentials(str(error)), key=key) from error
    return fs, root


def require_url(url: str) -> None:
    """Raise `UnusableUrlError` for texts that fsspec would mistake for a local folder: an empty one, ``-``, ``s3:/tier``."""
    if not url.strip():
        raise UnusableUrlError("the URL, or path, is empty")
    if url == "-":
        raise UnusableUrlError("a stream (-) is not accepted here; write ./- for a folder named -", key=url)
    match = _ONE_SLASH.match(url)
    if match is not None:
        raise UnusableUrlError(
            f"a slash is missing: {match[1]}://…; write ./{match[1]}: for a folder named {match[1]}:",
            key=match[1] + ":",
        )
