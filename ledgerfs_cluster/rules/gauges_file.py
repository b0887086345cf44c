"""Gauges in Prometheus's text format, and a file of them for the textfile collector of a node exporter."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ledgerfs.errors import InvalidOptionError


def gauge_lines(name: str, about: str, samples: Iterable[tuple[Mapping[str, str], object]]) -> Iterator[str]:
    """Yield the lines of a gauge; samples are labels and values."""
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} gauge"
    for labels, value in samples:
        texts = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{texts}}} {value}"


def write_gauges_file(path: Path, lines: Iterable[str]) -> None:
    """Write all lines at once: whoever reads the file meanwhile has the old one. Raises `InvalidOptionError` if it cannot be written."""
    text = "".join(f"{line}\n" for line in lines)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                # Collectors run as another user.
                os.fchmod(descriptor, 0o644)
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidOptionError(f"the gauges cannot be written: {error.strerror}", key=str(path)) from error


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
