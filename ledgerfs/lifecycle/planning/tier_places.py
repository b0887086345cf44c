"""In which bucket of the policy file the objects of an offload are, by what its broker noted."""

from ledgerfs.clusters.policies import OffloadTarget
from ledgerfs.clusters.survey import Survey
from ledgerfs.lifecycle.policy.policy_file import PolicyFile
from ledgerfs.lifecycle.policy.topic_rules import bucket_of


class TierPlaces:
    """Tells the URLs of buckets; most offloads of a cluster are in few."""

    __slots__ = ("_urls",)

    def __init__(self, survey: Survey, file: PolicyFile) -> None:
        self._urls = [_url(driver, dict(properties), file) for driver, properties in survey.drivers]

    def url(self, driver: int) -> str | None:
        """Return the URL of the bucket of a row of `Survey.drivers`; None if the file has no such bucket, or several."""
        return None if driver < 0 else self._urls[driver]


def _url(driver: str | None, properties: dict[str, str], file: PolicyFile) -> str | None:
    bucket = properties.get("bucket")
    if not bucket:
        return None
    # An offload without an endpoint is at its driver's own, and nowhere else.
    target = OffloadTarget(driver, bucket, endpoint=properties.get("serviceEndpoint", ""))
    found = bucket_of(file, target)
    return None if found is None else found.url
