"""Topics whose encoded names are longer than a local file system allows: the rest of a recursive copy comes, and the end is an error."""

import errno
from pathlib import Path

import pytest

from ledgerfs.errors import NameTooLongError
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from tests.support.ledgers import Offload, offload, put_in_folder

LONG = "%C3%BC" * 60


@pytest.fixture
def made(tmp_path: Path) -> tuple[str, list[Offload]]:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    names = ("a", LONG, "z", f"{LONG}b")
    ledgers = [
        offload([b"%d" % i], i, uuid=i, name=f"public/default/persistent/{name}") for i, name in enumerate(names, 1)
    ]
    return put_in_folder(bucket, *ledgers), ledgers


def test_the_rest_of_a_recursive_copy_comes(made: tuple[str, list[Offload]], tmp_path: Path) -> None:
    url, (first, _, third, _) = made
    fs = LedgerFileSystem(fo=url)
    with pytest.raises(
        NameTooLongError, match=r"too long for the local folder \(also of 3 more files\); all other files were copied"
    ) as raised:
        fs.get("entries/public/default", str(tmp_path / "copy"), recursive=True)
    assert raised.value.errno == errno.ENAMETOOLONG
    assert raised.value.key.startswith(f"entries/public/default/{LONG}")
    found = {
        path.relative_to(tmp_path / "copy").as_posix(): path.read_bytes() for path in tmp_path.glob("copy/**/*.entries")
    }
    assert found == {"a/1.entries": first.records, "z/3.entries": third.records}


def test_one_of_them_can_be_copied_to_a_name_of_ones_own(made: tuple[str, list[Offload]], tmp_path: Path) -> None:
    url, (_, second, _, _) = made
    fs = LedgerFileSystem(fo=url)
    path = f"entries/public/default/{LONG}/2.entries"
    with pytest.raises(NameTooLongError):
        fs.get_file(path, str(tmp_path / LONG))
    with pytest.raises(NameTooLongError):
        fs.get(path, str(tmp_path / LONG))
    fs.get_file(path, str(tmp_path / "mine"))
    assert (tmp_path / "mine").read_bytes() == second.records
    fs.get("entries/public/default/a", str(tmp_path / "short"), recursive=True)
    assert (tmp_path / "short/1.entries").exists()
