"""The request for a mount, which goes from the command to the process that serves it: through a pipe, since it has credentials."""

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
        Of the bucket's filesystem; never shown.
    fuse_options
        Of libfuse and the kernel, by their names; flags are True.
    scan_options
        As in `open_bucket`.
    env_file
        File with further variables, such as credentials; read by the process that serves.
    write
        Whether files may be copied into ``entries``.
    refresh
        How old a listing may be, seconds.
    layout, on_unreadable
        As in `open_bucket`.
    log_file
        None for the one in the cache folder (`log_path`).

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
        """Return it as text for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "MountRequest":
        """Return what `as_json` wrote."""
        return cls(**json.loads(text))


def absolute_url(url: str) -> str:
    """Return a bucket's URL that means the same in another folder; raises `UnusableUrlError` for an invalid one."""
    require_url(url)
    for prefix in ("file://", "local://"):
        if url.startswith(prefix) and "::" not in url:
            return prefix + os.path.abspath(url.removeprefix(prefix))  # noqa: PTH100  (text in, text out)
    return url if "://" in url or "::" in url else os.path.abspath(url)  # noqa: PTH100
