"""Where the quorum's work runs in the background: nothing but the log waits for the log's syncs."""

from typing import Final

LANE: Final = "metadata log"
SNAPSHOT_LANE: Final = "metadata snapshots"
