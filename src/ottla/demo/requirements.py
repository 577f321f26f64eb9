"""What the pipeline needs and this machine lacks, each as a sentence that says what to do."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.spark import java

PACKAGES: Final = ("numba", "pandas", "pyarrow", "pyspark")


def missing(
    environment: Mapping[str, str] = os.environ, packages: Sequence[str] = PACKAGES
) -> list[str]:
    """Nothing, if a pipeline can run here."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        return [f"{', '.join(absent)} not installed: pip install 'ottla[spark]'"]
    try:
        java.find(environment)
    except java.JavaMissing as error:
        return [str(error)]
    return []
