"""Values to columns: payloads by the schema that wrote them, as Arrow arrays of the schema's types."""
