"""Which clients may ask for delegation tokens: they have shown who they are, by other means.

A token must not beget tokens, and where nobody logs in a token would be anybody's.
"""

from typing import Final

from ottla.common.authorization import ANONYMOUS
from ottla.requests.context import NodeServices, RequestContext

_SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


def may_ask_for_tokens(context: RequestContext, services: NodeServices) -> bool:
    if context.principal.token_authenticated:
        return False
    if context.is_forwarded:
        return True  # the broker knows the client's connection, and has let it pass
    protocol = services.config.protocols.get(context.listener_name.upper())
    return protocol in _SASL or (protocol == "SSL" and context.principal != ANONYMOUS)
