"""What a topic may be called."""

import re
from typing import Final

from ottla.common.errors import InvalidTopicException

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def check_topic_name(name: str) -> None:
    """Refuse what is no name for a topic, in Kafka's words."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return
    raise InvalidTopicException(f"Topic name is invalid: {reason}")


def has_collision_character(name: str) -> bool:
    return "." in name or "_" in name


def metric_name(name: str) -> str:
    """The name in metrics, where dots become underscores: two topics may not share one."""
    return name.replace(".", "_")
