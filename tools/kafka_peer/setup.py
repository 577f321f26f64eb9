"""Brings Apache Kafka and its command-line tools from Maven into a directory.

``python tools/kafka_peer/setup.py [DIR]``: unless it is named, DIR is ``$OTTLA_KAFKA_PEER`` or
``<project>/.peer/kafka``. Needs Java 17 and Maven; does nothing when the jars are already there.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

VERSION: Final = "4.3.1"
HERE: Final = Path(__file__).resolve().parent
PROJECT: Final = HERE.parent.parent


def directory() -> Path:
    """Where the jars are, or are to be."""
    named = os.environ.get("OTTLA_KAFKA_PEER")
    return Path(named).resolve() if named else PROJECT / ".peer" / "kafka"


def is_present(home: Path) -> bool:
    return (home / "libs" / f"kafka-tools-{VERSION}.jar").exists()


def bring(home: Path, pom: Path = HERE / "pom.xml") -> None:
    """Download beside, then rename: a broken download is never taken for a whole one."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            sys.exit(f"Apache Kafka needs `{program}`, which is not on the PATH")
    home.mkdir(parents=True, exist_ok=True)
    partial = home / "libs.partial"
    shutil.rmtree(partial, ignore_errors=True)
    subprocess.run(
        [
            *("mvn", "-q", "-B", "-ntp", "-f", str(pom)),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={partial}",
            "-DincludeScope=runtime",
        ],
        check=True,
    )
    shutil.rmtree(home / "libs", ignore_errors=True)
    partial.rename(home / "libs")


def main() -> None:
    home = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else directory()
    if not is_present(home):
        print(f"Apache Kafka {VERSION}: downloading into {home}", file=sys.stderr)
        bring(home)
    print(f"Apache Kafka {VERSION}: {len(list((home / 'libs').iterdir()))} jars in {home / 'libs'}")


if __name__ == "__main__":
    main()
