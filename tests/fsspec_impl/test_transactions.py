"""Transactions of fsspec in which ledgers are written and removed: whatever fails, and whoever meets them, no ledger is lost."""

from pathlib import Path

import pytest

from ledgerfs.errors import LedgerExistsError, NotFoundError, StaleObjectError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.ledgers import Offload, offload, put_in_folder

ENTRIES = "entries/public/default"
PATH, COPY = f"{ENTRIES}/orders/3.entries", f"{ENTRIES}/moved/33.entries"
OURS = offload([b"one", b"two"], 3, uuid=3)


def of(topic: str, ledger_id: int, uuid: int, entries: tuple[bytes, ...] = (b"theirs",)) -> Offload:
    return offload(entries, ledger_id, uuid=uuid, name=f"public/default/persistent/{topic}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bucket").mkdir()
    put_in_folder(tmp_path / "bucket", OURS)
    return tmp_path / "bucket"


@pytest.fixture
def fs(folder: Path) -> LedgerFileSystem:
    return LedgerFileSystem(fo=str(folder), target_protocol="file", skip_instance_cache=True)


def objects_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_removed_is_there_until_the_end(fs: LedgerFileSystem) -> None:
    with fs.transaction:
        fs.cp(PATH, COPY)
        fs.rm(PATH)
        assert fs.find(ENTRIES) == [PATH]
        assert fs.cat_file(PATH) == OURS.records
    assert fs.find(ENTRIES) == [COPY]
    assert fs.cat_file(COPY) == OURS.records
    fs.rm(COPY)
    assert fs.find("") == []


def test_of_what_fails_nothing_is_removed(fs: LedgerFileSystem, folder: Path) -> None:
    def fail(error: BaseException) -> None:
        with fs.transaction:
            fs.rm(f"{ENTRIES}/orders", recursive=True)
            fs.cp(PATH, COPY)
            fs.rm_file(PATH)
            raise error

    for error in (RuntimeError("anything"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            fail(error)
        assert objects_in(folder) == OURS.objects
    # Nor by the next one.
    with fs.transaction:
        fs.cp(PATH, COPY)
    assert fs.find(ENTRIES) == [COPY, PATH]


def test_of_what_is_not_written_nothing_is_removed(fs: LedgerFileSystem, folder: Path) -> None:
    rival = of("other", 33, 99)

    def meet() -> None:
        with fs.transaction:
            fs.cp(PATH, COPY)
            fs.rm(PATH)
            put_in_folder(folder, rival)

    with pytest.raises(LedgerExistsError, match="already has ledger 33"):
        meet()
    assert objects_in(folder) == {**OURS.objects, **rival.objects}


def test_of_several_the_later_that_fails_keeps_all(fs: LedgerFileSystem, folder: Path) -> None:
    def write() -> None:
        with fs.transaction:
            fs.cp(PATH, COPY)
            fs.rm(PATH)
            file = fs.open(f"{ENTRIES}/moved/34.entries", "wb")
            file.write(OURS.records)
            file.close()
            # Its name is taken by the time it is to appear.
            key = f"{file.ledger.key.uuid}-ledger-34"
            (folder / f"{key}-index").write_bytes(b"no index")

    with pytest.raises(FileExistsError):
        write()
    assert OURS.objects.items() <= objects_in(folder).items()


def test_what_was_skipped_is_there_when_others_are_removed(fs: LedgerFileSystem, folder: Path) -> None:
    same = of("moved", 33, 9, (b"one", b"two"))
    put_in_folder(folder, same)

    def move() -> None:
        with fs.transaction:
            fs.pipe_file(COPY, OURS.records, if_exists="skip")
            fs.rm(PATH)
            for key in same.objects:
                (folder / key).unlink()

    with pytest.raises(StaleObjectError, match="another writer has removed or replaced the ledger"):
        move()
    assert objects_in(folder) == OURS.objects
    put_in_folder(folder, same)
    with fs.transaction:
        fs.pipe_file(COPY, OURS.records, if_exists="skip")
        fs.rm(PATH)
    assert objects_in(folder) == same.objects


def test_an_id_stays_taken_until_the_end(fs: LedgerFileSystem, folder: Path) -> None:
    def rename() -> None:
        with fs.transaction:
            fs.rm(PATH)
            fs.cp(PATH, f"{ENTRIES}/moved/3.entries")

    with pytest.raises(LedgerExistsError, match="already has ledger 3"):
        rename()
    assert objects_in(folder) == OURS.objects


def test_what_was_chosen_is_removed_and_not_what_has_its_name_by_then(fs: LedgerFileSystem, folder: Path) -> None:
    with fs.transaction:
        fs.rm(PATH)
        fs.pipe_file(PATH, OURS.records, if_exists="new-copy")
    assert fs.cat_file(PATH) == OURS.records
    assert not OURS.objects.keys() & objects_in(folder).keys()
    (uuid,) = {fs.info(path)["uuid"] for path in fs.find(ENTRIES)}
    theirs = offload([b"theirs"], 3, uuid=9)

    def meet() -> None:
        with fs.transaction:
            fs.rm(PATH)
            put_in_folder(folder, theirs)

    with pytest.raises(LedgerExistsError, match=r"1 ledgers were removed; .* another writer has added"):
        meet()
    assert objects_in(folder) == theirs.objects
    assert uuid not in "".join(theirs.objects)


def test_a_wrong_path_ends_it_at_once(fs: LedgerFileSystem, folder: Path) -> None:
    def remove() -> None:
        with fs.transaction:
            fs.rm(PATH)
            fs.rm(f"{ENTRIES}/orders/4.entries")

    with pytest.raises(NotFoundError):
        remove()
    assert objects_in(folder) == OURS.objects


def test_without_with(fs: LedgerFileSystem) -> None:
    fs.start_transaction()
    fs.cp(PATH, COPY)
    fs.rm(PATH)
    assert fs.find(ENTRIES) == [PATH]
    fs.end_transaction()
    assert fs.find(ENTRIES) == [COPY]
