"""SQL over topics: a DuckDB connection with topics as tables."""
