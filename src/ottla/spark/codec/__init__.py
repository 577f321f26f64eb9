"""Record batches and tables of Arrow, each made from the other: no Python for any record."""
