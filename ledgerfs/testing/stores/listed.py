"""The listing of a store, by key."""

from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat


def listed(store: ObjectStore, prefix: str = "") -> dict[str, ObjectStat]:
    """Return the objects of `list_pages`; asserts that each occurs once."""
    stats = [stat for page in store.list_pages(prefix) for stat in page]
    found = {stat.key: stat for stat in stats}
    assert len(found) == len(stats), "an object is listed twice"
    return found


def in_folder(store: ObjectStore, folder: str) -> dict[str, ObjectStat]:
    """Return the objects of `list_folder`, without empty folders."""
    stats = [stat for page in store.list_folder(folder) for stat in page if not stat.key.endswith("/")]
    found = {stat.key: stat for stat in stats}
    assert len(found) == len(stats), "an object is listed twice"
    return found


def version_of(store: ObjectStore, key: str) -> str:
    """Return the version of one object in the listing."""
    return listed(store)[key].version
