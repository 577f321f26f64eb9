"""What is tested: the compiled wheel where ``make test`` says so, else the work tree.

Examples of property tests have no deadline: a machine under load is no failure.
"""

import logging
import os
import warnings
from collections.abc import Generator

import pytest
from hypothesis import settings
from tools.installed import description

from ottla.cli.version import compiled_modules

WHEEL = "WHEEL_UNDER_TEST"
"""The wheel that must be what is imported; set by ``make test``."""

NAMED_PLUGINS = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""Set by ``make test``, which names the plugins."""

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(WHEEL) and not compiled_modules():
        raise pytest.UsageError(f"{WHEEL} is set, but this is {description()}")
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ.pop(NAMED_PLUGINS, None)  # a pytest that a test starts looks for its plugins


def pytest_report_header(config: pytest.Config) -> str:
    return description()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """A test that changes levels, or runs a command that does, leaves them as they were."""
    root = logging.getLogger("ottla")
    level, propagate, handlers = root.level, root.propagate, root.handlers[:]
    try:
        return (yield)
    finally:
        root.setLevel(level)
        root.propagate, root.handlers[:] = propagate, handlers
        for name, each in logging.root.manager.loggerDict.items():
            if name.startswith("ottla.") and isinstance(each, logging.Logger) and each.level:
                each.setLevel(logging.NOTSET)
