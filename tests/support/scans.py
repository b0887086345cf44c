"""Parts of scans."""

from dataclasses import replace
from typing import Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.partitions import Run
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.scan import Scan, make_scan
from ledgerfs.scan.topic_entries import Reach


def part_of(scan: Scan, reach: Reach) -> Scan:
    """Return the scan of some entries of its topic, which knows no outcome of a transaction."""
    (part,) = scan.parts
    return replace(scan, parts=(replace(part, reach=reach, outcomes={}),))


def scan_of_run(run: Run, bucket: Bucket, **options: Any) -> Scan:
    """Return the scan of a run of a plan, as a task reads it."""
    return make_scan(run.topic, [run.part(bucket)], ScanOptions.of(**options), lambda: bucket.schemas_of(run.topic))
