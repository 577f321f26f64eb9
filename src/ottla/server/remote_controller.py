"""The active controller, wherever it is: in this process, or the one that the quorum follows.

Rules:
1. While no controller is known, or the one that was asked is not it any more, cannot be reached, or
   does not speak our version of the request, it is tried again until its time is over; then it
   fails with REQUEST_TIMED_OUT.
2. A request to a controller that is replaced goes to the new one, and does not wait for the old.
3. Whatever else a controller refuses is the answer, as the ``ApiError`` that it was there.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from ottla.common.authorization import Client
from ottla.common.environment import Scheduler
from ottla.common.errors import ErrorCode, NotController, RequestTimedOut, error_of
from ottla.common.promise import Promise, run
from ottla.controller.driver import ControllerDriver
from ottla.handlers.envelope import disclose, enclose
from ottla.protocol.generated.create_topics import CreateTopicsResponse
from ottla.protocol.generated.envelope import EnvelopeRequest
from ottla.protocol.message import CodedResponse, ExplainedResponse, Request, Response
from ottla.raft.channel import Destination, RaftChannel
from ottla.raft.driver import RaftDriver
from ottla.raft.responses import endpoint_of
from ottla.raft.voters import LeaderInfo

RETRY_SECONDS: Final = 0.05

R = TypeVar("R", bound=Response)


class RemoteController:
    """Implements ``ControllerClient``. ``local`` is this node's own controller, if it has one."""

    def __init__(
        self,
        *,
        raft: RaftDriver,
        channel: RaftChannel,
        scheduler: Scheduler,
        timeout_ms: int,
        local: ControllerDriver | None = None,
    ) -> None:
        self._raft = raft
        self._channel = channel
        self._scheduler = scheduler
        self._timeout = timeout_ms / 1000
        self._local = local
        self._closed = False
        self._leader = (-1, -1)
        self._waiting: dict[Promise[None], Callable[[], None]] = {}
        """Requests that wait for a response or for another leader, and how to wake them."""
        raft.on_progress.append(self._look_at_leader)

    def _look_at_leader(self) -> None:
        leader = self._raft.node.leader
        if leader[:2] != self._leader:
            self._leader = leader[:2]
            self._wake()

    def _wake(self) -> None:
        for wake in list(self._waiting.values()):
            wake()

    def close(self) -> None:
        """Nobody is asked any more; waiting requests are refused."""
        self._closed = True
        self._wake()

    @property
    def active_here(self) -> ControllerDriver | None:
        """The controller of this process, while it is the active one."""
        local = self._local
        return local if local is not None and local.is_active else None

    def submit(
        self,
        request: Request[R],
        client: Client | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Promise[R]:
        """``timeout_ms`` is how long the client waits, if that is known: not longer than we would.

        An envelope is only for a controller in another process: NotController when it is here.
        """
        seconds = self._timeout if timeout_ms is None else min(self._timeout, timeout_ms / 1000)
        return run(
            self._scheduler.turn,
            self._submitted(request, client, self._scheduler.monotonic() + seconds),
        )

    async def _submitted(self, request: Request[R], client: Client | None, deadline: float) -> R:
        while not self._closed:
            local = self.active_here
            if local is not None and isinstance(request, EnvelopeRequest):
                raise NotController("The active controller is in this process now.")
            with suppress(NotController, OSError):
                if local is not None:
                    return await local.submit(request, client)
                if client is None:
                    return await self._send(request, deadline)
                answered = await self._send(enclose(request, client), deadline)
                return checked(disclose(request, answered))
            left = deadline - self._scheduler.monotonic()
            if left <= 0 or self._closed:
                break
            await self._wait(min(RETRY_SECONDS, left))
        raise RequestTimedOut(f"no controller has answered {type(request).__name__}")

    async def _send(self, request: Request[R], deadline: float) -> R:
        """Send once to the leader; NotController or OSError when another time may do."""
        node = self._raft.node
        leader = node.leader
        endpoint = endpoint_of(
            leader.endpoints or node.voters.endpoints_of(leader.leader_id),
            self._raft.settings.listener_name,
        )
        if leader.leader_id < 0 or endpoint is None:
            raise NotController("No controller appears to be active.")
        if leader.leader_id == self._raft.key.node_id:
            raise NotController("The controller here is not active yet.")
        destination = Destination(leader.leader_id, endpoint.host, endpoint.port)
        answered = self._channel.send(destination, request)
        left = deadline - self._scheduler.monotonic()
        while not (answered.done or self._closed or left <= 0) and self._leads(leader):
            await self._wait(left, answered)
            left = deadline - self._scheduler.monotonic()
        if not answered.done:
            raise NotController("The controller has been replaced, or is silent.")
        try:
            response = answered.result()
        except ValueError as error:  # of a version that is none
            raise NotController(str(error)) from error
        return checked(response)

    def _leads(self, leader: LeaderInfo) -> bool:
        return self._raft.node.leader[:2] == leader[:2]

    def _wait(self, seconds: float, answered: Promise[R] | None = None) -> Promise[None]:
        """Until ``answered`` is, another leads, this is closed, or the time is over."""
        waits: Promise[None] = Promise(self._scheduler.turn)

        def wake(_: object = None) -> None:
            if self._waiting.pop(waits, None) is not None:
                timer.cancel()
                waits.fulfil(None)

        self._waiting[waits] = wake
        timer = self._scheduler.call_later(max(0.0, seconds), wake)
        if answered is not None:
            answered.when_done(wake)
        return waits


def checked(response: R) -> R:
    """The response; raises what the whole request was refused with."""
    if isinstance(response, CodedResponse) and response.error_code != ErrorCode.NONE:
        words = response.error_message if isinstance(response, ExplainedResponse) else None
        raise error_of(response.error_code, words or "")
    if isinstance(response, CreateTopicsResponse):
        # Sent by us and not in an envelope, it can say so only for each topic.
        codes = (topic.error_code for topic in response.topics)
        if ErrorCode.NOT_CONTROLLER in codes:
            raise NotController
    return response
