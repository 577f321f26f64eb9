"""ApiVersions (key 18): what this broker speaks, and which features the cluster has.

It is the first thing that a client asks, so it must be answered whatever the client is: a version
from the future gets UNSUPPORTED_VERSION in the form of version 0, with the versions of ApiVersions.
The list is :mod:`ottla.requests.table`, nothing more, and loads none of its modules.

Produce is said to begin at 0, though nothing below 3 is served: librdkafka before 2.11 takes a
broker without version 0 for one that cannot produce.

v1 and v2 the throttle time; v3 flexible, the client's name and version (KIP-511), features
(KIP-584); v4 also features whose lowest level is 0, which v3 clients cannot read.
"""

import re
from typing import Final

from ottla.common.errors import ErrorCode, InvalidRequest
from ottla.metadata.image import MetadataImage
from ottla.metadata.versions import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.encoded import Encoded
from ottla.protocol.generated.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.protocol.message import to_bytes
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.table import served

_CLIENT_SOFTWARE: Final = 3
_FEATURES_FROM_ZERO: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
_PRODUCE_ADVERTISED_FROM: Final = 0


def handle(request: ApiVersionsRequest, context: RequestContext, services: NodeServices) -> Encoded:
    if context.version >= _CLIENT_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        raise InvalidRequest
    image, kraft_version = services.metadata.image, services.raft.kraft_version
    key = (context.version, context.of_controller)
    made_of = (image.offset, image.features, kraft_version)
    kept = services.api_versions.get(key)
    if kept is None or kept[0] != made_of:
        response = _response(context, image, kraft_version)
        kept = made_of, Encoded([to_bytes(response, context.version)])
        services.api_versions[key] = kept
    return kept[1]


def _response(
    context: RequestContext, image: MetadataImage, kraft_version: int
) -> ApiVersionsResponse:
    keys = served(of_controller=context.of_controller)
    response = ApiVersionsResponse(api_keys=[_advertised(key) for key in keys])
    if context.version >= _CLIENT_SOFTWARE:
        _add_features(response, context.version, image, kraft_version)
    return response


def _advertised(key: ApiKey) -> ApiVersion:
    api = APIS[key]
    lowest = _PRODUCE_ADVERTISED_FROM if key == ApiKey.PRODUCE else api.lowest_version
    return ApiVersion(api_key=key, min_version=lowest, max_version=api.highest_stable_version)


def _add_features(
    response: ApiVersionsResponse, version: int, image: MetadataImage, kraft_version: int
) -> None:
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(SUPPORTED_FEATURES.items())
        if lowest > 0 or version >= _FEATURES_FROM_ZERO
    ]
    if image.offset < 0:
        return
    levels = {METADATA_VERSION: image.features.metadata_version, **image.features.finalized}
    if kraft_version > 0:
        levels[KRAFT_VERSION] = kraft_version
    response.finalized_features_epoch = image.offset
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(levels.items())
    ]


def unsupported() -> ApiVersionsResponse:
    """The answer to a version that we do not know: which versions of this API we do know."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_advertised(ApiKey.API_VERSIONS)]
    )


HANDLER: Final = Handler(
    ApiVersionsRequest,
    handle,
    refuse=by_code(ApiVersionsResponse),
    needs=[],
    before_authentication=True,
    unsupported=unsupported,
)
