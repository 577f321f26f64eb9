"""Which partition of a topic each row goes to: by its key, as Kafka's own producers choose.

A row without a key goes by its offset, so that such rows are spread evenly and a row goes to the
same partition whenever it is written.
"""

from typing import Any

import numpy as np

from ottla.spark.codec.encoding_kernels import murmur2
from ottla.spark.codec.kernels import Bytes, Ints, Longs, compiled
from ottla.spark.codec.rows import Rows


def spread(rows: Rows, offsets: Longs, partitions: int) -> Ints:
    targets = np.empty(rows.count, np.int32)
    _spread(*rows.key, offsets, partitions, targets)
    return targets


@compiled
def _spread(
    data: Bytes, starts: Longs, sizes: Longs, offsets: Longs, partitions: int, targets: Any
) -> None:
    for row in range(sizes.shape[0]):
        if sizes[row] < 0:
            targets[row] = offsets[row] % partitions
        else:
            hashed = murmur2(data, starts[row], sizes[row])
            targets[row] = np.int64(hashed & np.uint64(0x7FFFFFFF)) % partitions
