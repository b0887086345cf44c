"""What was found in a cluster, as a file of Prometheus's text format, for the textfile collector of a node exporter."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ledgerfs.clusters.findings import Finding, FindingKind
from ledgerfs.clusters.gauges_file import escaped_label, write_gauges_file


def write_gauges(path: Path, source: str, findings: Sequence[Finding], damaged: int, now_ms: int) -> None:
    """Write all gauges at once; raises `InvalidOptionError` if that cannot be done."""
    write_gauges_file(path, _lines(source, findings, damaged, now_ms))


def _lines(source: str, findings: Sequence[Finding], damaged: int, now_ms: int) -> Iterator[str]:
    of_kind = {kind: [one for one in findings if one.kind is kind] for kind in FindingKind}
    for name, about, value in (
        ("findings", "What was found, by kind.", len),
        ("finding_ledgers", "Ledgers that findings are about.", lambda some: sum(len(one.ledger_ids) for one in some)),
        ("finding_bytes", "Bytes that are lost, or freed; those that are unknown are left out.", _bytes),
    ):
        yield f"# HELP ledgerfs_cluster_{name} {about}"
        yield f"# TYPE ledgerfs_cluster_{name} gauge"
        for kind, some in of_kind.items():
            labels = f'cluster="{escaped_label(source)}",kind="{kind.value}",loss="{str(kind.is_loss).lower()}"'
            yield f"ledgerfs_cluster_{name}{{{labels}}} {value(some)}"
    for name, about, number in (
        ("damaged_nodes", "Nodes of ZooKeeper that could not be read.", str(damaged)),
        ("check_timestamp_seconds", "When the cluster was read, seconds since 1970.", f"{now_ms / 1000:.3f}"),
    ):
        yield f"# HELP ledgerfs_cluster_{name} {about}"
        yield f"# TYPE ledgerfs_cluster_{name} gauge"
        yield f'ledgerfs_cluster_{name}{{cluster="{escaped_label(source)}"}} {number}'


def _bytes(findings: Sequence[Finding]) -> int:
    return sum(max(0, one.size) for one in findings)
