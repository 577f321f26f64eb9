"""What a worker holds for its whole life is looked at by the garbage collector no more."""

import subprocess
import sys

IN_A_PROCESS = """
import gc
from ottla.spark.worker_heap import settle, settled
class Node: pass
def garbage():
    node = Node()
    node.itself = node
held = [Node() for _ in range(1000)]
garbage()
assert list(settled([1, 2])) == [1, 2]
frozen = gc.get_freeze_count()
assert frozen > 1000, frozen
nodes = lambda: sum(isinstance(each, Node) for each in gc.get_objects())
assert nodes() == 0, nodes()  # what is set apart is not looked at
garbage()
settle()
assert gc.get_freeze_count() == frozen
assert gc.collect() >= 1  # what became garbage later is still found
"""


def test_what_is_there_after_the_first_task_is_set_apart_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
