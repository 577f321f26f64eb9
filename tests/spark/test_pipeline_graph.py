"""The order of flows, and what can be wrong with their connections."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.pipelines.graph import Graph, Input, check
from ottla.spark.pipelines.model import Dataset, Flow, Kind, LatestState, PipelineError, Place

HERE = Place("f.py", 7)


def table(name: str, kind: Kind = Kind.TABLE) -> Dataset:
    return Dataset(name, kind, HERE)


def flow(name: str, target: str = "", latest: LatestState | None = None) -> Flow:
    return Flow(name, target or name, "SELECT 1", HERE, latest=latest)


def graph(reads: dict[str, list[Input]], kinds: dict[str, Kind] | None = None) -> Graph:
    """A dataset and a flow of each name, which reads the given ones."""
    kinds = kinds or {}
    made = Graph(
        {name: table(name, kinds.get(name, Kind.TABLE)) for name in reads},
        {name: flow(name) for name in reads},
    )
    for name, inputs in reads.items():
        with made.evaluating(made.flows[name]):
            for each in inputs:
                made.read(each.dataset, streaming=each.streaming)
    return made


def stream(name: str) -> Input:
    return Input(name, streaming=True)


def whole(name: str) -> Input:
    return Input(name, streaming=False)


@pytest.mark.parametrize(
    ("datasets", "flows", "said"),
    [
        ([table("a"), table("a")], [flow("a")], "dataset a is defined twice, first at f.py:7"),
        ([table("a")], [flow("a"), flow("a")], "flow a is defined twice"),
        ([table("orders")], [flow("x", "order")], "which is not defined; did you mean orders?"),
        ([table("a")], [], "nothing writes to streaming table a"),
        ([table("a", Kind.SOURCE)], [flow("x", "a")], "a is a source"),
        ([table("a", Kind.VIEW)], [flow("a"), flow("b", "a")], "has more than one query"),
        ([table("a.b")], [flow("a.b")], "'a.b' is no name"),
        (
            [table("v", Kind.VIEW), table("v__changes")],
            [flow("v"), flow("v__changes")],
            "v__changes is the name of the table where the changes of v are kept",
        ),
        (
            [table("a")],
            [flow("a"), flow("b", "a", LatestState(("k",), "t"))],
            "must be a streaming table that nothing else writes to",
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(
    datasets: list[Dataset], flows: list[Flow], said: str
) -> None:
    with pytest.raises(PipelineError, match=r"f\.py:7") as caught:
        check(datasets, flows)
    assert said in str(caught.value)


def test_several_flows_may_write_to_a_table_or_a_sink() -> None:
    check([table("a"), table("s", Kind.SINK)], [flow("a"), flow("b", "a"), flow("c", "s")])


def test_a_flow_comes_after_those_whose_tables_it_reads() -> None:
    made = graph({"c": [stream("b")], "b": [whole("a")], "a": []})
    assert [each.name for each in made.order()] == ["a", "b", "c"]


def test_a_circle_is_told_by_its_datasets() -> None:
    made = graph({"a": [stream("c")], "b": [stream("a")], "c": [stream("b")]})
    with pytest.raises(PipelineError, match="a -> b -> c -> a is a circle"):
        made.order()


def test_a_circle_is_told_while_it_is_walked() -> None:
    made = graph({"a": [], "b": []})
    with (
        pytest.raises(PipelineError, match="a -> b -> a is a circle"),
        made.evaluating(made.flows["a"]),
        made.evaluating(made.flows["b"]),
        made.evaluating(made.flows["a"]),
    ):
        pass


def test_what_is_not_there_is_told_with_its_reader() -> None:
    made = graph({"orders": []})
    with made.evaluating(made.flows["orders"]):
        error = made.missing("ordres")
    assert str(error) == (
        "f.py:7: flow orders reads ordres, which is not defined; did you mean orders?"
    )


def test_a_sink_cannot_be_read() -> None:
    made = Graph({"s": table("s", Kind.SINK)}, {"f": flow("f", "s")})
    with (
        pytest.raises(PipelineError, match="flow f reads the sink s"),
        made.evaluating(made.flows["f"]),
    ):
        made.read("s", streaming=True)


def test_what_a_temporary_view_reads_is_read_by_who_reads_the_view() -> None:
    kinds = {"v": Kind.TEMPORARY, "m": Kind.VIEW}
    made = graph({"a": [], "b": [], "v": [stream("a"), whole("b")], "m": [stream("v")]}, kinds)
    assert made.stored_inputs("m") == [stream("a"), whole("b")]
    assert made.reads_whole("m") == ["b"]


def test_a_view_that_is_read_as_a_stream_is_followed() -> None:
    made = graph({"v": [], "w": [whole("v")], "x": [stream("w")]}, {"v": Kind.VIEW, "w": Kind.VIEW})
    assert [each.name for each in made.followers("w")] == ["x"]
    assert made.followers("v") == []


def test_who_follows_a_view_through_a_temporary_view_is_a_follower() -> None:
    kinds = {"v": Kind.VIEW, "t": Kind.TEMPORARY}
    made = graph({"v": [], "t": [stream("v")], "x": [stream("t")]}, kinds)
    assert [each.name for each in made.followers("v")] == ["x"]


def test_a_flow_to_a_sink_that_reads_a_table_whole_gets_a_table_of_its_own() -> None:
    made = graph({"a": [], "b": [], "s": [stream("a"), whole("b")]}, {"s": Kind.SINK})
    assert made.put_tables_before_sinks() == ["s"]
    assert [(each.name, each.target) for each in made.order()] == [
        ("a", "a"),
        ("b", "b"),
        ("s__rows", "s__rows"),
        ("s", "s"),
    ]
    assert made.datasets["s__rows"].kind is Kind.TABLE
    assert made.stored_inputs("s") == [stream("s__rows")]
    assert made.put_tables_before_sinks() == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_any_order_keeps_to_all_edges_or_there_is_a_circle(edges: list[tuple[int, int]]) -> None:
    reads: dict[str, list[Input]] = {f"f{i}": [] for i in range(10)}
    for number, other in edges:
        reads[f"f{number}"].append(stream(f"f{other}"))
    made = graph(reads)
    try:
        order = [each.name for each in made.order()]
    except PipelineError as error:
        names = str(error).split(": ", 1)[1].split(" is a circle")[0].split(" -> ")
        assert names[0] == names[-1]
        for name, after in pairwise(names):
            assert stream(name) in reads[after]
        return
    assert sorted(order) == sorted(reads)
    for reader, inputs in reads.items():
        for each in inputs:
            assert order.index(each.dataset) < order.index(reader)
