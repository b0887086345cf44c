"""Word to systemd of a service of ``Type=notify``: that the mount answers, and that it ends."""

import contextlib
import os
import socket


def tell_systemd(state: str) -> None:
    """Send ``READY=1`` or ``STOPPING=1`` to whoever started us, if that is systemd."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), address)
