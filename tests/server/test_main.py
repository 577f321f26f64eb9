"""What a process sets up around a node."""

import pytest

from ottla.config.broker import BrokerConfig
from ottla.server.defaults import development_properties
from ottla.server.main import SIZED_BY_SYSTEM, Running, new_event_loop


@pytest.mark.parametrize(
    ("written", "expected"),
    [({}, SIZED_BY_SYSTEM), ({"socket.receive.buffer.bytes": "50000"}, 50_000)],
)
def test_socket_buffers_are_left_to_the_system_unless_the_file_speaks_of_them(
    written: dict[str, str], expected: int, tmp_path: object
) -> None:
    properties = {**development_properties(str(tmp_path)), **written}
    running = Running(BrokerConfig.from_properties(properties), new_event_loop())
    try:
        assert running.network.receive_buffer == expected
    finally:
        running.close()
