"""Errors of the toolkit for clusters, besides those of `ledgerfs.errors`."""

import errno

from ledgerfs.errors import CorruptObjectError, LedgerfsError, UnsupportedWriteError

__all__ = [
    "AdminApiError",
    "AdminApiUnreachableError",
    "BrokerOffloadError",
    "BrokerRefusalError",
    "ChangedMeanwhileError",
    "CorruptLogError",
    "CorruptReplyError",
    "ListFullError",
    "LockHeldError",
    "LockLostError",
    "OffloadRemarkWarning",
    "OffloadRunningError",
    "PolicyChangedError",
    "StoppedError",
    "UncertainRequestError",
]


class CorruptLogError(CorruptObjectError):
    """An entry log, a journal or a ledgers map of a bookie contains bytes that BookKeeper does not write."""


class CorruptReplyError(CorruptObjectError):
    """A server of a cluster sent bytes that are not a reply of its protocol; ``key`` is its address, ``offset`` counts these bytes."""


class OffloadRemarkWarning(UserWarning):
    """An offload is done, and the user has to finish something: remove objects, or unload a topic."""


class PolicyChangedError(LedgerfsError):
    """The policy file changed since the service read it: the service has stopped, and has to be started again."""

    code = errno.EINVAL
    exit_code = 3


class AdminApiError(LedgerfsError):
    """A broker's admin API answered with an error, or the server that answered is not a broker."""

    code = errno.EPROTO
    exit_code = 3


class AdminApiUnreachableError(AdminApiError):
    """A broker's admin API could not be reached, or did not answer in time."""

    code = errno.EHOSTUNREACH


class UncertainRequestError(AdminApiError):
    """The connection was lost before a broker answered: it may or may not have done the request."""


class BrokerOffloadError(AdminApiError):
    """An offload by a broker failed, or the ledger list does not contain the result that the broker reports."""


class BrokerRefusalError(LedgerfsError):
    """A broker refused a request."""

    code = errno.EPROTO


class OffloadRunningError(AdminApiError):
    """A broker is already offloading this topic: an earlier request, or one whose wait timed out."""

    code = errno.EBUSY


class ListFullError(UnsupportedWriteError):
    """A topic's ledger list would exceed the size that ZooKeeper accepts."""


class LockHeldError(LedgerfsError):
    """Another process changes this cluster; only one may at a time.

    Attributes
    ----------
    holder
        The holder's description of itself.

    """

    code = errno.EBUSY
    exit_code = 3
    holder: bytes = b""

    @classmethod
    def of(cls, holder: bytes, reason: str, key: str) -> "LockHeldError":
        """Return the error for a lock that is held."""
        made = cls(reason, key=key)
        made.holder = holder
        return made


class LockLostError(LedgerfsError):
    """The lock of a cluster is lost: its session ended, or its nodes were changed. No more changes are written under it.

    Attributes
    ----------
    is_uncertain
        Whether the commit that raised it may have been applied. If not, no part of it was or will be.

    """

    code = errno.ENOLCK
    exit_code = 3
    is_uncertain: bool = False

    @classmethod
    def of(cls, reason: str, key: str, *, is_uncertain: bool) -> "LockLostError":
        """Return the error for a commit."""
        made = cls(f"{reason}; it is unknown whether the last change was applied" if is_uncertain else reason, key=key)
        made.is_uncertain = is_uncertain
        return made


class ChangedMeanwhileError(LedgerfsError):
    """A node of a cluster (``key``) changed since it was read; no change was made.

    Attributes
    ----------
    found
        ``"other version"``, ``"gone"``, ``"there already"``, or ``"not empty"``.

    """

    code = errno.ESTALE
    exit_code = 3
    found: str = ""

    @classmethod
    def of(cls, found: str, key: str) -> "ChangedMeanwhileError":
        """Return the error for a node."""
        reasons = {
            "other version": "the node was changed after it was read",
            "gone": "the node was deleted",
            "there already": "another client created the node at the same time",
            "not empty": "the node has child nodes",
        }
        made = cls(f"{reasons[found]}; nothing was changed", key=key)
        made.found = found
        return made


class StoppedError(LedgerfsError):
    """The service is stopping: work under way is given up, and the next service does it."""

    code = errno.ECANCELED
