"""A broker's life in the cluster: it registers, says that it lives, and asks before it goes.

A broker serves clients from the moment the controller unfences it, which it does when the broker
has caught up with the metadata log and opened its logs. Each incarnation has a new id; the
controller answers with a broker epoch, which fences everything that an earlier incarnation may
still say.

Rules:
1. One request at a time is under way.
2. A registration that is refused is tried again for ``initial.broker.registration.timeout.ms``: an
   earlier incarnation may still have a session, and the controller may not be there yet.
3. A heartbeat that is refused or lost is sent again, after pauses that grow; whatever it was
   refused with, the broker goes on: it is fenced, if at all, by the metadata log.
4. A broker whose registration is gone registers again: what an earlier incarnation has sent may
   arrive after this one is registered, and take its place; and a broker that runs may be
   unregistered. It says which registration it had, since it has lost nothing.
5. A broker that cannot follow the metadata log, as its disk hangs, asks to be fenced: it would go
   on as leader of what is others' by now. When it hears again it asks no more.
6. A broker that stops goes on serving and saying so until the controller has moved what it leads.
   When no controller has answered for a whole session it goes: nobody believes in it any more.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import ApiError, ErrorCode, RequestTimedOut
from ottla.common.promise import Promise, run
from ottla.common.turn import Turn
from ottla.controller.client import ControllerClient
from ottla.metadata.versions import cordoned_log_dirs_supported
from ottla.observability.logging import logger
from ottla.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
)
from ottla.requests.context import MetadataSource

log = logger(__name__)

NO_EPOCH: Final = -1
UNFENCE_POLL_SECONDS: Final = 0.01
"""While it starts or stops a broker does not wait for the next heartbeat's turn."""
BACKOFF_SECONDS: Final = 0.1
REGISTRATION_PAUSE_SECONDS_MAX: Final = 0.5
"""Nothing is served meanwhile, and the session of the former incarnation ends at any moment."""
STOP_SECONDS_MAX: Final = 300.0
_REPLACED: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class LifecycleTimes(NamedTuple):
    heartbeat_interval_ms: int = 2_000
    session_timeout_ms: int = 9_000
    registration_timeout_ms: int = 60_000
    log_dir_failure_timeout_ms: int = 30_000


class BrokerLifecycle:
    def __init__(
        self,
        *,
        node_id: int,
        controller: ControllerClient,
        metadata: MetadataSource,
        scheduler: Scheduler,
        times: LifecycleTimes,
        cordoned: Callable[[], list[bytes]],
        deaf_seconds: Callable[[], float],
        on_unheard: Callable[[BaseException], None],
    ) -> None:
        """``cordoned`` are the directories that take no new replicas.

        ``deaf_seconds`` tells for how long the metadata log cannot have been followed.
        ``on_unheard`` is called when the controller cannot be told of a failed directory.
        """
        self._node_id = node_id
        self._controller = controller
        self._metadata = metadata
        self._scheduler = scheduler
        self._interval = times.heartbeat_interval_ms / 1000
        self._session = times.session_timeout_ms / 1000
        self._registration_timeout = times.registration_timeout_ms / 1000
        self._failure_timeout = times.log_dir_failure_timeout_ms / 1000
        self._cordoned = cordoned
        self._deaf_seconds = deaf_seconds
        self._is_deaf = False
        self._has_loaded = False
        self._on_unheard = on_unheard
        self._unheard: Cancellable | None = None
        self._timer: Cancellable | None = None
        self._under_way: Promise[Any] | None = None
        self._is_urgent = False
        """There is something to tell that the heartbeat under way does not."""
        self._failures = 0
        self._request: BrokerRegistrationRequest | None = None
        self._is_replaced = False
        """The controller knows another incarnation of this broker, or none."""
        self._stopping = False
        self._gone: Promise[None] = Promise(self._scheduler.turn)
        self.epoch = NO_EPOCH
        self.offline_log_dirs: list[bytes] = []

    # It begins

    async def register(
        self,
        request: BrokerRegistrationRequest,
        load: Callable[[], Promise[None]],
    ) -> None:
        """Register, and go on until the controller lets clients in.

        ``load`` is called when this incarnation's registration has come with the metadata log. What
        was true of the one before is then undone: a broker that has lost records because its power
        failed leads nothing that it led. It may take long: the broker lives, and wants to be fenced
        meanwhile.
        """
        self._request = request
        await self._take_part(request)
        if not self._stopping:
            await self._live_until(load())
            self._has_loaded = True
        while not self._stopping:
            heartbeat = await self._beaten()
            if heartbeat is not None and heartbeat.is_caught_up and not heartbeat.is_fenced:
                break
            await self._pause(UNFENCE_POLL_SECONDS if heartbeat is not None else self._backoff())
            if self._is_replaced and not self._stopping:
                await self._take_part(request)
        self._schedule(self._interval)

    async def _live_until(self, loaded: Promise[None]) -> None:
        while True:
            await _either(self._scheduler.turn, loaded, self._pause(self._interval))
            if loaded.done or self._stopping:
                break
            await self._beaten()
            if self._is_replaced and self._request is not None and not self._stopping:
                await self._take_part(self._request)
        await loaded

    async def _take_part(self, request: BrokerRegistrationRequest) -> None:
        self.epoch = await self._registered(request)
        self._is_replaced = False
        log.info("registered", broker=self._node_id, epoch=self.epoch)
        while not self._stopping and self._metadata.image.offset < self.epoch:
            await self._pause(UNFENCE_POLL_SECONDS)

    async def _registered(self, request: BrokerRegistrationRequest) -> int:
        deadline = self._scheduler.monotonic() + self._registration_timeout
        while True:
            try:
                response = await self._controller.submit(request)
            except ApiError as error:
                reason = f"{error.code.name} {error.message}".rstrip()
            else:
                if response.error_code == ErrorCode.NONE:
                    self._failures = 0
                    return response.broker_epoch
                reason = ErrorCode(response.error_code).name
            log.warning("not registered", broker=self._node_id, reason=reason)
            if self._stopping or self._scheduler.monotonic() >= deadline:
                raise RequestTimedOut(f"registration refused: {reason}")
            await self._pause(min(self._backoff(), REGISTRATION_PAUSE_SECONDS_MAX))

    def _backoff(self) -> float:
        pause = min(self._session, BACKOFF_SECONDS * (1 << self._failures))
        self._failures = min(self._failures + 1, 16)
        return pause

    def _pause(self, seconds: float) -> Promise[None]:
        promise: Promise[None] = Promise(self._scheduler.turn)
        self._scheduler.call_later(seconds, promise.fulfil, None)
        return promise

    # It lives

    def _heartbeat(self) -> Promise[BrokerHeartbeatResponse]:
        version = self._metadata.image.features.metadata_version
        return self._controller.submit(
            BrokerHeartbeatRequest(
                broker_id=self._node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=self._metadata.image.offset,
                want_fence=self._wants_fence(),
                want_shut_down=self._stopping,
                offline_log_dirs=list(self.offline_log_dirs),
                cordoned_log_dirs=(
                    self._cordoned() if cordoned_log_dirs_supported(version) else None
                ),
            )
        )

    def _wants_fence(self) -> bool:
        """Whether its logs are not open, or it has not heard for a session what others are told."""
        was_deaf, self._is_deaf = self._is_deaf, self._deaf_seconds() >= self._session
        if self._is_deaf and not was_deaf:
            log.error("the metadata log cannot be followed: its disk does not answer")
        elif was_deaf and not self._is_deaf:
            log.info("the metadata log is followed again")
        return self._is_deaf or not self._has_loaded

    async def _beaten(self) -> BrokerHeartbeatResponse | None:
        """Send a heartbeat; None when it was not heard."""
        told = len(self.offline_log_dirs)
        self._is_urgent = False
        heartbeat = self._under_way = self._heartbeat()
        try:
            response = await heartbeat
        except ApiError as error:
            log.warning("heartbeat refused", code=error.code.name, reason=error.message)
            if error.code in _REPLACED and not self._is_replaced:
                self._is_replaced = True
                self._failures = 0  # a controller answers: what it was silent for counts no more
            return None
        finally:
            self._under_way = None
        self._failures = 0
        if told == len(self.offline_log_dirs):
            self._heard()
        return response

    def _schedule(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._stopping:
            self._timer = self._scheduler.call_later(seconds, self._beat)

    def _beat(self) -> None:
        run(self._scheduler.turn, self._tell()).when_done(self._told)

    def _told(self, told: Promise[None]) -> None:
        try:
            told.result()
        except Exception:
            # A mistake of ours, of the controller in this process say, must not be the last word.
            log.exception("a heartbeat failed", broker=self._node_id)
            self._schedule(self._backoff())

    async def _tell(self) -> None:
        was_replaced = self._is_replaced
        if was_replaced:
            await self._register_again()
        heartbeat = await self._beaten()
        if self._is_urgent or (self._is_replaced and not was_replaced):
            self._schedule(0.0)
        else:
            self._schedule(self._interval if heartbeat is not None else self._backoff())

    async def _register_again(self) -> None:
        """Try it once; the heartbeat that follows tells whether it has helped."""
        request = self._request
        assert request is not None
        request.previous_broker_epoch = self.epoch
        asked = self._under_way = self._controller.submit(request)
        try:
            response = await asked
        except ApiError as error:
            reason = f"{error.code.name} {error.message}".rstrip()
            log.error("not registered any more", broker=self._node_id, reason=reason)
            return
        finally:
            self._under_way = None
        if response.error_code == ErrorCode.NONE:
            self.epoch = response.broker_epoch
            self._is_replaced = False
            log.warning("registered again", broker=self._node_id, epoch=self.epoch)

    def _tell_at_once(self) -> None:
        if self.epoch == NO_EPOCH or self._timer is None:
            return
        if self._under_way is None:
            self._schedule(0.0)
        else:
            self._is_urgent = True

    def cordon_changed(self) -> None:
        """Directories take new replicas again, or no longer: the controller places by that."""
        self._tell_at_once()

    def tell_offline(self, directory_id: bytes) -> None:
        """A log directory is gone: the controller must hear of it before others notice.

        If it does not for too long, this broker stops: others would go on believing in its replicas
        (KIP-858).
        """
        self.offline_log_dirs.append(directory_id)
        if self._unheard is None:
            self._unheard = self._scheduler.call_later(self._failure_timeout, self._not_heard)
        self._tell_at_once()

    def _heard(self) -> None:
        if self._unheard is not None:
            self._unheard.cancel()
            self._unheard = None

    def _not_heard(self) -> None:
        self._unheard = None
        self._on_unheard(ApiError("the controller did not hear of a failed log directory"))

    # It ends

    def leave(self) -> Promise[None]:
        """Ask to be let go; fulfilled when the controller has moved leaderships away."""
        self.close()
        run(self._scheduler.turn, self._leave()).when_done(lambda _: self.go())
        return self._gone

    def go(self) -> None:
        """Do not wait for leave any longer."""
        if not self._gone.done:
            self._gone.fulfil(None)

    def close(self) -> None:
        """Say no more by itself."""
        self._stopping = True
        self._heard()
        if self._timer is not None:
            self._timer.cancel()

    async def _leave(self) -> None:
        if self.epoch == NO_EPOCH:
            return
        heard_at = self._scheduler.monotonic()
        deadline = heard_at + STOP_SECONDS_MAX
        pause = UNFENCE_POLL_SECONDS
        while True:
            heartbeat = await self._beaten()
            now = self._scheduler.monotonic()
            if heartbeat is not None:
                if heartbeat.should_shut_down:
                    return
                heard_at = now
            if self._is_replaced:
                return  # nothing that the cluster knows of waits for it
            if now >= deadline or now - heard_at >= self._session:
                log.warning("stopping without the consent of the controller", broker=self._node_id)
                return
            await self._pause(pause)
            pause = min(self._interval, 2 * pause)


def _either(turn: Turn, first: Promise[None], second: Promise[None]) -> Promise[None]:
    """Fulfilled when one of them is done, however that ended."""
    done: Promise[None] = Promise(turn)

    def ended(_promise: Promise[None]) -> None:
        if not done.done:
            done.fulfil(None)

    first.when_done(ended)
    second.when_done(ended)
    return done
