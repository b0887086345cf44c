"""The toolkit for clusters: everything that needs more than a bucket.

Core: `ledgerfs`, which opens buckets and never imports this package. By entry points this package adds the sources `pulsar+zk://` and
`bookies://` (begin with `source_schemes.py`) and the commands `bookie`, `cluster`, `lifecycle`, `recover` and `schemas save` (`cli/`).
Bottom up: `formats/`, `zookeeper/`, `snapshot/` (all metadata as columns), `rules/` (conclusions from it), then `check/`, `offload/`,
`lifecycle/` and `recovery/`. `LedgerOffloader` and `ManagedLedger` are in `ledgerfs_cluster.offload`, errors in `errors.py`.
"""
