"""When the keys of signed tokens are asked for: time and again, sooner after a failure, and for a
token whose key is not known.

Tokens with made-up key ids must not make us ask each time.
"""

from typing import Final, NamedTuple

EARLY_PAUSE_SECONDS: Final = 10.0
"""Between two times that they are asked for because of unknown key ids."""
SAME_KEY_PAUSE_SECONDS: Final = 60.0
"""Before the same unknown key id counts again."""
KEY_IDS_REMEMBERED: Final = 16
KEY_ID_CHARACTERS_MAX: Final = 1000


class RefreshSettings(NamedTuple):
    refresh_seconds: float
    backoff_seconds: float
    backoff_max_seconds: float


class KeyRefresh:
    """Decides; its owner asks and tells how that ended."""

    def __init__(self, settings: RefreshSettings) -> None:
        self._settings = settings
        self._failures = 0
        self._early_from = 0.0
        self._unknown: dict[str, float] = {}
        """Key ids, and when each was unknown."""
        self.under_way = False

    def begin(self) -> bool:
        """Whether to ask now; not while that is under way."""
        if self.under_way:
            return False
        self.under_way = True
        return True

    def succeeded(self) -> float:
        """How long to wait then."""
        self.under_way = False
        self._failures = 0
        return self._settings.refresh_seconds

    def failed(self) -> float:
        self.under_way = False
        settings = self._settings
        pause = min(settings.backoff_seconds * (1 << self._failures), settings.backoff_max_seconds)
        self._failures = min(self._failures + 1, 30)
        return pause

    def is_wanted_early(self, key_id: str, now: float) -> bool:
        """Whether a token with an unknown key is a reason to ask at once."""
        if len(key_id) > KEY_ID_CHARACTERS_MAX or now < self._early_from or self._failures:
            return False
        last = self._unknown.get(key_id)
        if last is not None and now - last < SAME_KEY_PAUSE_SECONDS:
            return False
        self._unknown.pop(key_id, None)
        self._unknown[key_id] = now
        if len(self._unknown) > KEY_IDS_REMEMBERED:
            del self._unknown[next(iter(self._unknown))]
        self._early_from = now + EARLY_PAUSE_SECONDS
        return True
