"""CRC-32C (Castagnoli), the checksum of record batches and producer snapshots."""

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c"]
