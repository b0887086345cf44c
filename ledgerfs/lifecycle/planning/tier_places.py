"""In which bucket of the policy file the objects of an offload are, by what its broker noted."""

from ledgerfs.clusters.policies import OffloadTarget
from ledgerfs.clusters.survey import Survey
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Properties
from ledgerfs.lifecycle.policy.policy_file import PolicyFile
from ledgerfs.lifecycle.policy.topic_rules import bucket_of


class TierPlaces:
    """Tells the URLs of buckets; most offloads of a cluster are in few."""

    __slots__ = ("_urls",)

    def __init__(self, survey: Survey, file: PolicyFile) -> None:
        self._urls = [url_of(file, driver, properties) for driver, properties in survey.drivers]

    def url(self, driver: int) -> str | None:
        """Return the URL of the bucket of a row of `Survey.drivers`; None if the file has no such bucket, or several."""
        return None if driver < 0 else self._urls[driver]


def url_of(file: PolicyFile, driver: str | None, properties: Properties) -> str | None:
    """Return the URL of the bucket of a policy file that has the objects of an offload, by what was noted; None as `TierPlaces.url`."""
    told = dict(properties)
    bucket = told.get("bucket")
    if not bucket:
        return None
    # An offload without an endpoint is at its driver's own, and nowhere else.
    target = OffloadTarget(driver, bucket, endpoint=told.get("serviceEndpoint", ""))
    found = bucket_of(file, target)
    return None if found is None else found.url
