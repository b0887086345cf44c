"""Dumps that are kept in a bucket while their cluster lives on: by two dumpers, met by changes, ended, pruned, damaged."""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ledgerfs.storage.object_store import RawStore
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.snapshot.kept_dumps import (
    KeptDump,
    add_dump,
    dumps_folder,
    dumps_store,
    kept_dumps,
    remove_old_dumps,
)
from ledgerfs_cluster.snapshot.surveying import dump_cluster
from tests.cluster.model.dump_history import Recording
from tests.cluster.model.losing_cluster import LosingCluster
from tests.cluster.model.service_requests import ALL, Died, Kind, Requests, met_at
from tests.cluster.support.living_clusters import living


@dataclass
class DumpActs:
    """Dumps of one cluster.

    Attributes
    ----------
    lives
        Has something happen in the cluster.
    recordings
        {key: what it may have}, of all that were added.
    damaged
        Keys of those that are.

    """

    losing: LosingCluster
    chance: random.Random
    lives: Callable[[], None]
    recordings: dict[str, Recording] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    _under_way: list[Recording] = field(default_factory=list)

    def note(self) -> None:
        """Note the cluster as it is, for dumps that are under way."""
        for one in self._under_way:
            one.moments.append(self.losing.moment())

    def dump(self, _: str) -> None:
        """Dump; others may act meanwhile, another dumper, too, or this one may be ended."""
        what = self.chance.randrange(8)
        kinds, count = self.chance.choice([(ALL, 60), (frozenset({Kind.ZOOKEEPER}), 25)])
        at = self.chance.randrange(count)
        if what < 3:
            self._dump(Requests(at=at, kinds=kinds, act=self._meanwhile))
        elif what == 3:
            self._dump(Requests(at=at, act=lambda: self._dump(None)))
        elif what == 4:
            self._dump(Requests(dies_at=at))
        else:
            self._dump(None)

    def damage(self, _: str) -> None:
        """Have the newest dump damaged, if there is an older one: a bit of it, or its end."""
        kept = self.readable()
        if len(kept) < 2 or self.chance.random() < 0.6:
            return
        path = self.losing.bucket / kept[-1].key
        data = bytearray(path.read_bytes())
        data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        times = path.stat()
        path.write_bytes(bytes(data if self.chance.random() < 0.5 else data[:-3]))
        os.utime(path, (times.st_atime, times.st_mtime))
        self.damaged.add(kept[-1].key)

    def readable(self) -> list[KeptDump]:
        """Return those that a reader has to be able to read, the newest last."""
        kept = kept_dumps(self._store())
        return [one for one in kept if one.key in self.recordings and one.key not in self.damaged]

    def _dump(self, requests: Requests | None) -> None:
        recording = Recording([self.losing.moment()])
        self._under_way.append(recording)
        try:
            with living(self.losing.cluster) as cluster, met_at(requests or Requests()):
                count, store = self.chance.randint(1, 3), self._store()
                with TemporaryDirectory() as folder:
                    file = Path(folder, "dump")
                    done = dump_cluster(cluster, NewestEntries(cluster.reading), file, lambda *_: None)
                    added = add_dump(store, dumps_folder(cluster), file, done.began_ms)
                remove_old_dumps(store, added, count)
        except Died:
            # It may have added one before; that it is a whole one, or none, is all that is known.
            added_now = [one for one in kept_dumps(self._store()) if one.key not in self.recordings]
            self.recordings |= {one.key: recording for one in added_now if self._is_own(one)}
        else:
            self.recordings[added.key] = recording
        finally:
            self._under_way.remove(recording)

    def _is_own(self, one: KeptDump) -> bool:
        with living(self.losing.cluster) as cluster:
            return one.cluster == dumps_folder(cluster)

    def _meanwhile(self) -> None:
        if self.chance.random() < 0.5:
            # A list that is read later has a ledger that was not there when ledgers were read.
            topic = self.chance.choice(self.losing.topics)
            for act in (self.losing.publish, self.losing.roll_over, self.losing.publish):
                act(topic)
                self.note()
        for _ in range(self.chance.randint(1, 3)):
            self.lives()

    def _store(self) -> RawStore:
        self.losing.bucket.mkdir(parents=True, exist_ok=True)
        return dumps_store(self.losing.cluster.bucket_url(), {})
