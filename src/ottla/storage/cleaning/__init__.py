"""Compaction: of each key the last record stays; see docs/internals/compaction.md."""
