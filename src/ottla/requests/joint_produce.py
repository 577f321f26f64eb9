"""Produce requests that are appended together: what they have for a partition is one write.

All of it happens within one call: batches are gathered, partition by partition, appended, and the
requests answered in their order.
"""

from typing import Final

from ottla.common.errors import ApiError
from ottla.common.promise import settle_with
from ottla.protocol.produce_request import ProduceView
from ottla.protocol.produce_response import Appended
from ottla.replication.partition import Partition
from ottla.requests.context import Services
from ottla.requests.hot_access import ProduceAccess
from ottla.requests.produce_attempt import ProduceAttempt, told
from ottla.requests.produce_crowd import CrowdedProduce
from ottla.requests.produce_outcomes import Outcomes, Refused, last_of_each
from ottla.storage.joint_append import Batch
from ottla.storage.results import AppendInfo

_NOT_YET: Final[Appended] = (-1, -1, -1, -1)


class _Share:
    """What all the requests have for one partition, and where each is told what became of it."""

    __slots__ = ("attempts", "batches", "numbers", "partition", "results")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.batches: list[Batch] = []
        self.attempts: list[ProduceAttempt] = []
        self.results: list[list[Appended | Refused]] = []
        self.numbers: list[int] = []
        """Where in the results."""

    def append(self, now_ms: int) -> None:
        partition = self.partition
        try:
            outcomes = partition.append_together(self.batches, now_ms)
        except Exception as mistake:  # noqa: BLE001 - it belongs to those whose batches they are
            outcomes = [mistake for _ in self.batches]
        for which, outcome in enumerate(outcomes):
            attempt, results, number = (
                self.attempts[which],
                self.results[which],
                self.numbers[which],
            )
            if isinstance(outcome, AppendInfo):
                attempt.took(partition, outcome, results, number)
                results[number] = told(partition.index, outcome)
            elif isinstance(outcome, ApiError):
                frame, start, end = self.batches[which]
                refused = attempt.refused(partition.index, outcome, partition, frame, start, end)
                results[number] = refused
            else:
                attempt.mistake = outcome


class JointProduce:
    __slots__ = ("_attempts", "_requests", "_services", "_shares", "saved")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._requests: list[CrowdedProduce] = []
        self._attempts: list[ProduceAttempt] = []
        """One for each request."""
        self._shares: dict[Partition, _Share] = {}
        self.saved = 0
        """How many batches need no write of their own."""

    def take(self, produce: CrowdedProduce, request: ProduceView) -> None:
        """Gather what a request brings that is of no transaction."""
        services, peer = self._services, produce.peer
        denied: Outcomes | None = None
        if services.authorizer.enforces:
            denied = ProduceAccess(services, peer).take_denied(request, produce.frame)
        attempt = ProduceAttempt(
            request, produce.version, produce.correlation_id, services, peer, denied
        )
        for topic, partitions in request.topics:
            results: list[Appended | Refused] = []
            if len(partitions) > 1:
                partitions = last_of_each(partitions)
            for index, start, end in partitions:
                self._gather(attempt, topic, index, (produce.frame, start, end), results)
            attempt.outcomes.append((topic, results))
        self._requests.append(produce)
        self._attempts.append(attempt)

    def _gather(
        self,
        attempt: ProduceAttempt,
        topic: str | bytes,
        index: int,
        batch: Batch,
        results: list[Appended | Refused],
    ) -> None:
        frame, start, end = batch
        partition = self._services.replicas.partition(topic, index)
        try:
            tried = attempt.checked(
                partition, topic, index, frame, start, end, may_be_transactional=False
            )
            tried.check_append(attempt.request.acks)
        except ApiError as error:
            results.append(attempt.refused(index, error, partition, frame, start, end))
            return
        share = self._shares.get(tried)
        if share is None:
            share = self._shares[tried] = _Share(tried)
        else:
            self.saved += 1
        share.batches.append(batch)
        share.attempts.append(attempt)
        share.results.append(results)
        share.numbers.append(len(results))
        results.append(_NOT_YET)

    def append(self) -> None:
        """Append all that was gathered, and answer those whose it was."""
        shares, requests, attempts = self._shares, self._requests, self._attempts
        self._shares, self._requests, self._attempts = {}, [], []
        now_ms = self._services.scheduler.wall_ms()
        for share in shares.values():
            share.append(now_ms)
        for which, produce in enumerate(requests):
            try:
                answered = attempts[which].answer()
            except Exception as error:  # noqa: BLE001 - it belongs to the connection
                produce.answer.fail(error)
            else:
                settle_with(produce.answer, answered)
