"""Which features a cluster can have and which are switched on, as ApiVersions tells."""

from typing import NamedTuple

from ottla.client.cluster import ANY, Cluster
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse


class Feature(NamedTuple):
    """``level`` is None when the feature is not finalized, that is at 0."""

    name: str
    lowest: int
    highest: int
    level: int | None


def describe_features(cluster: Cluster) -> list[Feature]:
    """The features that the asked node supports, and the levels of the cluster."""
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
    answer = cluster.ask_again(request, ApiVersionsResponse, node_id=ANY)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return [
        Feature(each.name, each.min_version, each.max_version, levels.get(each.name))
        for each in sorted(answer.supported_features, key=lambda each: each.name)
    ]
