"""The controller half of a node: its listener, its part in the quorum, and its registration.

It listens before it takes part: the others must reach it before any of them can lead.
"""

from typing import Final

from ottla.common.errors import ApiError
from ottla.common.identifiers import random_uuid
from ottla.common.promise import Promise
from ottla.controller.bootstrap import controller_endpoints, registration_request
from ottla.controller.driver import ControllerDriver
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.versions import controller_registration_supported
from ottla.network.channel import NetworkChannel
from ottla.observability.logging import logger
from ottla.protocol.generated.controller_registration import ControllerRegistrationResponse
from ottla.raft.stopping import in_time
from ottla.requests.context import ControllerServices
from ottla.requests.dispatch import ControllerDispatcher
from ottla.requests.quota_metrics import register_tokens
from ottla.server import node_metrics
from ottla.server.remote_controller import RemoteController
from ottla.server.shared_server import SharedServer, bind
from ottla.storage.directories import LogDirFailed

log = logger(__name__)

REGISTRATION_TIMEOUT_MS: Final = 10_000
RETRY_SECONDS: Final = 0.5


class ControllerServer:
    def __init__(self, shared: SharedServer, channel: NetworkChannel) -> None:
        self._shared = shared
        config = shared.config
        self._server = shared.socket_server(config.controller_listeners)
        self.ports = bind(self._server, config.controller_listeners, shared.secured)
        self._incarnation_id = random_uuid(shared.chance)
        self.driver = ControllerDriver(
            config,
            cluster_id=shared.cluster_id,
            directory_id=shared.metadata_directory_id(),
            filesystem=shared.filesystem,
            scheduler=shared.scheduler,
            chance=shared.chance,
            metadata=shared.metadata,
            on_failure=shared.failed,
            channel=channel,
            incarnation_id=self._incarnation_id,
        )
        self.services = ControllerServices(
            node_id=config.node_id,
            cluster_id=shared.cluster_id,
            config=config,
            metadata=shared.metadata,
            controller=self.driver,
            raft=self.driver.raft,
            scheduler=shared.scheduler,
            authorizer=shared.authorizer,
            mistakes=log,
            quotas=shared.client_quotas(),
        )
        quotas = self.services.quotas
        register_tokens(shared.metrics, quotas)
        self.driver.charge_for = lambda client: quotas.charge(client, strict=True)
        self._channel = shared.controller_channel("registration", REGISTRATION_TIMEOUT_MS / 1000)
        self._active = RemoteController(
            raft=self.driver.raft,
            channel=self._channel,
            scheduler=shared.scheduler,
            timeout_ms=REGISTRATION_TIMEOUT_MS,
            local=self.driver,
        )
        node_metrics.register_connections(shared.metrics, self._server, self.ports)
        self._registering = False
        self._stopped = False

    def start(self) -> Promise[None]:
        """Serve, and join the quorum; fulfilled when it is known what is committed."""
        answer = ControllerDispatcher(self.services).answer
        logins = self._shared.logins.at(self._shared.config.controller_listeners, answer)
        self._server.start(dict.fromkeys(self.ports, answer), logins)
        started = self.driver.start(self.ports)
        node_metrics.register_active(self._shared.metrics, self.driver.raft)
        started.when_done(lambda _: self._begin_to_register())
        return started

    # Registration (KIP-919)

    def _begin_to_register(self) -> None:
        self._shared.metadata.on_image(self._changed)
        self._register_if_needed()

    def _changed(self, _image: MetadataImage, _delta: MetadataDelta) -> None:
        if not self._registering:
            self._register_if_needed()

    def _register_if_needed(self) -> None:
        """The metadata log must have this incarnation of ours; else it is told of it."""
        image = self._shared.metadata.image
        known = image.controllers.get(self._shared.config.node_id)
        if self._stopped or (known is not None and known.incarnation_id == self._incarnation_id):
            return
        if self._registering or not controller_registration_supported(
            image.features.metadata_version
        ):
            return
        self._registering = True
        # Not from within the commit that brought us here.
        self._shared.scheduler.call_soon(self._register)

    def _register(self) -> None:
        config = self._shared.config
        request = registration_request(
            config.node_id, self._incarnation_id, controller_endpoints(config, self.ports)
        )
        self._active.submit(request).when_done(self._registered)

    def _registered(self, answered: Promise[ControllerRegistrationResponse]) -> None:
        try:
            answered.result()
        except ApiError as error:
            if not self._stopped:
                log.warning("controller not registered", code=error.code.name)
        self._shared.scheduler.call_later(RETRY_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._registering = False
        self._register_if_needed()

    # The end

    async def stop(self) -> None:
        """Give up leading, tell the others so, and close the log."""
        self._stopped = True
        self._active.close()
        try:
            around = self._shared
            await in_time(self.driver.stop(), around.scheduler, around.config.metadata_log_dir)
        except LogDirFailed as failure:
            log.error("the metadata log was not closed", reason=failure.message)
        self._channel.close()
        self._server.close()
