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
from typing import Final, TypeVar, cast

from ottla.common.environment import Scheduler
from ottla.common.errors import ErrorCode, NotController, RequestTimedOut, error_of
from ottla.common.promise import Promise, run
from ottla.controller.driver import ControllerDriver
from ottla.protocol.generated import allocate_producer_ids as apid
from ottla.protocol.generated import alter_configs as ac
from ottla.protocol.generated import alter_partition as ap
from ottla.protocol.generated import alter_partition_reassignments as apr
from ottla.protocol.generated import assign_replicas_to_dirs as artd
from ottla.protocol.generated import broker_heartbeat as bh
from ottla.protocol.generated import broker_registration as br
from ottla.protocol.generated import controller_registration as cr
from ottla.protocol.generated import create_partitions as cp
from ottla.protocol.generated import create_topics as ct
from ottla.protocol.generated import delete_topics as dt
from ottla.protocol.generated import describe_quorum as dq
from ottla.protocol.generated import elect_leaders as el
from ottla.protocol.generated import incremental_alter_configs as iac
from ottla.protocol.generated import list_partition_reassignments as lpr
from ottla.protocol.generated import unregister_broker as ub
from ottla.protocol.generated import update_features as uf
from ottla.protocol.message import Message
from ottla.raft.channel import Destination, RaftChannel
from ottla.raft.driver import RaftDriver
from ottla.raft.replies import endpoint_of
from ottla.raft.voters import LeaderInfo

RETRY_SECONDS: Final = 0.05
_ITEMS: Final = ("topics", "results", "responses")
"""Where answers without an error of their own have those of what was asked for."""

R = TypeVar("R")


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
            # In a turn of its own: the quorum is in the middle of a step.
            self._scheduler.call_soon(self._wake)

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

    def send(self, request: Message, timeout_ms: int | None = None) -> Promise[Message]:
        """Ask a controller that is not in this process; NotController when it is here by now.

        ``timeout_ms`` is how long the client will wait, if that is known: not longer than we would.
        """
        return self._ask(request, None, timeout_ms)

    def _ask(
        self,
        request: Message,
        ask_local: Callable[[ControllerDriver], Promise[R]] | None,
        timeout_ms: int | None = None,
    ) -> Promise[R]:
        seconds = self._timeout if timeout_ms is None else min(self._timeout, timeout_ms / 1000)
        return run(self._asked(request, ask_local, self._scheduler.monotonic() + seconds))

    async def _asked(
        self,
        request: Message,
        ask_local: Callable[[ControllerDriver], Promise[R]] | None,
        deadline: float,
    ) -> R:
        while not self._closed:
            local = self.active_here
            if local is not None and ask_local is None:
                raise NotController("The active controller is in this process now.")
            with suppress(NotController, OSError):
                if local is not None and ask_local is not None:
                    return await ask_local(local)
                return cast("R", await self._send(request, deadline))
            left = deadline - self._scheduler.monotonic()
            if left <= 0 or self._closed:
                break
            await self._wait(min(RETRY_SECONDS, left))
        raise RequestTimedOut(f"no controller has answered {type(request).__name__}")

    async def _send(self, request: Message, deadline: float) -> Message:
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
        check(response)
        return response

    def _leads(self, leader: LeaderInfo) -> bool:
        return self._raft.node.leader[:2] == leader[:2]

    def _wait(self, seconds: float, answered: Promise[Message] | None = None) -> Promise[None]:
        """Until ``answered`` is, another leads, this is closed, or the time is over."""
        waits: Promise[None] = Promise()

        def wake(_: object = None) -> None:
            if self._waiting.pop(waits, None) is not None:
                timer.cancel()
                waits.fulfil(None)

        self._waiting[waits] = wake
        timer = self._scheduler.call_later(max(0.0, seconds), wake)
        if answered is not None:
            answered.when_done(wake)
        return waits

    # From clients, by way of a broker

    def create_topics(
        self,
        request: ct.CreateTopicsRequest,
        describable: Callable[[str], bool] = lambda _topic: True,
    ) -> Promise[ct.CreateTopicsResponse]:
        return self._ask(request, lambda local: local.create_topics(request, describable))

    def delete_topics(self, request: dt.DeleteTopicsRequest) -> Promise[dt.DeleteTopicsResponse]:
        return self._ask(request, lambda local: local.delete_topics(request))

    def create_partitions(
        self, request: cp.CreatePartitionsRequest
    ) -> Promise[cp.CreatePartitionsResponse]:
        return self._ask(request, lambda local: local.create_partitions(request))

    def alter_configs(self, request: ac.AlterConfigsRequest) -> Promise[ac.AlterConfigsResponse]:
        return self._ask(request, lambda local: local.alter_configs(request))

    def incremental_alter_configs(
        self, request: iac.IncrementalAlterConfigsRequest
    ) -> Promise[iac.IncrementalAlterConfigsResponse]:
        return self._ask(request, lambda local: local.incremental_alter_configs(request))

    def update_features(
        self, request: uf.UpdateFeaturesRequest
    ) -> Promise[uf.UpdateFeaturesResponse]:
        return self._ask(request, lambda local: local.update_features(request))

    def elect_leaders(self, request: el.ElectLeadersRequest) -> Promise[el.ElectLeadersResponse]:
        return self._ask(request, lambda local: local.elect_leaders(request))

    def alter_partition_reassignments(
        self, request: apr.AlterPartitionReassignmentsRequest
    ) -> Promise[apr.AlterPartitionReassignmentsResponse]:
        return self._ask(request, lambda local: local.alter_partition_reassignments(request))

    def list_partition_reassignments(
        self, request: lpr.ListPartitionReassignmentsRequest
    ) -> Promise[lpr.ListPartitionReassignmentsResponse]:
        return self._ask(request, lambda local: local.list_partition_reassignments(request))

    def unregister_broker(
        self, request: ub.UnregisterBrokerRequest
    ) -> Promise[ub.UnregisterBrokerResponse]:
        return self._ask(request, lambda local: local.unregister_broker(request))

    def describe_quorum(
        self, request: dq.DescribeQuorumRequest
    ) -> Promise[dq.DescribeQuorumResponse]:
        return self._ask(request, lambda local: local.describe_quorum(request))

    # From brokers and controllers

    def register_broker(
        self, request: br.BrokerRegistrationRequest
    ) -> Promise[br.BrokerRegistrationResponse]:
        return self._ask(request, lambda local: local.register_broker(request))

    def broker_heartbeat(
        self, request: bh.BrokerHeartbeatRequest
    ) -> Promise[bh.BrokerHeartbeatResponse]:
        return self._ask(request, lambda local: local.broker_heartbeat(request))

    def allocate_producer_ids(
        self, request: apid.AllocateProducerIdsRequest
    ) -> Promise[apid.AllocateProducerIdsResponse]:
        return self._ask(request, lambda local: local.allocate_producer_ids(request))

    def alter_partition(
        self, request: ap.AlterPartitionRequest
    ) -> Promise[ap.AlterPartitionResponse]:
        return self._ask(request, lambda local: local.alter_partition(request))

    def assign_replicas_to_dirs(
        self, request: artd.AssignReplicasToDirsRequest
    ) -> Promise[artd.AssignReplicasToDirsResponse]:
        return self._ask(request, lambda local: local.assign_replicas_to_dirs(request))

    def register_controller(
        self, request: cr.ControllerRegistrationRequest
    ) -> Promise[cr.ControllerRegistrationResponse]:
        return self._ask(request, lambda local: local.register_controller(request))


def check(response: Message) -> None:
    """Raise what the whole request was refused with."""
    code = getattr(response, "error_code", ErrorCode.NONE)
    if code != ErrorCode.NONE:
        raise error_of(code, getattr(response, "error_message", None) or "")
    for name in _ITEMS:
        for item in getattr(response, name, ()):
            if getattr(item, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
                raise NotController
