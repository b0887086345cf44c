"""A bucket that the ledgers of a cluster are offloaded to: its URL, and the values that brokers record."""

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
        Name in the policy file; "" without one.
    url
        Its URL, such as ``s3://tier``.
    driver, bucket, region, endpoint
        Values that a broker records in an offload and finds its objects by.
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
        reported: dict[str, Any] = {}
        if self.url.startswith("s3://") and self.endpoint:
            reported["endpoint_url"] = self.endpoint
        if self.url.startswith("s3://") and self.region:
            reported["client_kwargs"] = {"region_name": self.region}
        return {**reported, **self.options}

    def context(self, uuid: str, now_ms: int) -> OffloadContext:
        """Return the context of a complete offload to this bucket."""
        driver = driver_of_bucket(self.driver, self.bucket, self.region, self.endpoint)
        return OffloadContext(uuid, True, False, now_ms, driver.name, driver.properties)

    def is_meant(self, driver: str | None, bucket: str | None, endpoint: str | None) -> bool:
        """Return whether the values of a policy or an offload mean this bucket; a driver or endpoint of None matches any."""
        is_driver = driver is None or driver.lower() == self.driver.lower()
        return is_driver and bucket == self.bucket and endpoint in {None, self.endpoint}

    def url_of(self, context: OffloadContext) -> str | None:
        """Return the bucket's URL if an offload's recorded values mean this bucket; None if they mean another."""
        endpoint = context.get("serviceEndpoint") or ""
        return self.url if self.is_meant(context.driver, context.get("bucket"), endpoint) else None
