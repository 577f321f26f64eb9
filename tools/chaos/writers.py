"""Real clients that write while nodes fall, and a history of what they were told.

One idempotent producer with acks=all writes single records, one writes transactions of which every
third is aborted. Each record goes to a partition that is named, so that its order can be checked.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.simulation.history import (
    EndTransaction,
    History,
    Isolation,
    Outcome,
    ReadAll,
    Send,
    UseTopic,
)

PLAIN: Final = "plain"
TRANSACTIONAL: Final = "transactional"
PARTITIONS: Final = 3
IN_FLIGHT_MAX: Final = 50
RECORDS_PER_TRANSACTION: Final = 4
DELIVERY_MS: Final = 120_000
PAUSE_SECONDS: Final = 0.002


def _base(bootstrap_servers: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "socket.timeout.ms": 5000,
        "socket.connection.setup.timeout.ms": 2000,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 5000,
        "log_level": 0,
    }


class Writer:
    """A thread that writes until it is told to stop, and then waits for what is still unsaid."""

    def __init__(self, bootstrap_servers: str, history: History, name: str) -> None:
        self._settings = _base(bootstrap_servers)
        self._history = history
        self.name = name
        self._stopping = threading.Event()
        self._numbers = itertools.count()
        self._lives = itertools.count(1)
        self.acknowledged: list[tuple[int, float]] = []
        """Partition and time of every success."""
        self.trouble: list[str] = []
        self._fatal = threading.Event()
        self._settings["error_cb"] = self._failed
        self._thread = threading.Thread(target=self._run, name=name)

    def _failed(self, error: KafkaError) -> None:
        """What no record was to blame for; after a fatal one a producer is of no use."""
        if error.fatal():
            self.trouble.append(str(error))
            self._fatal.set()

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name} does not end")

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._fatal.clear()
            try:
                self._live(f"{self.name}-{next(self._lives)}")
            except KafkaException as error:
                self.trouble.append(str(error))
                self._stopping.wait(0.2)

    def _live(self, life: str) -> None:
        """The life of one producer, until it is of no use any more."""
        raise NotImplementedError

    def _send(
        self,
        producer: Producer,
        life: str,
        topic: str,
        sequences: dict[int, int],
        transaction: str | None = None,
    ) -> Send:
        number = next(self._numbers)
        partition = number % PARTITIONS
        send = self._history.begin(
            Send(
                process=self.name,
                topic=topic,
                partition=partition,
                value=f"{self.name}-{number}",
                producer=life,
                sequence=sequences.get(partition, 0),
                transaction=transaction,
            )
        )
        try:
            producer.produce(
                topic, send.value, partition=partition, on_delivery=self._delivered(send)
            )
        except (BufferError, KafkaException):
            self._history.end(send, Outcome.FAILED)  # it never left this process
            raise
        sequences[partition] = send.sequence + 1
        return send

    def _delivered(self, send: Send) -> Callable[[KafkaError | None, Message], None]:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                send.offset = message.offset()
                self._history.end(send)
                if send.transaction is None:
                    self.acknowledged.append((send.partition, send.end))
            else:
                self.trouble.append(str(error))
                self._history.end(send, Outcome.UNKNOWN)

        return told


class PlainWriter(Writer):
    """Single records, acks=all, idempotent."""

    def _live(self, life: str) -> None:
        producer = Producer(
            {
                **self._settings,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "delivery.timeout.ms": DELIVERY_MS,
            }
        )
        sequences: dict[int, int] = {}
        while not self._stopping.is_set() and not self._fatal.is_set():
            if len(producer) < IN_FLIGHT_MAX:
                self._send(producer, life, PLAIN, sequences)
            producer.poll(PAUSE_SECONDS)
        while len(producer) and not self._fatal.is_set():
            producer.poll(0.1)
        producer.poll(0)


class TransactionWriter(Writer):
    """Transactions; every third one is aborted."""

    def _live(self, life: str) -> None:
        producer = Producer(
            {
                **self._settings,
                "transactional.id": self.name,
                "transaction.timeout.ms": 30_000,
                "linger.ms": 1,
                "delivery.timeout.ms": 30_000,
            }
        )
        producer.init_transactions(60)
        sequences: dict[int, int] = {}
        while not self._stopping.is_set():
            number = next(self._numbers)
            name = f"{life}-{number}"
            producer.begin_transaction()
            for _ in range(RECORDS_PER_TRANSACTION):
                self._send(producer, life, TRANSACTIONAL, sequences, name)
            # Aborted only when all is sent: else there is nothing that could be read by mistake.
            producer.flush(30)
            self._end(producer, name, commit=number % 3 != 0)

    def _end(self, producer: Producer, name: str, *, commit: bool) -> None:
        end = self._history.begin(
            EndTransaction(process=self.name, transaction=name, commit=commit)
        )
        try:
            _patiently(producer.commit_transaction if commit else producer.abort_transaction)
        except KafkaException as error:
            failure = error.args[0]
            self.trouble.append(str(failure))
            if not commit or not failure.txn_requires_abort():
                self._history.end(end, Outcome.UNKNOWN)
                raise
            # The commit was refused; only the abort that follows decides.
            self._history.end(end, Outcome.UNKNOWN)
            self._abort(producer, name)
        else:
            self._history.end(end)
            if commit:
                self.acknowledged.append((0, end.end))

    def _abort(self, producer: Producer, name: str) -> None:
        end = self._history.begin(EndTransaction(process=self.name, transaction=name, commit=False))
        try:
            _patiently(producer.abort_transaction)
        except KafkaException:
            self._history.end(end, Outcome.UNKNOWN)
            raise
        self._history.end(end)


def _patiently(call: Callable[[float], None]) -> None:
    """Again while the client says that the same call may still succeed."""
    while True:
        try:
            call(30)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def read_everything(bootstrap_servers: str, history: History) -> None:
    """Read each partition to its end, as a reader of committed records and as one of all."""
    for topic in (PLAIN, TRANSACTIONAL):
        history.add(UseTopic(process="reader", topic=topic))
        for partition, isolation in itertools.product(range(PARTITIONS), Isolation):
            _read(bootstrap_servers, history, topic, partition, isolation)


def _read(
    bootstrap_servers: str, history: History, topic: str, partition: int, isolation: Isolation
) -> None:
    consumer = Consumer(
        {
            **_base(bootstrap_servers),
            "group.id": "chaos",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation.value,
        }
    )
    read = history.begin(
        ReadAll(
            process="reader",
            topic=topic,
            partition=partition,
            isolation=isolation,
            log_start=0,
            log_end=0,
        )
    )
    with contextlib.closing(consumer):
        place = TopicPartition(topic, partition, 0)
        read.log_start, read.log_end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([TopicPartition(topic, partition, read.log_start)])
        while True:
            message = consumer.poll(60)
            if message is None:
                raise TimeoutError(f"{topic}-{partition} is not read to its end")
            error = message.error()
            if error is None:
                value, offset = message.value(), message.offset()
                assert isinstance(value, bytes)
                assert offset is not None
                read.records.append((offset, None, value.decode()))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no public name
                read.log_end = max(read.log_end, message.offset() or 0)
                break
            elif not error.retriable():
                raise KafkaException(error)
    history.end(read)
