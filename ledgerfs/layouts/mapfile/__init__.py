"""Folders of Hadoop MapFiles, as Pulsar's filesystem offloader writes them: one per ledger, with the objects ``data`` and ``index``."""
