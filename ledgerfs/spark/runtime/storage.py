"""Open a bucket in each of Spark's processes: the driver, the planner, and the workers.

Logs and the UI may show the plan, which contains a user's options, so options must not contain credentials. Credentials come from Hadoop's
settings, which Spark sends to every task, and from the AWS conventions. Credentials from Python code travel inside pickled functions, which
are not printed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cachetools import LRUCache
from pyspark import TaskContext
from pyspark.sql import SparkSession

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.current_catalog import OnUnreadable
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.catalog.source import scheme_of
from ledgerfs.errors import InvalidOptionError
from ledgerfs.forked import ForkLock
from ledgerfs.spark.runtime.hadoop_settings import only_s3, s3_options, settings_of_files
from ledgerfs.storage.credentials import find_credential, without_credentials

_MOST_BUCKETS = 16
_buckets: "LRUCache[str, Bucket]" = LRUCache(_MOST_BUCKETS)
_lock = ForkLock()


@dataclass(frozen=True, slots=True, repr=False)
class Storage:
    """A bucket's URL and filesystem options. Can be pickled; its repr shows only the URL.

    Attributes
    ----------
    url
        As in `ledgerfs.open_bucket`; ``s3a://`` also means S3. A relative path becomes absolute at once, since workers have other working
        directories.
    options
        The user's options for the URL's filesystem.
    settings
        Hadoop settings of a session (`ledgerfs.spark.register`); ``options`` take precedence.
    cache_dir, catalog_max_age, layout, on_unreadable
        As in `open_bucket`.

    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    cache_dir: str | None = None
    catalog_max_age: float | None = None
    layout: str = AUTO
    on_unreadable: OnUnreadable = "raise"

    def __post_init__(self) -> None:
        """Make a relative path absolute."""
        if self.url.strip() and "://" not in self.url and "::" not in self.url:
            object.__setattr__(self, "url", str(Path(self.url).absolute()))

    def __repr__(self) -> str:
        return f"Storage({without_credentials(self.url)!r})"

    @property
    def filesystem_options(self) -> dict[str, Any]:
        """Filesystem options in this process, with credentials from Hadoop's settings."""
        return {**s3_options(self.url, self._known_settings()), **self.options}

    def with_settings(self, settings: Mapping[str, str]) -> "Storage":
        """Return the storage with a session's S3 settings added; existing settings take precedence."""
        return replace(self, settings={**settings, **self.settings})

    def of_task(self, rate: int | None, tasks: int) -> "Storage":
        """Return the storage for one of ``tasks`` concurrent tasks, which together read ``rate`` bytes/s from each server.

        Without ``rate``, the default of the source applies, unless the user has set the rate of each process. Buckets have no rate.
        """
        scheme = scheme_of(self.url)
        return self if scheme is None else replace(self, options=scheme.options_of_task(self.options, rate, tasks))

    def bucket(self) -> Bucket:
        """Return the bucket, one per process and storage, so that all tasks share its connections, caches and catalog."""
        reported = json.dumps(
            [self.url, self.filesystem_options, self.cache_dir, self.catalog_max_age, self.layout, self.on_unreadable],
            sort_keys=True,
            default=repr,
        )
        with _lock:
            bucket = _buckets.get(reported)
            if bucket is None:
                bucket = _buckets[reported] = self.open()
            return bucket

    def open(self) -> Bucket:
        """Open the bucket again: its first use lists it, unless ``catalog_max_age`` allows an older listing."""
        options = self.filesystem_options
        return open_bucket(
            self.url,
            options,
            cache_dir=self.cache_dir,
            catalog_max_age=self.catalog_max_age,
            layout=self.layout,
            on_unreadable=self.on_unreadable,
        )

    def _known_settings(self) -> dict[str, str]:
        context = TaskContext.get()
        of_task = dict(context._localProperties) if context is not None and context._localProperties else {}  # noqa: SLF001  (which has no other list)
        return {**settings_of_files(), **of_task, **self.settings}


def storage_of(spark: SparkSession, where: Storage | str) -> Storage:
    """Return a storage or URL as a `Storage` with the session's S3 settings, for tasks and for this process."""
    storage = Storage(where) if isinstance(where, str) else where
    return storage.with_settings(session_settings(spark))


def session_settings(spark: SparkSession) -> dict[str, str]:
    """Return a session's S3 settings, from its configuration and from Hadoop's files."""
    pairs = spark.sparkContext.getConf().getAll()
    return {**settings_of_files(), **only_s3(pairs)}


def require_no_credentials(options: Mapping[str, Any]) -> None:
    """Raise `InvalidOptionError` for options that would show a credential in plans and logs (`ledgerfs.storage.credentials`)."""
    name = find_credential(options)
    if name is not None:
        raise InvalidOptionError(
            "do not pass credentials as options, because query plans and logs show these; set them as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, as a role of the machine, or as Hadoop's fs.s3a.access.key and fs.s3a.secret.key",
            key=name,
        )
