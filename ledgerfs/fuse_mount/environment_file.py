"""A file of variables (``AWS_ACCESS_KEY_ID=…``), as systemd reads them: credentials for a mount that ``/etc/fstab`` starts."""

import os
from pathlib import Path

from ledgerfs.errors import MountFailedError


def load_environment(path: str) -> None:
    """Set the variables of a file in this process; what ``ps`` and ``/proc`` show of it stays as it was. Raises `MountFailedError`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise MountFailedError(f"cannot read the variables: {reason}", key=path) from error
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith(("#", ";")):
            continue
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise MountFailedError(f"line {number} is not NAME=VALUE", key=path)
        value = value.strip()
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        os.environ[name.strip()] = value[1:-1] if is_quoted else value
