"""Whether a policy file is still the one that was read: who has edited it since must not see deleted what it keeps by now."""

import time
from collections.abc import Callable

from ledgerfs.errors import InvalidOptionError
from ledgerfs.lifecycle.policy.policy_file import PolicyFile, digest_of

_TRIES, _PAUSE_S = 5, 0.1
"""An editor may have moved the file away for a moment."""


def why_other(file: PolicyFile, pause: Callable[[float], None] = time.sleep) -> str | None:
    """Return why a file is not as it was read; None if it is, or was never read from a file."""
    if not file.digest:
        return None
    reason = ""
    for left in reversed(range(_TRIES)):
        try:
            digest = digest_of(file.path)
        except InvalidOptionError as error:
            reason = str(error)
        else:
            is_same = digest == file.digest
            return (
                None if is_same else f"{file.path} was edited since it was read: start again, so that it is read anew"
            )
        if left:
            pause(_PAUSE_S)
    return f"nobody knows what is wanted any more: {reason}"
