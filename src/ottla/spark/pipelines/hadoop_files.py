"""Directories where Spark has its files: on this machine, or wherever an address leads."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Directories:
    """Through Hadoop's file systems, which Spark itself uses for checkpoints."""

    def __init__(self, spark: "SparkSession") -> None:
        context = spark.sparkContext
        self._jvm: Any = context._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's classes
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001 - nor to its settings

    def exists(self, path: str) -> bool:
        place, files = self._at(path)
        return bool(files.exists(place))

    def names(self, path: str) -> list[str]:
        """What is in a directory, in order; nothing if there is none."""
        place, files = self._at(path)
        if not files.exists(place):
            return []
        return sorted(each.getPath().getName() for each in files.listStatus(place))

    def read(self, path: str) -> str:
        """A small file of text."""
        place, files = self._at(path)
        stream = files.open(place)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, path: str) -> None:
        """An empty file, with the directories around it."""
        place, files = self._at(path)
        files.create(place, True).close()

    def delete(self, path: str) -> None:
        """With all that is in it; nothing if it is not there."""
        place, files = self._at(path)
        files.delete(place, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self._conf)
