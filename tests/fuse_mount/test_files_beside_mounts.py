"""Files that a mount writes beside the bucket: its log and the number of its process."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.errors import MountFailedError
from ledgerfs.fuse_mount.mount_log import log_to_file
from ledgerfs.fuse_mount.mount_request import MountRequest
from ledgerfs.fuse_mount.serving import _pid_file


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"mine")
    return path


@pytest.mark.parametrize("how", ["link", "hard link", "dangling"])
def test_a_planted_pid_file_is_not_written_through(how: str, victim: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    if how == "hard link":
        pid.hardlink_to(victim)
    else:
        pid.symlink_to(victim if how == "link" else tmp_path / "nowhere")
    with pytest.raises(MountFailedError, match=r"not followed|other hard links") as caught, _pid_file(str(pid)):
        pass
    assert caught.value.key == str(pid)
    assert victim.read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


def test_the_pid_file_of_a_killed_mount_is_written_anew(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    pid.write_text("12345678\n")
    with _pid_file(str(pid)):
        assert pid.read_text() == f"{os.getpid()}\n"
    assert not pid.exists()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Take away the handlers that a log adds."""
    before = list(logging.getLogger().handlers)
    yield
    for handler in [one for one in logging.getLogger().handlers if one not in before]:
        logging.getLogger().removeHandler(handler)
        handler.close()


@pytest.mark.usefixtures("quiet")
def test_a_log_is_not_written_through_another_users_link(
    victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "log"
    link.symlink_to(victim)
    request = MountRequest("memory://x", "/mnt", log_file=str(link))
    assert log_to_file(request) == link
    if os.geteuid() == 0:
        os.chown(link, 54321, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(MountFailedError, match="a symbolic link of another user") as caught:
        log_to_file(request)
    assert caught.value.key == str(link)
    assert victim.read_bytes() == b"mine"
