"""A handle of one fsspec filesystem that survives forks, threads and pickling.

fsspec's asynchronous filesystems refuse to work in a forked child, and its synchronous ones serve one thread each.
So the handle keeps the filesystem's class and arguments; fsspec's instance cache returns an existing instance.
"""

from dataclasses import dataclass
from typing import Any

_MAX_POOL_CONNECTIONS = 64


@dataclass(frozen=True, slots=True, repr=False)
class FsspecHandle:
    """The class and arguments of a filesystem. The repr omits the arguments, which may hold credentials."""

    cls: type
    args: tuple[Any, ...]
    options: dict[str, Any]

    @classmethod
    def of(cls, fs: Any) -> "FsspecHandle":  # noqa: ANN401  (fsspec is not typed)
        """Return the handle of a filesystem, for any loop and thread."""
        options = {name: value for name, value in fs.storage_options.items() if name not in {"asynchronous", "loop"}}
        handle = cls(type(fs), tuple(fs.storage_args), options)
        if handle.is_kind("s3fs.core", "S3FileSystem"):
            # botocore's default of 10 connections makes concurrent reads wait, and its own retries multiply with ours.
            config = {
                "max_pool_connections": _MAX_POOL_CONNECTIONS,
                "retries": {"max_attempts": 0},
                **(options.get("config_kwargs") or {}),
            }
            handle = cls(handle.cls, handle.args, {**options, "config_kwargs": config})
        return handle

    @property
    def fs(self) -> Any:  # noqa: ANN401  (fsspec is not typed)
        """The filesystem for this process and, if it is synchronous, for this thread."""
        options = self.options
        if "config_kwargs" in options:
            # botocore changes dictionaries in it; fsspec would then not find its cached instance.
            given = options["config_kwargs"] or {}
            copied = {name: dict(value) if isinstance(value, dict) else value for name, value in given.items()}
            options = {**options, "config_kwargs": copied}
        return self.cls(*self.args, **options)

    def is_kind(self, module: str, name: str) -> bool:
        """Return whether the filesystem is of the class ``module.name`` or a subclass, without importing it."""
        return any(base.__module__ == module and base.__name__ == name for base in self.cls.__mro__)

    def __repr__(self) -> str:
        return f"FsspecHandle({self.cls.__name__})"
