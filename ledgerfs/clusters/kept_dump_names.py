"""Names of dumps that are kept beside a bucket: all that has to be known of one without reading it.

``_ledgerfs/dumps/<cluster>/<time>-full-<digest>.json.zst`` is a dump as `ledgerfs.clusters.dump_file` has it. The digest is the beginning
of the object's SHA-256: a name can only mean these bytes, so two dumpers that know nothing of each other never have one name for two
dumps, and an incomplete object is not taken for a dump.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from ledgerfs.storage.objects import ObjectStat

FOLDER = "_ledgerfs/dumps/"
"""Where dumps are in a bucket; a folder in it for each cluster."""

DIGITS = 32
"""Of a digest, in names."""

_SUFFIX = ".json.zst"
_STAMP = r"[0-9]{8}T[0-9]{9}Z"
_DIGEST = rf"[0-9a-f]{{{DIGITS}}}"
_NAME = re.compile(rf"(?P<time>{_STAMP})-full-(?P<digest>{_DIGEST}){re.escape(_SUFFIX)}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 250_000_000_000_000
"""The year 9892: there is a time behind each."""


@dataclass(frozen=True, slots=True)
class KeptDump:
    """A dump as a listing of the bucket shows it.

    Attributes
    ----------
    cluster
        Whose it is: the name of its folder (`cluster_folder`).
    taken_ms
        When it was begun, ms since 1970 UTC: what was there before is in it. Dumps of a cluster ascend by it, also if the clock went back.
    digest
        With what the object's SHA-256 begins.
    stat
        The object.

    """

    cluster: str
    taken_ms: int
    digest: str
    stat: ObjectStat

    @property
    def key(self) -> str:
        """The object's key."""
        return self.stat.key


def kept_dump_key(cluster: str, taken_ms: int, digest: str) -> str:
    """Return the key of a dump."""
    return f"{FOLDER}{cluster}/{_stamp(taken_ms)}-full-{digest}{_SUFFIX}"


def parse_kept_dump(stat: ObjectStat) -> KeptDump | None:
    """Return what the key of an object means; None for one that no dump has."""
    folder, _, name = stat.key.removeprefix(FOLDER).rpartition("/")
    match = _NAME.fullmatch(name)
    if not stat.key.startswith(FOLDER) or match is None or not _CLUSTER.fullmatch(folder):
        return None
    taken_ms = _milliseconds(match["time"])
    if taken_ms is None or not 0 <= taken_ms < _LATEST_MS:
        return None
    return KeptDump(folder, taken_ms, match["digest"], stat)


def cluster_folder(instance_id: str | None, url: str, made_ms: int | None = None) -> str:
    """Return what a cluster's dumps are below.

    Its BookKeeper's id, and when Pulsar's metadata were made, ms since 1970 UTC, since several clusters may have one BookKeeper. A digest
    stands for an id that is no name, and one of the cluster's URL for none.
    """
    made = "" if made_ms is None else f".{made_ms:x}"
    if instance_id is not None and _CLUSTER.fullmatch(f"{instance_id}{made}"):
        return f"{instance_id}{made}"
    servers, slash, chroot = url.rpartition("://")[2].partition("/")
    told = ",".join(sorted(servers.split(","))) + slash + chroot if instance_id is None else instance_id
    return f"{'url' if instance_id is None else 'id'}-{sha256(told.encode()).hexdigest()[:DIGITS]}{made}"


def _stamp(milliseconds: int) -> str:
    time = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{time:%Y%m%dT%H%M%S}{time.microsecond // 1000:03}Z"


def _milliseconds(stamp: str) -> int | None:
    try:
        time = datetime.strptime(f"{stamp[:-1]}000+0000", "%Y%m%dT%H%M%S%f%z")
    except ValueError:
        return None
    return (time - _EPOCH) // timedelta(milliseconds=1)
