"""New keys, as a peer of TLS 1.3 may ask for them (RFC 8446, 4.6.3); Python's own cannot.

What a handshake of OpenSSL has agreed upon is in its key log; from there on records are made here.
"""

from pathlib import Path
from struct import pack

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

CIPHER = "TLS_AES_256_GCM_SHA384"
_SECRET_BYTES = SHA384.digest_size
_KEY_UPDATE = bytes.fromhex("18000001")
_HANDSHAKE = b"\x16"
_APPLICATION_DATA = b"\x17"


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    name = b"tls13 " + label
    return HKDFExpand(SHA384(), size, pack(">HB", size, len(name)) + name + b"\0").derive(secret)


def client_secret(key_log: Path) -> bytes:
    """What a client encrypts by that has sent nothing since its handshake."""
    for line in key_log.read_text().splitlines():
        if line.startswith("CLIENT_TRAFFIC_SECRET_0 "):
            return bytes.fromhex(line.split()[2])
    raise AssertionError("no handshake of TLS 1.3")


class ClientRecords:
    """The records of such a client, one after the other."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._number = 0

    def _sealed(self, inner: bytes) -> bytes:
        head = pack(">BHH", 0x17, 0x0303, len(inner) + 16)
        start = int.from_bytes(_expanded(self._secret, b"iv", 12), "big")
        nonce = (start ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + AESGCM(_expanded(self._secret, b"key", 32)).encrypt(nonce, inner, head)

    def data(self, data: bytes) -> bytes:
        return self._sealed(data + _APPLICATION_DATA)

    def key_update(self, *, is_requested: bool = True) -> bytes:
        """From here on by another key; one that ``is_requested`` of the other side, too."""
        sealed = self._sealed(_KEY_UPDATE + bytes([is_requested]) + _HANDSHAKE)
        self._secret = _expanded(self._secret, b"traffic upd", _SECRET_BYTES)
        self._number = 0
        return sealed
