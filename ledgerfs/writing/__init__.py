"""Write ledgers as Pulsar's offloader does: data object first, index object last (``docs/formats/pulsar-blob.md``)."""
