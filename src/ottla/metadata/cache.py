"""What a broker reads: the newest image that it has applied, in one place."""

from collections.abc import Callable
from typing import TypeAlias

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.observability.logging import logger

log = logger(__name__)

ImageListener: TypeAlias = Callable[[MetadataImage, MetadataDelta], None]


class MetadataCache:
    """``image`` is replaced as a whole; listeners are called after it, in order of arrival.

    A mistake of one of them is reported, and ends nothing.
    """

    __slots__ = ("_listeners", "image")

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self._listeners: list[ImageListener] = []

    def on_image(self, listener: ImageListener) -> None:
        self._listeners.append(listener)

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        assert image.offset >= self.image.offset
        self.image = image
        for listener in self._listeners:
            try:
                listener(image, delta)
            except Exception:
                # As Kafka's publishers do: the others go on, and so does the metadata log.
                log.exception("a metadata update was applied only in part", offset=image.offset)
