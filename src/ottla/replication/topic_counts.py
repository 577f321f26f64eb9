"""What came to and went from each topic of a broker: counted where it happens."""


class TopicCounts:
    """Of one topic, shared by its partitions."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "messages_in",
        "partitions",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.partitions = 0
        """How many use it."""

    def add(self, other: "TopicCounts") -> None:
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.failed_produces += other.failed_produces
        self.failed_fetches += other.failed_fetches


class CountedTopics:
    """All topics with a partition here; what those had that are gone stays in the sum."""

    def __init__(self) -> None:
        self.by_topic: dict[str, TopicCounts] = {}
        self.gone = TopicCounts()

    def join(self, topic: str) -> TopicCounts:
        """The counts of ``topic``, for one more of its partitions."""
        counts = self.by_topic.get(topic)
        if counts is None:
            counts = self.by_topic[topic] = TopicCounts()
        counts.partitions += 1
        return counts

    def leave(self, topic: str, counts: TopicCounts) -> None:
        """One of its partitions is here no more."""
        counts.partitions -= 1
        if counts.partitions == 0:
            self.gone.add(counts)
            if self.by_topic.get(topic) is counts:
                del self.by_topic[topic]
