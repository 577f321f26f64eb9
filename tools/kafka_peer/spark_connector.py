"""Brings spark-sql-kafka from Maven, beside Apache Kafka: our source is compared with it.

``python tools/kafka_peer/spark_connector.py``: into ``spark-connector`` beside Kafka's directory
(see ``setup.py``). Does nothing when the jars are already there.
"""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))

from tools.kafka_peer.setup import HERE, bring, directory  # noqa: E402


def jars() -> list[Path]:
    """The connector and what it needs; none when it was not brought."""
    return sorted((directory().parent / "spark-connector" / "libs").glob("*.jar"))


def main() -> None:
    home = directory().parent / "spark-connector"
    if not jars():
        print(f"spark-sql-kafka: downloading into {home}", file=sys.stderr)
        bring(home, HERE / "spark_pom.xml")
    print(f"spark-sql-kafka: {len(jars())} jars in {home / 'libs'}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"Maven could not bring it: {error}")
