"""Ledgers that are not where, or not named as, Pulsar writes them: nothing of them is gone without a word."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.errors import AccessDeniedError, MissingLedgerError, NotFoundError, UnplacedLedgersWarning
from ledgerfs.export.export import export_topic
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from ledgerfs.storage.folders.files import LINK_REFUSED
from ledgerfs.verification import verify
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, NAME
from tests.support.mapfile_buckets import mapfile, messages, put_file, put_mapfiles

TOPIC = "persistent://public/default/orders"
UUID = "0f7c3cb1-8e0a-4b57-9a2a-3b1c5d7e9f10"


def damage_of(url: str, **options: Any) -> dict[str, str | None]:
    found = verify(open_bucket(url, **options)).findings
    return {one.kind: one.key for one in found if one.severity.value == "damage"}


NEARLY_RIGHT = [
    f"2-{UUID.upper()}",
    f"02-{UUID}",
    f"-2-{UUID}",
    f"+2-{UUID}",
    f"2-{UUID[:-1]}",
    f"2-{UUID}.bak",
    f"2_{UUID}",
    "2",
    f"old-2-{UUID}",
    f"2-{UUID} ",
    f"\uff12-{UUID}",
    f"\u00b2-{UUID}",
    f"\u0662-{UUID}",
]


@pytest.mark.parametrize("left", ["all", "index", "checksum"])
def test_a_name_that_is_nearly_right(left: str, tmp_path: Path) -> None:
    good, odd = mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2)
    for number, name in enumerate(NEARLY_RIGHT):
        root = tmp_path / str(number)
        url = put_mapfiles(root, good)
        folder = root / NAME / name
        if left == "checksum":
            put_file(folder / ".data.crc", b"crc\0")
        else:
            put_file(folder / "index", odd.index)
        if left == "all":
            put_file(folder / "data", odd.data)
        bucket = open_bucket(url)
        with pytest.raises(MissingLedgerError, match="ledger 2"):
            bucket.topic(TOPIC).count()
        (missing,) = bucket.topic(TOPIC).missing
        assert (missing.ledger_id, missing.key) == (2, f"{NAME}/{name}")
        assert damage_of(url).keys() == {"misplaced-ledger"}, name
        assert bucket.topic(TOPIC).count(on_corrupt="skip") == 5, name
        # Beside the ledger itself it is a copy that nobody needs, if its metadata tells that it is one.
        put_mapfiles(root, odd)
        bucket = open_bucket(url)
        assert bucket.topic(TOPIC).count(on_corrupt="skip") == 10, name
        assert bool(bucket.topic(TOPIC).missing) == (left != "all"), name
        assert damage_of(url).keys() == (set() if left == "all" else {"misplaced-ledger"}), name


@pytest.mark.parametrize("created_ms", [CREATED_MS, None])
def test_an_id_that_is_a_guess_hides_no_other_ledger(created_ms: int | None, tmp_path: Path) -> None:
    """A whole ledger of the id that the name begins with is no copy of what is there, unless the metadata tells that."""
    odd = mapfile(messages(5, 4), 5)
    names = [f"1_0-{UUID}", f"1.0-{UUID}", f"1-5-{UUID}", "1 (2)", "1", f"1-{UUID}.bak", f"a/1-{UUID}"]
    for number, name in enumerate(names):
        root = tmp_path / str(number)
        url = put_mapfiles(root, mapfile(messages(1, 3), 1))
        put_file(root / NAME / name / "data", odd.data)
        put_file(root / NAME / name / "index", odd.index)
        (missing,) = open_bucket(url).topic(TOPIC).missing
        assert (missing.ledger_id, missing.key, missing.is_beside) == (1, f"{NAME}/{name}", True)
        (finding,) = (one for one in verify(open_bucket(url)).findings if one.kind == "misplaced-ledger")
        assert (finding.severity.value, finding.key) == ("damage", f"{NAME}/{name}/data")
        assert "another ledger of this id, which may be a different ledger" in finding.message, name
        run("count", url, TOPIC, code=1)
        (tmp_path / "to" / str(number)).mkdir(parents=True)
        assert b"failed: 1" in run("offload", url, str(tmp_path / "to" / str(number)), code=1).stdout, name
        # Many ledgers of a topic have the same sizes: where no creation tells them apart, that is no proof, either.
        made = mapfile(messages(1, 3), 1, created_ms=created_ms or 0)
        put_mapfiles(root, made)
        put_file(root / NAME / name / "data", made.data)
        assert bool(open_bucket(url).topic(TOPIC).missing) == (created_ms is None), name


@pytest.mark.parametrize("place", ["bad", "public/default/persistent/ordersX"])
def test_a_whole_ledger_of_its_id_hides_none_that_is_somewhere_else(place: str, tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, mapfile(messages(1, 3), 1))
    odd = mapfile(messages(5, 4), 1, uuid=5)
    for name, data in (("data", odd.data), ("index", odd.index)):
        put_file(tmp_path / place / f"1-{odd.uuid}" / name, data)
    (missing,) = open_bucket(url).topic(TOPIC).missing
    assert (missing.ledger_id, missing.is_beside, missing.key) == (1, True, f"{place}/1-{odd.uuid}")
    run("count", url, TOPIC, code=1)
    run("verify", url, code=1)


@pytest.mark.parametrize("left", ["all", "index", "checksum"])
def test_all_that_is_below_a_topics_folder_is_the_topics(left: str, tmp_path: Path) -> None:
    """Also as the only content of a partition, which would be absent without a word."""
    first, second = f"{NAME}-partition-0", f"{NAME}-partition-1"
    odd = mapfile(messages(5, 4), 5, name=second)
    files = {
        "all": {"data": odd.data, "index": odd.index},
        "index": {"index": odd.index},
        "checksum": {".data.crc": b"crc"},
    }
    for number, name in enumerate([UUID, "12345678-8e0a-4b57-9a2a-3b1c5d7e9f10", "notes", "a/b", ""]):
        root = tmp_path / str(number)
        url = put_mapfiles(root, mapfile(messages(1, 3), 1, name=first))
        key = f"{second}/{name}".rstrip("/")
        for file, data in files[left].items():
            put_file(root / key / file, data)
        topic = open_bucket(url).topic(TOPIC)
        assert topic.is_partitioned, name
        (missing,) = topic.missing
        assert (missing.topic, missing.key, missing.known_id) == (f"{TOPIC}-partition-1", key, None)
        assert missing.as_json()["ledger_id"] is None
        with pytest.raises(MissingLedgerError, match=f"a ledger of unknown id: .*{key}"):
            topic.scan().to_arrow()
        assert topic.count(on_corrupt="skip") == 3, name
        (finding,) = (one for one in verify(open_bucket(url)).findings if one.severity.value == "damage")
        expected = ("misplaced-ledger", None, f"{TOPIC}-partition-1")
        assert (finding.kind, finding.ledger_id, finding.topic) == expected, name
        assert b"a ledger of unknown id" in run("count", url, TOPIC, "--on-corrupt", "skip", code=1).stderr, name
        out = tmp_path / "out" / str(number)
        assert [export_topic(topic, out, "jsonl", on_corrupt="skip").rows for _ in range(2)] == [3, 0], name
        fs = LedgerFileSystem(url, target_protocol="file")
        (path,) = fs.ls("entries/public/default/orders-partition-1", detail=False)
        assert path.endswith("/unknown.entries"), name
        with pytest.raises(MissingLedgerError):
            fs.open(path)
        (tmp_path / "to" / str(number)).mkdir(parents=True)
        assert b"failed: 1" in run("offload", url, str(tmp_path / "to" / str(number)), code=1).stdout, name


def test_a_link_below_a_topics_folder(tmp_path: Path) -> None:
    """Whatever it is called: behind it may be the only ledger of a partition."""
    odd = mapfile(messages(5, 4), 5, name=f"{NAME}-partition-1")
    url = put_mapfiles(tmp_path / "tier", mapfile(messages(1, 3), 1, name=f"{NAME}-partition-0"))
    put_mapfiles(tmp_path / "behind", odd)
    (tmp_path / "tier" / odd.name).mkdir()
    (tmp_path / "tier" / odd.name / UUID).symlink_to(tmp_path / "behind" / odd.folder)
    run("count", url, TOPIC, code=3)
    followed = open_bucket(url, {"follow_links": True}).topic(TOPIC)
    assert [one.known_id for one in followed.missing] == [None]


def test_below_topics_of_odd_names(tmp_path: Path) -> None:
    """A tenant, a namespace or a topic may be called as the domain is."""
    for number, name in enumerate(
        ("persistent/a/persistent/b", "a/persistent/persistent/b", "a/b/persistent/persistent")
    ):
        url = put_mapfiles(tmp_path / str(number), mapfile(messages(1, 3), 1, name=name))
        put_file(tmp_path / str(number) / name / UUID / "index", b"")
        assert [(one.managed_ledger, one.missing) for one in open_bucket(url).topics()] == [(name, 1)]


def test_ids_that_are_none(tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, mapfile(messages(1, 5), 1))
    put_file(tmp_path / NAME / f"{2**63}-{UUID}" / "data", b"")
    (missing,) = open_bucket(url).topic(TOPIC).missing
    assert missing.ledger_id == 2**63 - 1


def test_what_is_no_ledgers_stays_nobodys(tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, mapfile(messages(1, 5), 1))
    for key in (f"{NAME}/notes/text", "exports/2024/data", "a/b/c/d/index", f"{mapfile([b''], 1).folder}/note.txt"):
        put_file(tmp_path / key, b"?")
    put_file(tmp_path / "dumps" / "a", b"?")
    (tmp_path / "dumps" / "latest").symlink_to(tmp_path)
    (tmp_path / "public" / "README").symlink_to(tmp_path / "dumps" / "a")
    (finding,) = verify(open_bucket(url)).findings
    assert (finding.kind, "'dumps/'" in finding.message) == ("foreign-keys", True)
    # Links may be followed, in circles as well.
    for options in ({}, {"follow_links": True}):
        assert open_bucket(url, options).topic(TOPIC).count() == 5


@pytest.mark.parametrize(
    "place",
    [
        "archive",
        "public/default/non-persistent/orders",
        "public/default/persistent",
        "public%2Fdefault/persistent/orders",
    ],
)
def test_a_ledger_somewhere_else(place: str, tmp_path: Path) -> None:
    good, moved = mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2)
    url = put_mapfiles(tmp_path, good)
    for name, data in (("data", moved.data), ("index", moved.index)):
        put_file(tmp_path / place / f"2-{moved.uuid}" / name, data)
    (missing,) = open_bucket(url).topic(TOPIC).missing
    assert (missing.ledger_id, missing.key, missing.kind) == (2, f"{place}/2-{moved.uuid}", GapKind.UNREADABLE)
    assert "misplaced-ledger" in damage_of(url)
    with pytest.raises(MissingLedgerError):
        open_bucket(url).topic(TOPIC).count()
    put_mapfiles(tmp_path, moved)
    assert open_bucket(url).topic(TOPIC).count() == 10
    assert damage_of(url) == {}
    # Where nothing tells whose it is, it may be anybody's.
    put_file(tmp_path / place / f"3-{UUID}" / "index", moved.index)
    with pytest.warns(UnplacedLedgersWarning, match="ids 3"):
        open_bucket(url).topic(TOPIC).count()
    assert damage_of(url) == {"misplaced-ledger": f"{place}/3-{UUID}/index"}


def test_in_the_folder_of_another_topic(tmp_path: Path) -> None:
    """Both lack it: the one by the path, the other by the metadata."""
    other = "public/default/persistent/payments"
    url = put_mapfiles(tmp_path, mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2, reported=other))
    put_mapfiles(tmp_path, mapfile(messages(3, 5), 3, name=other))
    for topic in (TOPIC, "persistent://public/default/payments"):
        (missing,) = open_bucket(url).topic(topic).missing
        assert (missing.ledger_id, missing.key.startswith(mapfile([b""], 2).folder)) == (2, True)
    # With a copy in its own place, only the first one still does.
    put_mapfiles(tmp_path, mapfile(messages(2, 5), 2, name=other, uuid=8))
    assert not open_bucket(url).topic("persistent://public/default/payments").missing
    assert open_bucket(url).topic(TOPIC).missing


def test_names_of_topics_that_were_encoded_anew(tmp_path: Path) -> None:
    made = mapfile(messages(1, 5), 1, name="public/default/persistent/a%2Fb")
    (tmp_path / "public/default/persistent").mkdir(parents=True)
    put_mapfiles(tmp_path, made)
    (topic,) = (topic_of(one.managed_ledger) for one in open_bucket(tmp_path).topics())
    run("count", str(tmp_path), topic)
    shutil.move(tmp_path / "public/default/persistent/a%2Fb", tmp_path / "public/default/persistent/a%252Fb")
    run("count", str(tmp_path), topic, code=1)
    run("verify", str(tmp_path), code=1)


@pytest.mark.parametrize("what", ["file", "data is a folder", "empty", "notes"])
def test_something_else_in_place_of_folders_and_files(what: str, tmp_path: Path) -> None:
    url = put_mapfiles(tmp_path, mapfile(messages(1, 5), 1))
    folder = tmp_path / NAME / f"2-{UUID}"
    if what == "file":
        put_file(folder, b"SEQ")
    elif what == "empty":
        folder.mkdir()
    else:
        put_file(folder / ("data/part-0" if what == "data is a folder" else "notes.txt"), b"SEQ")
    is_refused = what == "data is a folder"
    with pytest.raises(AccessDeniedError if is_refused else MissingLedgerError, match="ledger 2"):
        open_bucket(url).topic(TOPIC).count()
    run("verify", url, code=3 if is_refused else 1)


@pytest.mark.parametrize("leads", [True, False])
def test_links_are_not_passed_over(leads: bool, tmp_path: Path) -> None:
    made = mapfile(messages(2, 5), 2)
    for what in ("public", "public/default", "public/default/persistent", NAME, "ledger", "data"):
        root = tmp_path / what.replace("/", "-")
        url = put_mapfiles(root / "bucket", mapfile(messages(1, 5), 1, name="other/default/persistent/orders"), made)
        if what in {"ledger", "data"}:
            put_mapfiles(root / "bucket", mapfile(messages(1, 5), 1))
        path = {"ledger": made.folder, "data": f"{made.folder}/data"}.get(what, what)
        shutil.move(root / "bucket" / path, root / "behind")
        (root / "bucket" / path).symlink_to(root / ("behind" if leads else "nowhere"))
        is_one = what in {"ledger", "data"}
        run("count", url, TOPIC, code=3)
        assert LINK_REFUSED.encode() in run("verify", url, code=3).stdout, what
        # Whoever says so has them followed; one that leads nowhere is no empty folder then, either.
        followed = open_bucket(url, {"follow_links": True})
        if leads:
            assert followed.topic(TOPIC).count() == (10 if is_one else 5), what
            assert not verify(followed).findings, what
        else:
            run("count", url, TOPIC, "-o", "follow_links=true", code=3)
            run("verify", url, "-o", "follow_links=true", code=3)


@pytest.mark.parametrize("below", ["public", "public/default", "public/default/persistent", NAME])
def test_a_folder_of_a_bucket_instead_of_the_bucket(below: str, tmp_path: Path) -> None:
    put_mapfiles(tmp_path, mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2))
    url = f"file://{tmp_path}/{below}"
    with pytest.raises(
        NotFoundError,
        match=f"open the folder that contains the folders of tenants; the opened folder is '{below}' in it",
    ):
        open_bucket(url).topics()
    for command in ("topics", "ls", "verify"):
        assert run(command, url, code=2).stderr.count(b"\n") == 1
    # A whole bucket one folder below is found as well.
    shutil.move(tmp_path / "public", tmp_path / "base" / "public")
    assert open_bucket(tmp_path).topic(TOPIC).count() == 10


def test_the_folder_of_a_ledger_instead_of_the_bucket(tmp_path: Path) -> None:
    made = mapfile(messages(1, 5), 1)
    put_mapfiles(tmp_path, made)
    with pytest.raises(NotFoundError, match="the folder of one ledger"):
        open_bucket(tmp_path / made.folder).topics()
    (tmp_path / made.folder / "index").unlink()
    assert open_bucket(tmp_path / made.folder).topics() == []


def test_a_base_whose_name_is_no_utf_8(tmp_path: Path) -> None:
    good, other = mapfile(messages(1, 5), 1), mapfile(messages(2, 7), 2)
    root = tmp_path / "tier"
    url = put_mapfiles(root, good)
    put_mapfiles(root, other, base=os.fsdecode(b"b\xff"))
    bucket = open_bucket(url, cache_dir=str(tmp_path / "cache"))
    assert bucket.topic(TOPIC).scan().to_arrow().num_rows == 12
    assert bucket.ledger(2).describe()["ledger_id"] == 2
    assert damage_of(url) == {}
    (tmp_path / "to").mkdir()
    run("count", url)
    run("head", url, "orders")
    run("info", url, "2")
    run("export", url, "orders", str(tmp_path / "rows"))
    run("offload", url, str(tmp_path / "to"))
    assert open_bucket(f"file://{tmp_path / 'to'}").topic(TOPIC).count() == 12
