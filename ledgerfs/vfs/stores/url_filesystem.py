"""fsspec's filesystem of a URL, whatever that raises told in our own errors."""

from collections.abc import Mapping
from typing import Any

import fsspec

from ledgerfs.errors import UnusableUrlError
from ledgerfs.vfs.credentials import without_credentials
from ledgerfs.vfs.stores.failures import translate

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "az": "azure"}


def filesystem_of(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the filesystem, and its own path of what the URL names, which need not be there.

    Raises `UnusableUrlError` where no filesystem can open it, else what a store raises (`AccessDeniedError`, `StoreError`, …).
    """
    key = without_credentials(url)
    try:
        fs, root = fsspec.core.url_to_fs(url, **storage_options)
    except ImportError as error:
        extra = _EXTRAS.get(url.partition("://")[0])
        hint = f"pip install 'ledgerfs[{extra}]'" if extra else "install the library that it names"
        raise UnusableUrlError(f"{error}; {hint}", key=key) from error
    except OSError as error:
        raise translate(error, key) from error
    except Exception as error:
        raise UnusableUrlError(without_credentials(str(error)), key=key) from error
    return fs, root
