"""Requests of clients that may be limited: measured, and answered with the time to wait.

Only where there is a quota of anybody. An answer goes out as soon as it is there, and says how long
the client has to wait; its connection is not read for so long, whether the client waits or not.

What counts as the time of a request is the time that the node's one loop spends in the call that
handles it. What it waits for, and what is done for it later, costs nobody else this time.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from ottla.common.authorization import CLUSTER_NAME, AclOperation, ResourceType
from ottla.common.buffers import Answer
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.protocol.message import Response
from ottla.protocol.throttle_time import throttle_time_ms, with_throttle_time
from ottla.requests.context import NodeServices, Peer, RequestContext
from ottla.requests.contract import Contract, Quota
from ottla.requests.quotas import ClientQuotas

_HEADER: Final = Struct(">hhih")
HEADER_SIZE: Final = 10


class RequestMeter:
    """One request, and what it costs its client."""

    __slots__ = ("_began", "_peer", "_quotas", "_spent", "client_id", "user", "version")

    def __init__(self, quotas: ClientQuotas, peer: Peer, frame: memoryview) -> None:
        _, self.version, _, client_size = _HEADER.unpack_from(frame, 0)
        self._quotas = quotas
        self._peer = peer
        self.user = peer.principal.name
        named = frame[HEADER_SIZE : HEADER_SIZE + max(client_size, 0)]
        self.client_id = str(named, "utf-8", "replace")
        self._spent = 0.0
        self._began = quotas.seconds()

    def pause(self) -> None:
        """It waits for something."""
        self._spent += self._quotas.seconds() - self._began

    def resume(self) -> None:
        self._began = self._quotas.seconds()

    # What a request counts against

    def produced(self, size: int) -> int:
        return self._quotas.produce.record(self, size, self._quotas.ms())

    def spent(self) -> int:
        self.pause()
        self.resume()
        spent, self._spent = self._spent, 0.0
        return self._quotas.spent(self, spent)

    def most_fetched(self) -> float | None:
        """How many bytes an answer to a fetch may have, for it to be sent at all."""
        return self._quotas.fetch.most_at_once(self)

    def fetched(self, size: int) -> int:
        """Count an answer, unless it has to wait: then it is not sent.

        A batch that is more than the windows hold is let through when they are empty: else the
        client would never come past it.
        """
        fetch, now_ms = self._quotas.fetch, self._quotas.ms()
        waits_ms = fetch.record(self, size, now_ms)
        if waits_ms and size > (self.most_fetched() or 0) and fetch.is_first(self, size, now_ms):
            waits_ms = 0
        waits_ms = max(waits_ms, self.spent())
        if waits_ms:
            fetch.take_back(self, size, now_ms)
        return waits_ms

    # What the client hears of it

    def throttled(self, answer: Answer, response: type[Response], waits_ms: int) -> Answer:
        """The answer, with the time to wait; from now on the client is not read from."""
        if waits_ms <= 0:
            return answer
        self.mute(waits_ms)
        return with_throttle_time(answer, response, self.version, waits_ms)

    def mute(self, waits_ms: int) -> None:
        if waits_ms > 0:
            self._peer.mute(waits_ms / 1000)


def metered(
    peer: Peer,
    frame: memoryview,
    services: NodeServices,
    answer: "Callable[[Peer, memoryview], Answer | Promise[Answer] | None]",
    contract_of: Callable[[int], Contract],
) -> "Answer | Promise[Answer] | None":
    """What ``answer`` says, when it is known what that costs. Fetch counts by itself."""
    meter = RequestMeter(services.quotas, peer, frame)
    (key, *_), size = _HEADER.unpack_from(frame, 0), len(frame)
    answered = answer(peer, frame)
    contract = contract_of(key)
    if contract.quota is Quota.FETCH or _is_exempt(contract, meter, peer, services):
        return answered

    def settled(known: Answer | None) -> Answer | None:
        waits_ms = meter.produced(size) if contract.quota is Quota.PRODUCE else 0
        if known is None:  # acks=0
            meter.mute(waits_ms)
            return None
        waits_ms = max(waits_ms, meter.spent())
        if contract.is_passed_on:
            waits_ms = max(waits_ms, throttle_time_ms(known, contract.response, meter.version))
        return meter.throttled(known, contract.response, waits_ms)

    if not isinstance(answered, Promise):
        return settled(answered)
    if answered.done:
        return settled(answered.result())
    meter.pause()
    late: Promise[Answer] = Promise(services.scheduler.turn)

    def settle(done: Promise[Answer]) -> None:
        meter.resume()
        try:
            late.fulfil(settled(done.result()))  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - the connection hears of it
            late.fail(error)

    answered.when_done(settle)
    return late


def _is_exempt(contract: Contract, meter: RequestMeter, peer: Peer, services: NodeServices) -> bool:
    """Nodes ask each other so; who is none, and asks all the same, is limited as all are."""
    if contract.quota is not Quota.EXEMPT:
        return False
    client = RequestContext(
        version=meter.version,
        client_id=meter.client_id,
        peer=peer,
        principal=peer.principal,
        request_name=contract.name,
    )
    try:
        return services.authorizer.allows(
            client,
            AclOperation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            log_if_denied=False,
        )
    except ApiError:  # the ACLs are not known yet, so nobody is known to be a node
        return False
