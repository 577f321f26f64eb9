"""A broker's life in the cluster: it registers, says that it lives, and asks before it goes.

A broker serves clients from the moment the controller unfences it, which it does when the broker
has caught up with the metadata log. Each life has a new incarnation id; the controller answers
with a broker epoch, which fences everything that an earlier life may still say.
"""

from collections.abc import Callable
from typing import Final, Protocol

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise, run
from ottla.handlers.context import MetadataSource
from ottla.observability.logging import logger
from ottla.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

log = logger(__name__)

NO_EPOCH: Final = -1
UNFENCE_POLL_SECONDS: Final = 0.01


class BrokerController(Protocol):
    """What a broker asks of the controller about itself."""

    def register_broker(
        self, request: BrokerRegistrationRequest
    ) -> Promise[BrokerRegistrationResponse]: ...

    def broker_heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> Promise[BrokerHeartbeatResponse]: ...


class BrokerLifecycle:
    def __init__(
        self,
        *,
        node_id: int,
        controller: BrokerController,
        metadata: MetadataSource,
        scheduler: Scheduler,
        heartbeat_interval_ms: int,
        log_dir_failure_timeout_ms: int = 30_000,
        on_unheard: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        """``on_unheard`` is called when the controller cannot be told of a failed directory."""
        self._node_id = node_id
        self._controller = controller
        self._metadata = metadata
        self._scheduler = scheduler
        self._interval = heartbeat_interval_ms / 1000
        self._timer: Cancellable | None = None
        self._stopping = False
        self._failure_timeout = log_dir_failure_timeout_ms / 1000
        self._on_unheard = on_unheard
        self._unheard: Cancellable | None = None
        self.epoch = NO_EPOCH
        self.offline_log_dirs: list[bytes] = []

    async def register(self, request: BrokerRegistrationRequest) -> None:
        """Register, and go on until the controller lets clients in."""
        response = await self._controller.register_broker(request)
        if response.error_code != ErrorCode.NONE:
            raise ApiError(f"registration refused: {ErrorCode(response.error_code).name}")
        self.epoch = response.broker_epoch
        while True:
            heartbeat = await self._heartbeat()
            if heartbeat.is_caught_up and not heartbeat.is_fenced:
                break
            await self._pause(UNFENCE_POLL_SECONDS)
        self._schedule()

    def _pause(self, seconds: float) -> Promise[None]:
        promise: Promise[None] = Promise()
        self._scheduler.call_later(seconds, promise.fulfil, None)
        return promise

    def _heartbeat(self, *, want_shut_down: bool = False) -> Promise[BrokerHeartbeatResponse]:
        return self._controller.broker_heartbeat(
            BrokerHeartbeatRequest(
                broker_id=self._node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=self._metadata.image.offset,
                want_fence=False,
                want_shut_down=want_shut_down,
                offline_log_dirs=list(self.offline_log_dirs),
            )
        )

    def _schedule(self) -> None:
        self._timer = self._scheduler.call_later(self._interval, self._beat)

    def _beat(self) -> None:
        self._tell()
        if not self._stopping:
            self._schedule()

    def _beaten(self, heartbeat: Promise[BrokerHeartbeatResponse]) -> bool:
        """Whether it was heard."""
        try:
            heartbeat.result()
        except ApiError as error:
            if not self._stopping:
                log.warning("heartbeat refused", code=error.code.name, reason=error.message)
            return False
        return True

    def tell_offline(self, directory_id: bytes) -> None:
        """A log directory is gone: the controller must hear of it before others notice.

        If it does not for too long, this broker stops: others would go on believing in its replicas
        (KIP-858).
        """
        self.offline_log_dirs.append(directory_id)
        if self._unheard is None:
            self._unheard = self._scheduler.call_later(self._failure_timeout, self._not_heard)
        if self.epoch != NO_EPOCH:
            self._tell()

    def _tell(self) -> None:
        count = len(self.offline_log_dirs)

        def told(heartbeat: Promise[BrokerHeartbeatResponse]) -> None:
            if self._beaten(heartbeat) and count == len(self.offline_log_dirs):
                self._heard()

        self._heartbeat().when_done(told)

    def _heard(self) -> None:
        if self._unheard is not None:
            self._unheard.cancel()
            self._unheard = None

    def _not_heard(self) -> None:
        self._unheard = None
        self._on_unheard(ApiError("the controller did not hear of a failed log directory"))

    def leave(self) -> Promise[None]:
        """Ask to be let go; the controller moves leaderships away first where it can."""
        self._stopping = True
        self._heard()
        if self._timer is not None:
            self._timer.cancel()
        return run(self._leave())

    async def _leave(self) -> None:
        if self.epoch == NO_EPOCH:
            return
        try:
            await self._heartbeat(want_shut_down=True)
        except ApiError as error:
            log.warning("the controller did not hear of the stop", code=error.code.name)
