"""Gauges in Prometheus's text format, and a file of them for the textfile collector of a node exporter."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

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
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("x", encoding="utf-8", errors="replace") as file:
            # Collectors run as another user.
            os.fchmod(file.fileno(), 0o644)
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise InvalidOptionError(f"the gauges cannot be written: {error.strerror}", key=str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
