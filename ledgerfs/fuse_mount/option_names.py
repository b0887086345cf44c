"""The options of ``-o``: for the mount, libfuse, the storage, the scans of its tables, and other programs.

``/etc/fstab`` has one list for all of them, so the name selects the group.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from ledgerfs.errors import MountpointError
from ledgerfs.scan.options import OF_VALUES, SCAN_OPTIONS

MOUNT_FLAGS = frozenset({"write", "trace", "stats"})
MOUNT_VALUES = frozenset(
    {"cache_dir", "refresh", "block_size", "log_file", "pid_file", "env_file", "layout", "on_unreadable"}
)
"""Options of ``ledgerfs mount``, as in ``/etc/fstab``."""

SCAN_FLAGS = frozenset({"flatten"})
SCAN_VALUES = frozenset({*OF_VALUES})
"""Options of the mounted table files, as in ``scan_options`` of `open_bucket`."""
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_FUSE_FLAGS = frozenset(
    {"allow_other", "allow_root", "auto_unmount", "default_permissions", "direct_io", "kernel_cache", "nodev", "noexec", "nosuid"}
)  # fmt: skip
_FUSE_VALUES = frozenset({"attr_timeout", "entry_timeout", "gid", "negative_timeout", "uid", "umask"})
_IGNORED_TEXT = """
    _netdev async atime auto defaults dev diratime dirsync exec group iversion lazytime loud mand netdev noatime noauto nodiratime nofail
    noiversion nolazytime nomand norelatime nostrictatime nouser owner relatime rw silent strictatime suid sync user users
"""
_IGNORED = frozenset(_IGNORED_TEXT.split())
_IGNORED_VALUES = frozenset({"comment", "helper", "uhelper", "user"})
_MEANT = (*(name for name in SCAN_OPTIONS if name != "key"), *sorted(MOUNT_VALUES - {"block_size"}))
"""Corrections for typos. Excludes names that resemble filesystem options: sizes such as ``blocksize``, times, ``key`` of s3fs."""
_OPENING, _CLOSING = "{[", "}]"


@dataclass(frozen=True, slots=True)
class SortedOptions:
    """Options sorted by their purpose.

    Attributes
    ----------
    mount
        ``write``, ``refresh=5m``.
    fuse
        Options of libfuse; flags are True.
    storage
        ``KEY=VALUE``, unchecked.
    scan
        ``flatten``, ``values=typed``, unchecked.

    """

    mount: list[str]
    fuse: dict[str, str | bool]
    storage: list[str]
    is_read_only: bool = False
    may_hide_files: bool = False
    scan: list[str] = field(default_factory=list)

    @property
    def scan_options(self) -> dict[str, str | bool]:
        """The scan options by name; flags are True or False. Raises `MountpointError` for other values of a flag."""
        found: dict[str, str | bool] = {}
        for option in self.scan:
            name, equals, value = option.partition("=")
            found[name] = value if name not in SCAN_FLAGS else _flag(option, value) if equals else True
        return found


def sort_options(options: Iterable[str]) -> SortedOptions:
    """Sort options by their purpose.

    Raises `MountpointError` for an unknown word, an empty or unexpected value, and a misspelt option of the mount or its tables, since
    filesystems silently accept any name.
    """
    mount: list[str] = []
    fuse: dict[str, str | bool] = {}
    storage: list[str] = []
    scan: list[str] = []
    words: set[str] = set()
    for option in options:
        name, equals, value = option.partition("=")
        if equals and not value.strip() and not _is_for_others(name, has_value=True):
            raise MountpointError("has no value; is a shell variable not set?", key=f"-o {option}")
        if name in (MOUNT_VALUES if equals else MOUNT_FLAGS):
            mount.append(option)
        elif name in (SCAN_VALUES if equals else SCAN_FLAGS):
            scan.append(option)
        elif name in (_FUSE_VALUES if equals else _FUSE_FLAGS):
            fuse[name] = value if equals else True
        elif name in {"ro", "nonempty"} and not equals:
            words.add(name)
        elif not _is_for_others(name, has_value=bool(equals)):
            if not (name and equals):
                raise MountpointError("not an option of the mount, and not KEY=VALUE", key=f"-o {option}")
            _require_of_storage(option, name)
            storage.append(option)
    return SortedOptions(mount, fuse, storage, "ro" in words, "nonempty" in words, scan)


def split_options(text: str) -> list[str]:
    """Split a list at commas, except inside quotes and brackets."""
    options, depth, is_quoted = [""], 0, False
    for character in text:
        if character == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (character in _OPENING) - (character in _CLOSING)
            if character == "," and depth <= 0:
                options.append("")
                continue
        options[-1] += character
    return [option for option in options if option]


def _require_of_storage(option: str, name: str) -> None:
    if name in {*MOUNT_FLAGS, *_FUSE_FLAGS, "ro", "nonempty"}:
        raise MountpointError(f"{name} accepts no value", key=f"-o {option}")
    plain = name.lower().replace("-", "_")
    near = difflib.get_close_matches(plain, _MEANT, n=1, cutoff=0.85)
    if near and near[0] in SCAN_OPTIONS and near[0] not in SCAN_VALUES:
        known = ", ".join(OF_VALUES)
        raise MountpointError(
            f"{near[0]} is not an option for the tables of a mount; these are {known}", key=f"-o {option}"
        )
    if near:
        raise MountpointError(f"no such option; did you mean {near[0]}?", key=f"-o {option}")


def _flag(option: str, value: str) -> bool:
    flag = _BOOLEANS.get(value.lower())
    if flag is None:
        raise MountpointError(f"expected one of {', '.join(_BOOLEANS)}", key=f"-o {option}")
    return flag


def _is_for_others(name: str, *, has_value: bool) -> bool:
    """Whether mount(8), systemd, or the kernel's local file systems use an option."""
    return name.startswith(("x-", "X-")) or name in (_IGNORED_VALUES if has_value else _IGNORED)
