"""Who reads what: the order of flows, and what is wrong with their connections.

Edges are found when flows are evaluated (:meth:`Graph.evaluating`, :meth:`Graph.read`), because
only Spark knows what a query reads. What can be known before is checked by :func:`check`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla.spark.pipelines.model import Dataset, Flow, Kind, PipelineError, did_you_mean

ROWS: Final = "__rows"
CHANGES: Final = "__changes"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Input(NamedTuple):
    """A dataset that a flow reads: as a stream of new rows, or whole."""

    dataset: str
    streaming: bool


def check(datasets: Sequence[Dataset], flows: Sequence[Flow]) -> None:
    """Whether names are unique, targets exist and can be written, and all have flows."""
    _unique([(each.name, "dataset", str(each.place)) for each in datasets])
    _unique([(each.name, "flow", str(each.place)) for each in flows])
    for name, place in [(each.name, each.place) for each in datasets] + [
        (each.name, each.place) for each in flows
    ]:
        if not _NAME.fullmatch(name):
            raise PipelineError(
                f"{place}: {name!r} is no name: take letters, digits and _ "
                "(names of datasets have one part)"
            )
    named = {each.name: each for each in datasets}
    written = Counter(each.target for each in flows)
    for flow in flows:
        target = named.get(flow.target)
        if target is None:
            meant = did_you_mean(flow.target, named)
            raise PipelineError(
                f"{flow.place}: flow {flow.name} writes to {flow.target}, which is not defined"
                f"{meant}"
            )
        if target.kind is Kind.SOURCE:
            raise PipelineError(f"{flow.place}: {flow.target} is a source: nothing writes to it")
        if target.kind in {Kind.VIEW, Kind.TEMPORARY} and written[target.name] > 1:
            raise PipelineError(
                f"{flow.place}: {target.kind.value} {target.name} has more than one query"
            )
        if flow.latest and (target.kind is not Kind.TABLE or written[target.name] > 1):
            raise PipelineError(
                f"{flow.place}: flow {flow.name} keeps the latest state: its target "
                f"{target.name} must be a streaming table that nothing else writes to"
            )
    for dataset in datasets:
        changes = f"{dataset.name}{CHANGES}"
        if dataset.kind is Kind.VIEW and changes in named:
            raise PipelineError(
                f"{named[changes].place}: {changes} is the name of the table where the changes of "
                f"{dataset.name} are kept: take another one"
            )
        if dataset.kind is not Kind.SOURCE and not written[dataset.name]:
            raise PipelineError(
                f"{dataset.place}: nothing writes to {dataset.kind.value} {dataset.name}"
            )


def _unique(names: list[tuple[str, str, str]]) -> None:
    seen: dict[str, str] = {}
    for name, noun, place in names:
        if name in seen:
            raise PipelineError(f"{place}: {noun} {name} is defined twice, first at {seen[name]}")
        seen[name] = place


@dataclass(slots=True)
class Graph:
    """Of one pipeline; grows while flows are evaluated."""

    datasets: dict[str, Dataset]
    flows: dict[str, Flow]
    inputs: dict[str, dict[Input, None]] = field(default_factory=dict)
    """What each flow reads by itself, in the order of its query; as it was last evaluated."""
    _stack: list[tuple[str, dict[Input, None]]] = field(default_factory=list)

    def writers(self, dataset: str) -> list[Flow]:
        return [each for each in self.flows.values() if each.target == dataset]

    def is_rewritten(self, dataset: Dataset) -> bool:
        """Whether its rows change and go, so that there are old versions."""
        latest = any(flow.latest for flow in self.writers(dataset.name))
        return dataset.kind is Kind.VIEW or latest

    @contextmanager
    def evaluating(self, flow: Flow) -> Iterator[None]:
        """What is read meanwhile is read by this flow."""
        names = [name for name, _ in self._stack]
        if flow.name in names:
            raise self._circle([*names[names.index(flow.name) :], flow.name])
        found: dict[Input, None] = {}
        self._stack.append((flow.name, found))
        try:
            yield
        finally:
            self._stack.pop()
        self.inputs[flow.name] = found  # in one step: others look at it all the time

    def read(self, dataset: str, *, streaming: bool) -> Dataset:
        found = self.datasets[dataset]
        if self._stack:
            name, inputs = self._stack[-1]
            flow = self.flows[name]
            if found.kind is Kind.SINK:
                raise PipelineError(f"{flow.place}: flow {flow.name} reads the sink {dataset}")
            inputs[Input(dataset, streaming)] = None
        return found

    def missing(self, dataset: str) -> PipelineError:
        """A flow reads what neither the pipeline nor Spark knows."""
        flow = self.flows[self._stack[-1][0]] if self._stack else None
        where = f"{flow.place}: flow {flow.name}" if flow else "a query"
        readable = [each.name for each in self.datasets.values() if each.kind is not Kind.SINK]
        return PipelineError(
            f"{where} reads {dataset}, which is not defined{did_you_mean(dataset, readable)}"
        )

    def put_tables_before_sinks(self) -> list[str]:
        """Flows to sinks that also read something whole get a table of their own in between.

        A table keeps what a micro-batch was when it was first written; what is read whole may be
        different when the batch is run again, and a topic could then hold a part of each.
        """
        changed = []
        for flow in list(self.flows.values()):
            if self.datasets[flow.target].kind is not Kind.SINK or not self.reads_whole(flow.name):
                continue
            name = f"{flow.name}{ROWS}"
            if name in self.flows or name in self.datasets:
                raise PipelineError(f"{flow.place}: {name} is the name of a table of this flow")
            self.datasets[name] = Dataset(name, Kind.TABLE, flow.place)
            self.flows[name] = replace(flow, name=name, target=name)
            follow = f"SELECT * FROM STREAM({name})"  # noqa: S608 - a name that was checked
            self.flows[flow.name] = replace(flow, query=follow)
            self.inputs[name] = self.inputs.pop(flow.name)
            self.inputs[flow.name] = {Input(name, streaming=True): None}
            changed.append(flow.name)
        return changed

    def reads_whole(self, flow: str) -> list[str]:
        return [each.dataset for each in self.stored_inputs(flow) if not each.streaming]

    def stored_inputs(self, flow: str) -> list[Input]:
        """Tables, views and sources that a flow reads, also through temporary views."""
        found: dict[Input, None] = {}
        for each in self.inputs.get(flow, {}):
            if self.datasets[each.dataset].kind is Kind.TEMPORARY:
                for writer in self.writers(each.dataset):
                    found |= dict.fromkeys(self.stored_inputs(writer.name))
            else:
                found[each] = None
        return list(found)

    def followers(self, dataset: str) -> list[Flow]:
        """Flows that read it as a stream, also through temporary views."""
        return [
            flow
            for flow in self.flows.values()
            if self.datasets[flow.target].kind is not Kind.TEMPORARY
            and Input(dataset, streaming=True) in self.stored_inputs(flow.name)
        ]

    def order(self) -> list[Flow]:
        """Flows so that each comes after those that write what it reads."""
        done: dict[str, None] = {}
        path: list[str] = []

        def visit(flow: Flow) -> None:
            if flow.name in path:
                raise self._circle([*path[path.index(flow.name) :], flow.name])
            if flow.name in done:
                return
            path.append(flow.name)
            for each in self.inputs.get(flow.name, {}):
                for writer in self.writers(each.dataset):
                    visit(writer)
            path.pop()
            done[flow.name] = None

        for flow in self.flows.values():
            visit(flow)
        return [self.flows[name] for name in done]

    def _circle(self, names: list[str]) -> PipelineError:
        flow = self.flows[names[0]]
        circle = " -> ".join(self.flows[name].target for name in reversed(names))
        return PipelineError(f"{flow.place}: {circle} is a circle: a dataset is made of itself")
