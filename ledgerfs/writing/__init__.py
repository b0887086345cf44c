"""Writing ledgers as Pulsar's offloader does: data object first, index object last (``docs/format.md``)."""
