"""How a setting is written down: once, as an attribute of a :class:`ConfigSet`.

::

    class LogKeys(ConfigSet):
        log_segment_bytes = Int(1 << 30, "Size at which a new segment begins.", at_least(1 << 20))

The attribute's name is Kafka's with underscores for dots. On the class it is the :class:`Key`, on
an instance it is the value, typed: ``config.log_segment_bytes`` is an ``int``. Reading it costs
what any attribute costs, since the values lie in the instance and hide the key.

Some settings stand for one another (``log.retention.ms``, ``.minutes``, ``.hours``) or are read
together (``listeners``). The attribute then is what results; ``config.values`` keeps what each key
holds by itself, and ``config.originals`` what was written.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, NoReturn, Self, TypeVar, overload

from ottla.common.errors import InvalidConfig
from ottla.config.kinds import HiddenValue, Kind, Value, parse
from ottla.config.validators import Check

T = TypeVar("T")


class Scope(Enum):
    """Where a broker's setting may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


READ_ONLY: Final = Scope.READ_ONLY
PER_BROKER: Final = Scope.PER_BROKER
CLUSTER_WIDE: Final = Scope.CLUSTER_WIDE


class _Required:
    __slots__ = ()


REQUIRED: Final = _Required()
"""The default of a setting that must be given."""


class Key(Generic[T]):
    """A setting: what it is called, what it may be, and what it is for."""

    __slots__ = ("attribute", "default", "doc", "internal", "name", "scope", "valid")

    kind: ClassVar[Kind]

    def __init__(
        self,
        default: Value | _Required,
        doc: str,
        valid: Check | None = None,
        scope: Scope = READ_ONLY,
        *,
        internal: bool = False,
    ) -> None:
        self.default = default
        self.doc = doc
        self.valid = valid
        self.scope = scope
        self.internal = internal
        self.name = ""
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        assert instance is None, f"{self.attribute} has no value"
        return self

    @property
    def required(self) -> bool:
        return isinstance(self.default, _Required)

    @property
    def default_value(self) -> Value:
        return None if isinstance(self.default, _Required) else self.default

    @property
    def sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    def parse(self, text: str) -> Value:
        """The value that ``text`` stands for, checked."""
        value = parse(self.kind, self.name, text)
        if self.valid is not None:
            if self.valid.distinct and isinstance(value, tuple):
                value = tuple(dict.fromkeys(value))
            self.valid(self.name, value)
        return value


class Boolean(Key[bool]):
    kind = Kind.BOOLEAN


class Int(Key[int]):
    kind = Kind.INT


class OptionalInt(Key[int | None]):
    kind = Kind.INT


class Short(Key[int]):
    kind = Kind.SHORT


class Long(Key[int]):
    kind = Kind.LONG


class Double(Key[float]):
    kind = Kind.DOUBLE


class String(Key[str]):
    kind = Kind.STRING


class OptionalString(Key[str | None]):
    kind = Kind.STRING


class List(Key[tuple[str, ...]]):
    kind = Kind.LIST


class Class(Key[str | None]):
    """The name of a Java class; accepted as a name, since there is nothing to load it into."""

    kind = Kind.CLASS


class Password(Key[HiddenValue | None]):
    kind = Kind.PASSWORD


class ConfigSet:
    """A typed, immutable snapshot of settings."""

    keys: ClassVar[Mapping[str, Key[Any]]] = {}
    originals: Mapping[str, str]
    values: Mapping[str, Value]
    _defaults: ClassVar[dict[str, Value]] = {}
    """In the order of ``keys``, as ``_attributes`` are."""
    _required: ClassVar[tuple[str, ...]] = ()
    _attributes: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        found: dict[str, Key[Any]] = {}
        for base in reversed(cls.__mro__):
            for attribute in vars(base).values():
                if isinstance(attribute, Key):
                    found[attribute.name] = attribute
        cls.keys = dict(sorted(found.items()))
        cls._defaults = {name: key.default_value for name, key in cls.keys.items()}
        cls._required = tuple(name for name, key in cls.keys.items() if key.required)
        cls._attributes = tuple(key.attribute for key in cls.keys.values())

    def __init__(
        self, originals: Mapping[str, str], defaults: Mapping[str, Value] | None = None
    ) -> None:
        """Read ``originals``; ``defaults`` go before the defaults of the keys."""
        keys = self.keys
        values = dict(self._defaults)
        if defaults is not None:
            values.update((name, value) for name, value in defaults.items() if name in keys)
        for name in self._required:
            if name not in originals and (defaults is None or name not in defaults):
                raise InvalidConfig(
                    f'Missing required configuration "{name}" which has no default value.'
                )
        for name in sorted(originals):
            key = keys.get(name)
            if key is not None:
                values[name] = key.parse(originals[name])
        attributes = vars(self)
        attributes["originals"] = dict(originals)
        attributes["values"] = values
        attributes.update(zip(self._attributes, values.values(), strict=True))

    def resolve(self, **attributes: object) -> None:
        """Set what results from several keys; only ``__init__`` of a subclass calls this."""
        vars(self).update(attributes)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"settings do not change: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"settings do not change: {name}")
