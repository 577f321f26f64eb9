"""Changes of the voter set, as the leader makes them (KIP-853): one voter at a time.

A change is a VotersRecord in the log. It counts as soon as it is written, and the next one waits
until it is committed; so every two majorities overlap. A new voter must be at the end of the log
and know the version of the quorum; a leader that is removed resigns when the record is
committed.

A static quorum (kraft.version 0) becomes a dynamic one by an upgrade: in every epoch each voter
tells the leader its directory and endpoints, and when all have, the leader can write the version
and the voters. They go into one batch, so that nobody has the one without the other.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from ottla.common.environment import Cancellable
from ottla.common.errors import (
    ApiError,
    DuplicateVoter,
    ErrorCode,
    InconsistentClusterId,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnsupportedVersion,
    VoterNotFound,
)
from ottla.common.identifiers import ZERO_UUID
from ottla.common.promise import Promise
from ottla.protocol.generated import add_raft_voter, remove_raft_voter, update_raft_voter
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.message import to_bytes
from ottla.raft.channel import Destination
from ottla.raft.control import kraft_version_value
from ottla.raft.driver import RaftDriver
from ottla.raft.responses import endpoint_of, update_voter_response
from ottla.raft.roles import Leader
from ottla.raft.service import RaftService
from ottla.raft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet
from ottla.records.control import ControlType

KRAFT_VERSION: Final = "kraft.version"


class _Listener(Protocol):
    name: str
    host: str
    port: int


class _Change:
    """The change that is under way; ``done`` is told how it ended."""

    __slots__ = ("done", "last_offset", "timer")

    def __init__(self, done: Callable[[ApiError | None], None]) -> None:
        self.done = done
        self.last_offset: int | None = None
        """Of the VotersRecord; None while it is not written."""
        self.timer: Cancellable | None = None


class VoterChanges:
    """Adds, removes and updates voters while this node leads."""

    def __init__(self, driver: RaftDriver, service: RaftService) -> None:
        self._driver = driver
        self._service = service
        self._change: _Change | None = None
        driver.on_progress.append(self._progressed)

    # Requests

    def add(
        self, request: add_raft_voter.AddRaftVoterRequest
    ) -> Promise[add_raft_voter.AddRaftVoterResponse]:
        answer: Promise[add_raft_voter.AddRaftVoterResponse] = Promise(self._driver.scheduler.turn)

        def done(error: ApiError | None) -> None:
            if not answer.done:
                answer.fulfil(
                    add_raft_voter.AddRaftVoterResponse(**_outcome(error))  # type: ignore[arg-type]
                )

        try:
            key, endpoints = self._check_add(request)
        except ApiError as error:
            done(error)
            return answer
        # The request's own timeout is not looked at, as in Kafka.
        change = self._begin(done, self._driver.settings.request_timeout_ms)
        endpoint = endpoint_of(endpoints, self._driver.settings.listener_name)
        assert endpoint is not None
        asked = self._driver.channel.send(
            Destination(key.node_id, endpoint.host, endpoint.port),
            ApiVersionsRequest(client_software_name="ottla", client_software_version="1"),
        )
        asked.when_done(
            lambda versions: self._versions_known(
                change, key, endpoints, versions, acknowledge=not request.ack_when_committed
            )
        )
        return answer

    def remove(
        self, request: remove_raft_voter.RemoveRaftVoterRequest
    ) -> Promise[remove_raft_voter.RemoveRaftVoterResponse]:
        answer: Promise[remove_raft_voter.RemoveRaftVoterResponse] = Promise(
            self._driver.scheduler.turn
        )

        def done(error: ApiError | None) -> None:
            answer.fulfil(
                remove_raft_voter.RemoveRaftVoterResponse(**_outcome(error))  # type: ignore[arg-type]
            )

        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        try:
            self._check_cluster(request.cluster_id)
            if key.node_id < 0 or key.directory_id == ZERO_UUID:
                raise InvalidRequest("Remove voter request didn't include a valid voter")
            self._check_ready("removing")
            voters = self._driver.control.voters.without(key)
            if voters is None:
                raise VoterNotFound(
                    f"Cannot remove voter {key} from the set of voters "
                    f"{_listed(self._driver.control.voters.keys)}"
                )
        except ApiError as error:
            done(error)
            return answer
        change = self._begin(done, self._driver.settings.request_timeout_ms)
        self._write(change, voters)
        return answer

    def update(
        self, request: update_raft_voter.UpdateRaftVoterRequest, listener_name: str
    ) -> update_raft_voter.UpdateRaftVoterResponse:
        driver = self._driver
        error = self._service.leader_only_error(request.current_leader_epoch)
        if not self._service.is_of_this_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
        if error == ErrorCode.NONE:
            try:
                self._update(request)
            except ApiError as refusal:
                error = refusal.code
        return update_voter_response(error, driver.node.leader, listener_name)

    def _update(self, request: update_raft_voter.UpdateRaftVoterRequest) -> None:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        versions = request.k_raft_version_feature
        low, high = versions.min_supported_version, versions.max_supported_version
        endpoints = self._endpoints(request.listeners)
        if (
            key.node_id < 0
            or key.directory_id == ZERO_UUID
            or not endpoints
            or not 0 <= low <= high
        ):
            raise InvalidRequest
        role = self._check_epoch_committed()
        if not low <= self._driver.kraft_version <= high:
            raise InvalidRequest
        voter = VoterNode(key, endpoints, (low, high))
        if role.stated is not None:
            stated = role.stated.stated(voter)
            if stated is None:
                raise VoterNotFound
            role.stated = stated
            return
        self._check_voters_committed(role)
        updated = self._driver.control.voters.updated(voter)
        if updated is None:
            raise VoterNotFound
        self._append(updated)

    # The upgrade of a static quorum

    @property
    def kraft_version(self) -> int:
        return self._driver.kraft_version

    def upgrade(self, version: int, *, validate_only: bool) -> None:
        """Write a later kraft.version and the voters with it, or say why that cannot be."""
        role = self._driver.node.role
        if self._driver.is_down or not isinstance(role, Leader):
            raise NotController("No controller appears to be active.")
        if version == self._driver.kraft_version:
            return
        if role.stated is None:
            raise InvalidUpdateVersion(
                f"Invalid upgrade of {KRAFT_VERSION} from version "
                f"KRAFT_VERSION_{self._driver.kraft_version} to KRAFT_VERSION_{version}"
            )
        if not role.stated.support(version):
            raise InvalidUpdateVersion(
                f"Invalid upgrade of {KRAFT_VERSION} to KRAFT_VERSION_{version} because not all "
                "of the voters support it"
            )
        if not validate_only:
            self._driver.append_control(
                [
                    (ControlType.KRAFT_VERSION, kraft_version_value(version)),
                    (ControlType.KRAFT_VOTERS, to_bytes(role.stated.to_record(), 0)),
                ]
            )

    # Checks

    def _check_add(
        self, request: add_raft_voter.AddRaftVoterRequest
    ) -> tuple[ReplicaKey, tuple[VoterEndpoint, ...]]:
        self._check_cluster(request.cluster_id)
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if key.node_id < 0 or key.directory_id == ZERO_UUID:
            raise InvalidRequest("Add voter request didn't include a valid voter")
        endpoints = self._endpoints(request.listeners)
        if not endpoints:
            raise InvalidRequest(
                f"Add voter request didn't include the endpoint for the default listener "
                f"{self._driver.settings.listener_name}"
            )
        self._check_ready("adding")
        voters = self._driver.control.voters
        if key.node_id in voters.ids:
            raise DuplicateVoter(
                f"The voter id for {key} is already part of the set of voters "
                f"{_listed(voters.keys)}."
            )
        return key, endpoints

    def _endpoints(self, listeners: Sequence[_Listener]) -> tuple[VoterEndpoint, ...]:
        """None when the listener at which controllers talk is not among them."""
        found = tuple(VoterEndpoint(each.name, each.host, each.port) for each in listeners)
        name = self._driver.settings.listener_name
        return found if any(each.name == name for each in found) else ()

    def _check_cluster(self, cluster_id: str | None) -> None:
        if not self._service.is_of_this_cluster(cluster_id):
            raise InconsistentClusterId(
                f'The given id "{cluster_id}" doesn\'t match the cluster id '
                f'"{self._driver.settings.cluster_id}"'
            )
        if self._driver.is_down or not self._driver.node.is_leader:
            raise NotLeaderOrFollower

    def _check_ready(self, doing: str) -> None:
        role = self._check_epoch_committed()
        if self._driver.kraft_version == 0:
            raise UnsupportedVersion(
                f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
            )
        self._check_voters_committed(role)

    def _check_epoch_committed(self) -> Leader:
        role = self._driver.node.role
        assert isinstance(role, Leader)
        if self._change is not None:
            raise RequestTimedOut(
                "Request timed out waiting for leader to handle previous voter change request"
            )
        if role.high_watermark is None:
            raise RequestTimedOut(
                "Request timed out waiting for leader to establish HWM and fence previous voter "
                "changes"
            )
        return role

    def _check_voters_committed(self, role: Leader) -> None:
        offset = self._driver.control.voters_offset
        if role.high_watermark is None or offset >= role.high_watermark:
            raise RequestTimedOut(
                "Request timed out waiting for voters to commit the latest voter change at "
                f"{offset} with HWM {role.high_watermark}"
            )

    # The change that is under way

    def _begin(self, done: Callable[[ApiError | None], None], timeout_ms: int) -> _Change:
        change = self._change = _Change(done)
        change.timer = self._driver.scheduler.call_later(
            timeout_ms / 1000, self._end, change, RequestTimedOut()
        )
        return change

    def _end(self, change: _Change, error: ApiError | None) -> None:
        if self._change is not change:
            return
        self._change = None
        if change.timer is not None:
            change.timer.cancel()
        change.done(error)

    def _versions_known(
        self,
        change: _Change,
        key: ReplicaKey,
        endpoints: tuple[VoterEndpoint, ...],
        asked: Promise[ApiVersionsResponse],
        *,
        acknowledge: bool,
    ) -> None:
        role = self._driver.node.role
        if self._change is not change or not isinstance(role, Leader):
            return
        try:
            low, high = _kraft_versions(asked)
        except Exception as error:  # noqa: BLE001 - whatever it was, the new voter is not there
            reason = f"Aborted add voter operation for since API_VERSIONS returned an error {error}"
            self._end(change, RequestTimedOut(reason))
            return
        finalized = self._driver.kraft_version
        if not low <= finalized <= high:
            self._end(
                change,
                InvalidRequest(
                    f"Aborted add voter operation for {key} since the kraft.version range "
                    f"(min: {low}, max: {high}) doesn't support the finalized version {finalized}"
                ),
            )
            return
        if not role.is_caught_up(key, self._driver.now):
            reason = f"Aborted add voter operation for {key} since it is lagging behind"
            self._end(change, RequestTimedOut(reason))
            return
        voter = VoterNode(key, endpoints, (low, high))
        self._write(change, self._driver.control.voters.with_voter(voter))
        if acknowledge:
            change.done(None)

    def _write(self, change: _Change, voters: VoterSet) -> None:
        change.last_offset = self._driver.end_offset
        self._append(voters)

    def _append(self, voters: VoterSet) -> None:
        self._driver.append_control([(ControlType.KRAFT_VOTERS, to_bytes(voters.to_record(), 0))])

    def _progressed(self) -> None:
        driver = self._driver
        change, role = self._change, driver.node.role
        if change is None:
            return
        if not isinstance(role, Leader):
            self._end(change, NotLeaderOrFollower())
        elif (
            change.last_offset is not None
            and role.high_watermark is not None
            and role.high_watermark > change.last_offset
        ):
            self._end(change, None)


def _kraft_versions(asked: Promise[ApiVersionsResponse]) -> tuple[int, int]:
    response = asked.result()
    if response.error_code:
        raise ValueError(ErrorCode(response.error_code).name)
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION:
            return feature.min_version, feature.max_version
    return 0, 0


def _outcome(error: ApiError | None) -> dict[str, object]:
    if error is None:
        return {"error_code": ErrorCode.NONE, "error_message": None}
    return {"error_code": error.code, "error_message": error.message or None}


def _listed(keys: Iterable[ReplicaKey]) -> str:
    return f"[{', '.join(map(str, keys))}]"
