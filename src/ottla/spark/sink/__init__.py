"""Writing: rows of a query to topics, once by transactions when that is asked for."""
