"""How the pipeline says that something went wrong.

ValueError
    BadOption       an option that is unknown, missing, or says nothing that we understand
RuntimeError
    DataLoss        records that a query should return are gone; see ``failOnDataLoss``
"""

from typing import Final

ADVICE: Final = (
    "They were removed by retention or by hand, or the topic was deleted. To go on without them "
    "set the option failOnDataLoss to false; to begin anew use a new checkpoint"
)

UNREADABLE_ADVICE: Final = (
    "A segment of its log or of the remote store is lost or damaged, the broker's own log says "
    "which; ottla log verify and ottla jobs verify-tier find such segments. To go on without these "
    "records set the option failOnDataLoss to false"
)


class BadOption(ValueError):
    pass


class DataLoss(RuntimeError):
    """Names the topic, the partition, the offsets, and what can be done."""
