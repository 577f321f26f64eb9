"""A broker's life, whatever it is answered: registration, heartbeats, directories, the end."""

from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.turns import TURN, virtual_time

from ottla.common.authorization import Client
from ottla.common.errors import (
    ApiError,
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
)
from ottla.common.promise import Promise, fulfilled, run
from ottla.controller.answers import Answers
from ottla.controller.charges import free_of_charge
from ottla.metadata.features import FeaturesImage
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.protocol.message import Request, Response
from ottla.server.lifecycle import BrokerLifecycle, LifecycleTimes
from ottla.simulation.scheduler import SimulatedScheduler

R = TypeVar("R")
A = TypeVar("A", bound=Response)
EPOCH = 42
DIRECTORY = b"d" * 16
SESSION_SECONDS = 9.0


class Controller:
    """Takes registrations and heartbeats, and answers as it is told to, after a while."""

    def __init__(self, scheduler: SimulatedScheduler) -> None:
        self.scheduler = scheduler
        self.refusal: ApiError | None = None
        self.is_silent = False
        self.mistakes = 0
        """So many of the next heartbeats meet a mistake of ours."""
        self.registered: list[BrokerRegistrationRequest] = []
        self.next_epoch = EPOCH
        self.taken_over = 0
        """How many of the first registrations another life of the broker takes the place of."""
        self.heartbeats: list[tuple[float, BrokerHeartbeatRequest]] = []
        self.under_way = 0
        self.fenced = True
        self.leaderships = 1
        self._answers = Answers()
        self._answers.to(BrokerRegistrationRequest, self._register)
        self._answers.to(BrokerHeartbeatRequest, self._heartbeat)

    def submit(self, request: Request[A], _client: Client | None = None) -> Promise[A]:
        return self._answers(request, None, free_of_charge)

    @property
    def registrations(self) -> int:
        return len(self.registered)

    def _register(self, request: BrokerRegistrationRequest) -> Promise[BrokerRegistrationResponse]:
        self.registered.append(request)
        epoch = self.next_epoch
        if self.refusal is None and not self.is_silent:
            self.next_epoch += 1
        return self._answered(BrokerRegistrationResponse(broker_epoch=epoch))

    def _heartbeat(self, request: BrokerHeartbeatRequest) -> Promise[BrokerHeartbeatResponse]:
        self.heartbeats.append((self.scheduler.now, request))
        if self.mistakes:
            self.mistakes -= 1
            raise KeyError("a mistake")
        if request.broker_epoch < EPOCH + self.taken_over:
            return self._answered(BrokerHeartbeatResponse(), StaleBrokerEpoch())
        response = BrokerHeartbeatResponse(is_caught_up=True)
        if self.refusal is None and not self.is_silent:
            if request.want_shut_down:
                response.should_shut_down = self.leaderships == 0
                self.leaderships = max(0, self.leaderships - 1)
            elif not request.want_fence:
                self.fenced = False
        response.is_fenced = self.fenced
        return self._answered(response)

    def _answered(self, response: R, refusal: ApiError | None = None) -> Promise[R]:
        promise: Promise[R] = Promise(TURN)
        self.under_way += 1
        refusal = RequestTimedOut() if self.is_silent else refusal or self.refusal

        def answer() -> None:
            self.under_way -= 1
            if refusal is None:
                promise.fulfil(response)
            else:
                promise.fail(refusal)

        self.scheduler.call_later(3.0 if self.is_silent else 0.001, answer)
        return promise


class Metadata:
    image = MetadataImage(offset=50, features=FeaturesImage(metadata_version=30))


class Broker:
    def __init__(self) -> None:
        self.scheduler = virtual_time(1)
        self.controller = Controller(self.scheduler)
        self.unheard: list[BaseException] = []
        self.deaf_seconds = 0.0
        self.lifecycle = BrokerLifecycle(
            node_id=1,
            controller=self.controller,
            metadata=Metadata(),
            scheduler=self.scheduler,
            times=LifecycleTimes(),
            cordoned=list,
            deaf_seconds=lambda: self.deaf_seconds,
            on_unheard=self.unheard.append,
        )

    def register(self, loaded: Promise[None] | None = None) -> Promise[None]:
        request = BrokerRegistrationRequest(broker_id=1)
        return run(TURN, self.lifecycle.register(request, lambda: loaded or fulfilled(TURN, None)))

    def started(self) -> "Broker":
        registered = self.register()
        assert self.scheduler.run_until(lambda: registered.done, 5)
        registered.result()
        return self

    def run_for(self, seconds: float) -> None:
        passed: Promise[None] = Promise(TURN)
        self.scheduler.call_later(seconds, passed.fulfil, None)
        assert self.scheduler.run_until(lambda: passed.done, seconds + 1)

    def heartbeats_within(self, seconds: float) -> list[BrokerHeartbeatRequest]:
        since = self.scheduler.now
        self.run_for(seconds)
        return [request for at, request in self.controller.heartbeats if at >= since]


def test_a_registration_is_tried_again_until_the_former_life_has_no_session() -> None:
    broker = Broker()
    broker.controller.refusal = DuplicateBrokerRegistration()
    registered = broker.register()
    broker.run_for(9)
    assert not registered.done
    assert 3 < broker.controller.registrations < 25
    broker.controller.refusal = None
    assert broker.scheduler.run_until(lambda: registered.done, 1)
    registered.result()
    assert broker.lifecycle.epoch == EPOCH


def test_who_is_replaced_by_what_an_earlier_life_sent_registers_again() -> None:
    broker = Broker()
    broker.controller.taken_over = 2
    broker.started()
    assert broker.controller.registrations == 3
    assert broker.lifecycle.epoch == EPOCH + 2


def test_a_broker_that_opens_its_logs_lives_and_is_not_let_in() -> None:
    broker, loaded = Broker(), Promise[None](TURN)
    registered = broker.register(loaded)
    heartbeats = broker.heartbeats_within(20)
    assert len(heartbeats) in (9, 10)
    assert all(heartbeat.want_fence for heartbeat in heartbeats)
    broker.controller.taken_over = 1
    broker.run_for(5)
    assert broker.lifecycle.epoch == EPOCH + 1
    assert broker.controller.fenced
    loaded.fulfil(None)
    assert broker.scheduler.run_until(lambda: registered.done, 1)
    assert not broker.controller.fenced


def test_a_broker_that_stops_while_it_opens_its_logs_is_not_let_in_any_more() -> None:
    broker, loaded = Broker(), Promise[None](TURN)
    registered = broker.register(loaded)
    broker.run_for(5)
    left = broker.lifecycle.leave()
    assert broker.scheduler.run_until(lambda: left.done, 5)
    loaded.fulfil(None)
    assert broker.scheduler.run_until(lambda: registered.done, 5)
    assert broker.heartbeats_within(20) == []
    assert broker.controller.fenced


def test_logs_that_cannot_be_opened_end_the_start() -> None:
    broker, loaded = Broker(), Promise[None](TURN)
    registered = broker.register(loaded)
    broker.run_for(5)
    loaded.fail(OSError("injected"))
    with pytest.raises(OSError, match="injected"):
        registered.result()


def test_a_registration_is_given_up_when_its_time_is_over() -> None:
    broker = Broker()
    broker.controller.refusal = NotController()
    registered = broker.register()
    broker.run_for(59)
    assert not registered.done
    broker.run_for(15)
    with pytest.raises(RequestTimedOut, match="NOT_CONTROLLER"):
        registered.result()


def test_heartbeats_come_at_their_interval() -> None:
    assert len(Broker().started().heartbeats_within(20)) in (9, 10)


@pytest.mark.parametrize("refusal", [StaleBrokerEpoch(), BrokerIdNotRegistered()])
def test_a_broker_that_is_not_known_goes_on_saying_that_it_lives(refusal: ApiError) -> None:
    broker = Broker().started()
    broker.controller.refusal = refusal
    assert len(broker.heartbeats_within(60)) > 5
    broker.controller.refusal = None
    broker.run_for(10)
    assert len(broker.heartbeats_within(20)) in (9, 10)
    assert broker.lifecycle.epoch == EPOCH + 1


def test_a_broker_that_cannot_follow_the_metadata_asks_to_be_fenced_until_it_can() -> None:
    broker = Broker().started()
    for seconds, is_fenced in ((SESSION_SECONDS - 1, False), (SESSION_SECONDS, True), (0, False)):
        broker.deaf_seconds = seconds
        asked = [request.want_fence for request in broker.heartbeats_within(10)]
        assert len(asked) >= 4
        assert set(asked) == {is_fenced}


def test_a_mistake_in_one_heartbeat_does_not_end_them(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that says no more that it lives is fenced, and stays so until it is restarted."""
    broker = Broker().started()
    broker.controller.mistakes = 2
    assert len(broker.heartbeats_within(20)) >= 8
    assert [record.getMessage() for record in caplog.records].count("a heartbeat failed") == 2
    assert len(broker.heartbeats_within(20)) == 10


def test_a_broker_that_is_unregistered_registers_again_and_says_what_it_was() -> None:
    broker = Broker().started()
    broker.controller.taken_over = 1
    broker.run_for(5)
    assert broker.lifecycle.epoch == EPOCH + 1
    assert broker.controller.registered[-1].previous_broker_epoch == EPOCH
    assert len(broker.heartbeats_within(20)) in (9, 10)


def test_a_broker_that_is_unregistered_while_no_controller_answers_comes_back_soon() -> None:
    """The pauses that have grown meanwhile are not those of its registration."""
    broker = Broker().started()
    broker.controller.is_silent = True
    broker.run_for(60)
    broker.controller.taken_over = 1
    broker.controller.is_silent = False
    broker.run_for(3 + SESSION_SECONDS + 1)
    assert broker.lifecycle.epoch == EPOCH + 1


def test_a_broker_whose_place_another_has_taken_goes_on_asking_with_pauses() -> None:
    broker = Broker().started()
    broker.controller.taken_over = 1
    broker.controller.refusal = DuplicateBrokerRegistration()
    broker.run_for(120)
    assert 10 < broker.controller.registrations < 30
    broker.controller.refusal = None
    broker.run_for(SESSION_SECONDS + 1)
    assert broker.lifecycle.epoch == EPOCH + 1


def test_a_broker_that_hears_late_that_it_was_replaced_registers_at_once() -> None:
    """The pauses have grown while no controller answered: it does not wait for a second one."""
    broker = Broker().started()
    broker.controller.refusal = NotController()
    broker.run_for(60)
    broker.controller.taken_over = 1
    broker.controller.refusal = None
    broker.run_for(SESSION_SECONDS + 1)
    assert broker.lifecycle.epoch == EPOCH + 1


def test_a_broker_that_is_not_registered_any_more_goes_at_once() -> None:
    broker = Broker().started()
    broker.controller.taken_over = 1
    left = broker.lifecycle.leave()
    assert broker.scheduler.run_until(lambda: left.done, 1)


def test_a_failed_directory_is_told_at_once_and_until_it_is_heard() -> None:
    broker = Broker().started()
    broker.controller.is_silent = True
    broker.run_for(2.5)
    broker.lifecycle.tell_offline(DIRECTORY)
    broker.controller.is_silent = False
    assert any(each.offline_log_dirs == [DIRECTORY] for each in broker.heartbeats_within(3))
    broker.run_for(40)
    assert broker.unheard == []


def test_a_failed_directory_that_nobody_hears_of_ends_the_broker() -> None:
    broker = Broker().started()
    broker.controller.is_silent = True
    broker.lifecycle.tell_offline(DIRECTORY)
    broker.run_for(29)
    assert broker.unheard == []
    broker.run_for(2)
    assert len(broker.unheard) == 1


def test_a_broker_goes_when_it_leads_nothing_any_more() -> None:
    broker = Broker().started()
    broker.controller.leaderships = 3
    left = broker.lifecycle.leave()
    assert broker.scheduler.run_until(lambda: left.done, 5)
    assert [each.want_shut_down for _, each in broker.controller.heartbeats[-4:]] == [True] * 4
    assert broker.heartbeats_within(10) == []


def test_a_broker_waits_for_its_leave_as_long_as_a_controller_answers() -> None:
    broker = Broker().started()
    broker.controller.leaderships = 1_000
    left = broker.lifecycle.leave()
    broker.run_for(120)
    assert not left.done
    broker.run_for(200)
    assert left.done


def test_a_broker_goes_when_no_controller_answers_for_a_session() -> None:
    broker = Broker().started()
    broker.controller.is_silent = True
    left = broker.lifecycle.leave()
    broker.run_for(SESSION_SECONDS - 1)
    assert not left.done
    broker.run_for(5)
    assert left.done


class Lives(RuleBasedStateMachine):
    """Whatever the controller does: one request at a time, and never silent for longer than due."""

    @initialize()
    def start(self) -> None:
        self.broker = Broker().started()
        self.told: list[bytes] = []

    @rule(refused=st.booleans())
    def refuse(self, refused: bool) -> None:
        self.broker.controller.refusal = NotController() if refused else None

    @rule(silent=st.booleans())
    def fall_silent(self, silent: bool) -> None:
        self.broker.controller.is_silent = silent

    @rule()
    def unregister(self) -> None:
        controller = self.broker.controller
        controller.taken_over = controller.next_epoch - EPOCH

    @rule(seconds=st.floats(0, 30))
    def wait(self, seconds: float) -> None:
        self.broker.run_for(seconds)

    @rule(number=st.integers(0, 3))
    def lose_directory(self, number: int) -> None:
        self.told.append(bytes([number]) * 16)
        self.broker.lifecycle.tell_offline(self.told[-1])

    @rule()
    def heal(self) -> None:
        controller = self.broker.controller
        controller.refusal, controller.is_silent = None, False
        self.broker.run_for(SESSION_SECONDS + 6)
        assert self.broker.lifecycle.epoch >= EPOCH + controller.taken_over
        assert controller.heartbeats[-1][1].offline_log_dirs == self.told
        beaten = self.broker.heartbeats_within(20)
        assert len(beaten) in (9, 10)

    @invariant()
    def one_at_a_time(self) -> None:
        if hasattr(self, "broker"):
            assert self.broker.controller.under_way <= 1


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
