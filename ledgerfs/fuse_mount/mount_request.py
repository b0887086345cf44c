"""The request for a mount, which the command sends to the serving process through a pipe, since it contains credentials."""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.url_filesystem import require_url

if TYPE_CHECKING:
    from ledgerfs.bucket.current_catalog import OnUnreadable


@dataclass(frozen=True, slots=True)
class MountRequest:
    """One mount. All paths are absolute.

    Attributes
    ----------
    storage_options
        Options of the bucket's filesystem; never shown.
    fuse_options
        Options of libfuse and the kernel, by name; flags are True.
    scan_options
        As in `open_bucket`.
    env_file
        File with further variables, such as credentials; the serving process reads it.
    write
        Whether files may be copied into ``entries``.
    refresh
        Maximum age of a listing, seconds.
    layout, on_unreadable
        As in `open_bucket`.
    log_file
        Log file; None for the cache folder (`log_path`).

    """

    url: str = field(repr=False)
    mountpoint: str
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False)
    fuse_options: dict[str, Any] = field(default_factory=dict)
    cache_dir: str | None = None
    env_file: str | None = None
    write: bool = False
    refresh: float = 60.0
    block_size: int | None = None
    log_file: str | None = None
    pid_file: str | None = None
    trace: bool = False
    stats: bool = False
    layout: str = AUTO
    on_unreadable: "OnUnreadable" = "raise"
    scan_options: dict[str, Any] = field(default_factory=dict)

    @property
    def shown_url(self) -> str:
        """The URL without credentials."""
        return without_credentials(self.url)

    def as_json(self) -> str:
        """Return the request as text for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "MountRequest":
        """Return the request in a text from `as_json`."""
        return cls(**json.loads(text))


def absolute_url(url: str) -> str:
    """Return a bucket's URL with an absolute path; raises `UnusableUrlError` for an invalid URL."""
    require_url(url)
    for prefix in ("file://", "local://"):
        if url.startswith(prefix) and "::" not in url:
            return prefix + os.path.abspath(url.removeprefix(prefix))  # noqa: PTH100  (text in, text out)
    return url if "://" in url or "::" in url else os.path.abspath(url)  # noqa: PTH100
