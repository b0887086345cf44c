"""Options and arguments that are paths of this machine."""

from pathlib import Path
from typing import Any

import click

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.local_paths import local_path


class LocalPath(click.ParamType[Path]):
    """A path of this machine; what else would do for a URL is told by ``hint``."""

    name = "path"

    def __init__(self, hint: str = "") -> None:
        self._hint = hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ANN401
        """Return the path."""
        try:
            return local_path(value, "")
        except InvalidOptionError as error:
            hint = f" {self._hint}" if self._hint and "://" in str(value) else ""
            self.fail(f"{error.reason}.{hint}", param, ctx)
