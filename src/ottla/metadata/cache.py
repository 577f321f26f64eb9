"""What a broker reads: the newest image that it has applied, in one place."""

from collections.abc import Callable
from typing import TypeAlias

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage

ImageListener: TypeAlias = Callable[[MetadataImage, MetadataDelta], None]


class MetadataCache:
    """``image`` is replaced as a whole; listeners are called after it, in order of arrival."""

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
            listener(image, delta)
