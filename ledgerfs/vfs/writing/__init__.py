"""Writing ledgers as Pulsar's offloader does: data object first, index object last (DESIGN §6, ``facts/pulsar-format.md`` §1.1)."""
