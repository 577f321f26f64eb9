"""Requests with as many names as may be: no turn asks the authorizer for all of them.

A whole broker in the simulation is asked by a user without rights, and by a super user. Turns are
counted, not timed: whatever one name costs, others have their turn in between.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from tests.hostile.asked import AskedBroker
from tests.hostile.largest import largest
from tests.hostile.test_largest_requests import CONFIGURED, LEFT_OUT

from ottla.common.authorization import AclOperation, Client, ResourceType
from ottla.config.authorizer import STANDARD_AUTHORIZER
from ottla.metadata.audit import Rule
from ottla.metadata.standard_authorizer import StandardAuthorizer
from ottla.protocol.api import APIS, ApiKey
from ottla.requests.table import served
from ottla.requests.turns import NAMES_AT_ONCE

ITEMS: Final = 5 * NAMES_AT_ONCE
ASKED_MAX: Final = 4 * NAMES_AT_ONCE
"""In one turn: for a name there may be two operations, and each may be the cluster's too."""
HOT: Final = {ApiKey.PRODUCE, ApiKey.FETCH}
"""They ask on the hot way, which remembers what was allowed."""


class Asked(AskedBroker):
    """Counts what the authorizer is asked in each turn, of which the scheduler has the number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, super_users: str) -> None:
        secured = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": super_users}
        super().__init__({**CONFIGURED, **secured})
        self.turns = Counter[int]()
        rule = StandardAuthorizer._rule

        def asked(
            authorizer: StandardAuthorizer,
            client: Client,
            operation: AclOperation,
            resource_type: ResourceType,
            name: str,
        ) -> Rule:
            self.turns[self.broker.scheduler.steps] += 1
            return rule(authorizer, client, operation, resource_type, name)

        monkeypatch.setattr(StandardAuthorizer, "_rule", asked)


@pytest.fixture(scope="module", params=["User:nobody", "User:ANONYMOUS"], ids=["denied", "super"])
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Asked(monkeypatch, request.param)


@pytest.mark.parametrize(
    "key",
    [key for key in served(of_controller=False) if key not in LEFT_OUT and key not in HOT],
    ids=lambda key: key.name,
)
def test_no_turn_asks_for_all_names(asked: Asked, key: ApiKey) -> None:
    api = APIS[key]
    for version in {api.lowest_version, api.highest_stable_version}:
        for filled in largest(api, version):
            if filled.names == "unknown" and not filled.alone:
                asked.turns.clear()
                asked.ask(filled.make(ITEMS), version, "PLAINTEXT")
                most = max(asked.turns.values(), default=0)
                assert most <= ASKED_MAX, f"{filled} v{version}: {most}"


def test_the_authorizer_was_asked_for_each_name(asked: Asked) -> None:
    """Else the test above would show nothing."""
    for key in (ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.DELETE_TOPICS):
        api = APIS[key]
        asked.turns.clear()
        filled = next(largest(api, api.lowest_version))
        asked.ask(filled.make(ITEMS), api.lowest_version, "PLAINTEXT")
        assert asked.turns.total() >= ITEMS, api.name
