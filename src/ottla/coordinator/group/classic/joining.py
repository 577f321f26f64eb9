"""A JoinGroup request on its way, with all that belongs to it.

The answer is that of the :class:`Outcome`. One that can be given at once is given by the runtime
when the records that it rests on are committed; of a member that must wait for others it is the
promise ``Joining.answer``.
"""

from typing import Final

from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.shard import Outcome
from ottla.protocol.generated.join_group import JoinGroupRequest, JoinGroupResponse

Joined = Outcome[GroupRecord, JoinGroupResponse | Promise[JoinGroupResponse]]
"""A promise: the member waits for the others."""
UNKNOWN_MEMBER: Final = ""
"""The id of a member that has none yet."""


def join_refused(error: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def refuse(error: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> Joined:
    return Outcome([], join_refused(error, member_id))


class Joining:
    __slots__ = ("answer", "caller", "now_ms", "protocols", "request")

    def __init__(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        answer: Promise[JoinGroupResponse],
        now_ms: int,
    ) -> None:
        self.request = request
        self.caller = caller
        self.answer = answer
        self.now_ms = now_ms
        self.protocols = {each.name: each.metadata for each in request.protocols}

    def waits(self, outcome: Outcome[GroupRecord, None]) -> Joined:
        """The member waits for what ``outcome`` has begun."""
        return outcome.with_answer(self.answer)

    def update(self, member: ClassicMember) -> None:
        """Take over what the request says about ``member``."""
        member.protocols = self.protocols
        member.rebalance_timeout_ms = self.request.rebalance_timeout_ms
        member.session_timeout_ms = self.request.session_timeout_ms
