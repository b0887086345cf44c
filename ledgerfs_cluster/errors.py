"""What the toolkit for clusters raises besides the errors of `ledgerfs.errors`."""

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
    """An entry log or a journal of a bookie, or a ledgers map, cannot be what BookKeeper wrote."""


class CorruptReplyError(CorruptObjectError):
    """What a server of a cluster sent is no reply of its protocol; it is named by its address, the offset is in what was received."""


class OffloadRemarkWarning(UserWarning):
    """An offload is done, and something is left for somebody: objects to remove, or a topic to unload."""


class PolicyChangedError(LedgerfsError):
    """The policy file is another one than the service has read: it has ended, and is to be started again."""

    code = errno.EINVAL
    exit_code = 3


class AdminApiError(LedgerfsError):
    """A broker's admin API answered with an error, or something that answers there is no such API."""

    code = errno.EPROTO
    exit_code = 3


class AdminApiUnreachableError(AdminApiError):
    """A broker's admin API could not be reached, or did not answer in time."""

    code = errno.EHOSTUNREACH


class UncertainRequestError(AdminApiError):
    """It is unknown whether a broker did what it was asked to do: the connection was lost before it answered."""


class BrokerOffloadError(AdminApiError):
    """An offload by a broker failed, or the list of ledgers does not have what the broker says that it did."""


class BrokerRefusalError(LedgerfsError):
    """A broker refuses what a client asks."""

    code = errno.EPROTO


class OffloadRunningError(AdminApiError):
    """A broker is at an offload of this topic: an earlier one, or one that was not waited for any longer."""

    code = errno.EBUSY


class ListFullError(UnsupportedWriteError):
    """A topic's list of ledgers would have more bytes than a ZooKeeper takes."""


class LockHeldError(LedgerfsError):
    """Another process changes this cluster, and one does at a time.

    Attributes
    ----------
    holder
        What that process says of itself.

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
    """The lock of a cluster is lost: its session ended, or its nodes were changed. Nothing is written under it any more.

    Attributes
    ----------
    is_uncertain
        Whether the commit that raised it may have been done. If not, nothing of it was, or will be.

    """

    code = errno.ENOLCK
    exit_code = 3
    is_uncertain: bool = False

    @classmethod
    def of(cls, reason: str, key: str, *, is_uncertain: bool) -> "LockLostError":
        """Return the error for a commit."""
        made = cls(f"{reason}; it is unknown whether the last change was done" if is_uncertain else reason, key=key)
        made.is_uncertain = is_uncertain
        return made


class ChangedMeanwhileError(LedgerfsError):
    """A node of a cluster (``key``) is not what it was when it was read; nothing was changed.

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
            "other version": "was changed since it was read",
            "gone": "is gone",
            "there already": "was made meanwhile",
            "not empty": "has other nodes below it",
        }
        made = cls(f"{reasons[found]}; nothing was done", key=key)
        made.found = found
        return made


class StoppedError(LedgerfsError):
    """The service is ending: what is under way is given up, and done by the next one."""

    code = errno.ECANCELED
