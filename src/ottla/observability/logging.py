"""Log lines: a constant message, and fields apart from it.

::

    log = logger(__name__)
    log.info("leader elected", partition="t-0", epoch=5)

Lines look like Kafka's, or are JSON for machines; the standard library carries them. A logger can
be bound to fields that each of its lines then bears: a partition, a connection. Levels: error =
someone must act, warning = someone should know, info = state changes, debug = requests.

What may happen to many things at once is told by ``changes``: one line, and each of them at debug.
What may happen again and again is bounded for all (:mod:`ottla.observability.line_limit`).
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

from ottla.observability.line_limit import BOUNDED, LimitedHandler

ROOT: Final = "ottla"
TRACE: Final = 5
NAMED_MAX: Final = 10
"""Of many things that have changed at once, so many are named in the line."""
_LEVELS: Final = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items()}
_ALIASES: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class Logger:
    """A named source of log lines, with the fields that all of them bear."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, name: str, fields: Mapping[str, object]) -> None:
        self._logger = logging.getLogger(name)
        self._fields = fields

    def bind(self, **fields: object) -> "Logger":
        """Return a logger whose lines all bear these fields too."""
        return Logger(self._logger.name, {**self._fields, **fields})

    def debug(self, message: str, **fields: object) -> None:
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        self._log(logging.INFO, message, fields)

    def info_bounded(self, message: str, **fields: object) -> None:
        """For one who bounds its lines by itself: there is no other limit."""
        self._log(logging.INFO, message, fields, bounded=True)

    def warning(self, message: str, **fields: object) -> None:
        self._log(logging.WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        self._log(logging.ERROR, message, fields)

    def exception(self, message: str, **fields: object) -> None:
        """An error, with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, message, fields, trace=True)

    def changes(
        self,
        message: str,
        changed: Sequence[Mapping[str, object]],
        *,
        is_warning: bool = False,
        **totals: object,
    ) -> None:
        """One line for what has happened to several things in the same way.

        Each of ``changed`` is the fields of one thing, of which the first is its name. With one
        thing the line has its fields; with more how many there are, the ``totals``, and the names
        of some.
        """
        level = logging.WARNING if is_warning else logging.INFO
        if not changed or not self._logger.isEnabledFor(level):
            return
        if len(changed) == 1:
            self._log(level, message, dict(changed[0]))
            return
        names = [str(next(iter(each.values()))) for each in changed[:NAMED_MAX]]
        more = ["..."] if len(changed) > NAMED_MAX else []
        named = ",".join(names + more)
        self._log(level, message, {"number": len(changed), **totals, "named": named})
        if self._logger.isEnabledFor(logging.DEBUG):
            for each in changed:
                self.debug(message, **each)

    def enabled_for_info(self) -> bool:
        """Whether it is worth the trouble to gather what has changed."""
        return self._logger.isEnabledFor(logging.INFO)

    def enabled_for_debug(self) -> bool:
        """Whether it is worth the trouble to describe what is told at debug."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def _log(
        self,
        level: int,
        message: str,
        fields: dict[str, object],
        *,
        trace: bool = False,
        bounded: bool = False,
    ) -> None:
        if self._logger.isEnabledFor(level):
            extra: dict[str, object] = {"ottla_fields": {**self._fields, **fields}}
            if bounded:
                extra[BOUNDED] = True
            self._logger.log(level, "%s", message, exc_info=trace, extra=extra)


def logger(name: str) -> Logger:
    """Return what a module writes its lines with."""
    return Logger(name, {})


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "ottla_fields", None)
    return fields if isinstance(fields, dict) else {}


class KafkaFormatter(logging.Formatter):
    """Lines as Kafka's brokers write them: [time] LEVEL message field=value (logger)."""

    def format(self, record: logging.LogRecord) -> str:
        time = f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')},{int(record.msecs):03d}"
        fields = "".join(f" {name}={_text(value)}" for name, value in _fields_of(record).items())
        level = _NAMES.get(record.levelno, record.levelname)
        line = f"[{time}] {level} {record.getMessage()}{fields} ({record.name})"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the fields beside them."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}",
            "level": _NAMES.get(record.levelno, record.levelname),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _fields_of(record).items():
            entry.setdefault(name, value)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


def _text(value: object) -> str:
    """A field's value, in quotes when it would not read as one word.

    Clients choose many of them: what would command a terminal is escaped.
    """
    text = str(value)
    if not text.isprintable():
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text else text


def level_number(name: str) -> int:
    """The number of a level by Kafka's name for it; ValueError when there is none of that name."""
    upper = name.upper()
    number = _LEVELS.get(_ALIASES.get(upper, upper))
    if number is None:
        raise ValueError(f"no such level: {name} (there are {', '.join(_LEVELS)})")
    return number


def configure_logging(
    level: str = "INFO", *, as_json: bool = False, stream: TextIO | None = None
) -> None:
    """Send the lines of this program to ``stream``, standard error when none is given."""
    handler = LimitedHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else KafkaFormatter())
    root = logging.getLogger(ROOT)
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level_number(level))
    root.propagate = False


def levels() -> dict[str, str]:
    """Each logger of this program and the level that it has now."""
    names = [ROOT, *(name for name in logging.root.manager.loggerDict if name.startswith("ottla."))]
    return {
        name: _NAMES.get(logging.getLogger(name).getEffectiveLevel(), "INFO")
        for name in sorted(names)
    }


def set_level(name: str, level: str | None) -> None:
    """Change the level of one logger; None lets it follow its parent again."""
    logging.getLogger(name).setLevel(logging.NOTSET if level is None else level_number(level))
