"""SQL over topics: each topic is a table of DuckDB, of which only the wanted offsets and columns are read."""
