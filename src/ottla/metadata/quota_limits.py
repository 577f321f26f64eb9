"""Which client quota holds for whom: one key of all quotas, and the order in which they are asked.

The first that is there holds: what is said of a user and a client id together, then of the user,
then of any user, then of the client id. How it is said decides who shares a bucket, too: all
clients of a user, all users of a client id, or nobody. The default is not a bucket for all: each
that it is for gets a bucket of that size.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from ottla.metadata.client_quotas import CLIENT_ID, IP, USER, QuotaEntity
from ottla.metadata.delta import MetadataDelta

_ANY_IP: Final[QuotaEntity] = ((IP, None),)


class Limit(NamedTuple):
    bound: float
    bucket: QuotaEntity
    """Who shares it, with all their names."""


class QuotaLimits:
    """The values of one key."""

    __slots__ = ("_bounds", "_key")

    def __init__(self, key: str) -> None:
        self._key = key
        self._bounds: dict[QuotaEntity, float] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def changed(self, delta: MetadataDelta) -> None:
        for entity, quotas in delta.client_quotas.changed.items():
            bound = quotas.get(self._key)
            which = _by_address(entity)
            if bound is None:
                self._bounds.pop(which, None)
            else:
                self._bounds[which] = bound

    def of_client(self, user: str, client_id: str) -> Limit | None:
        """None: not limited."""
        bounds = self._bounds
        both: QuotaEntity = ((CLIENT_ID, client_id), (USER, user))
        its_user, its_id = both[1:], both[:1]
        for entity, bucket in (
            (both, both),
            (((CLIENT_ID, None), (USER, user)), both),
            (its_user, its_user),
            (((CLIENT_ID, client_id), (USER, None)), both),
            (((CLIENT_ID, None), (USER, None)), both),
            (((USER, None),), its_user),
            (its_id, its_id),
            (((CLIENT_ID, None),), its_id),
        ):
            bound = bounds.get(entity)
            if bound is not None:
                return Limit(bound, bucket)
        return None

    def of_ip(self, ip: str) -> Limit | None:
        entity = _by_address(((IP, ip),))
        bound = self._bounds.get(entity, self._bounds.get(_ANY_IP))
        return None if bound is None else Limit(bound, entity)


def _by_address(entity: QuotaEntity) -> QuotaEntity:
    """An address has many forms, and is one: an IPv4 address in an IPv6 socket, too."""
    kind, name = entity[0]
    if kind != IP or name is None:
        return entity
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return entity
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return ((IP, str(mapped or address)),)
