"""A bucket that the ledgers of a cluster are offloaded to: where this program finds it, and what brokers note of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext
from ledgerfs_cluster.offload.offload_driver import driver_of_bucket

DEFAULT_BLOCK_SIZE = 64 << 20


@dataclass(frozen=True, slots=True)
class OffloadBucket:
    """A bucket.

    Attributes
    ----------
    name
        In the policy file; "" without one.
    url
        Where it is, such as ``s3://tier``.
    driver, bucket, region, endpoint
        As a broker notes them of an offload, and finds its objects by them.
    block_size
        Bytes of a block of the data object.
    options
        Of the bucket's filesystem.

    """

    name: str
    url: str
    driver: str = "aws-s3"
    bucket: str = ""
    region: str = ""
    endpoint: str = ""
    block_size: int = DEFAULT_BLOCK_SIZE
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def storage_options(self) -> dict[str, Any]:
        """The options of its filesystem, with endpoint and region unless ``options`` have others."""
        told: dict[str, Any] = {}
        if self.url.startswith("s3://") and self.endpoint:
            told["endpoint_url"] = self.endpoint
        if self.url.startswith("s3://") and self.region:
            told["client_kwargs"] = {"region_name": self.region}
        return {**told, **self.options}

    def context(self, uuid: str, now_ms: int) -> OffloadContext:
        """Return the context of an offload to it that is complete."""
        driver = driver_of_bucket(self.driver, self.bucket, self.region, self.endpoint)
        return OffloadContext(uuid, True, False, now_ms, driver.name, driver.properties)

    def is_meant(self, driver: str | None, bucket: str | None, endpoint: str | None) -> bool:
        """Whether a policy or an offload that names these is about this bucket; None where it does not name one."""
        is_driver = driver is None or driver.lower() == self.driver.lower()
        return is_driver and bucket == self.bucket and endpoint in {None, self.endpoint}

    def url_of(self, context: OffloadContext) -> str | None:
        """Return the bucket's URL if the objects of an offload are in it, by what was noted; None if they are elsewhere."""
        endpoint = context.get("serviceEndpoint") or ""
        return self.url if self.is_meant(context.driver, context.get("bucket"), endpoint) else None
