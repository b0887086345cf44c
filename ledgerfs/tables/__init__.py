"""Write rows to files (Parquet, JSON lines, Arrow, CSV), and read rows from files."""
