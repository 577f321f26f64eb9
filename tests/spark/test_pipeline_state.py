"""The state of a run, why flows fail, and how both are shown."""

import io
import json
from pathlib import Path

import pytest

from ottla.spark.errors import BadOption
from ottla.spark.pipelines import runner
from ottla.spark.pipelines import state as states
from ottla.spark.pipelines.display import Display, Steps, duration, line, table
from ottla.spark.pipelines.failures import brief, may_pass, pause_seconds, text_of
from ottla.spark.pipelines.model import Pipeline, PipelineError
from ottla.spark.pipelines.progress import parse
from ottla.spark.pipelines.state import FlowState, RunLock, RunState


def running() -> RunState:
    words = FlowState("words", "words", "streaming table", states.RUNNING, 1234, 99.6, 12, 7, 0.31)
    broken = FlowState("out", "topic", "sink", states.WAITING, restarts=2, error="it is away")
    return RunState(
        "shop", "r1", 1, "local[2]", 1_000, states.RUNNING, flows={"words": words, "out": broken}
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Hours:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wall_ms(self) -> int:
        return int(self.seconds * 1000) + 61_000

    def monotonic(self) -> float:
        return self.seconds


def test_a_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        states.write(tmp_path, running())
        assert states.read(tmp_path) == running()
        assert [path.name for path in tmp_path.iterdir() if path.suffix == ".new"] == []


def test_a_run_whose_process_is_gone_has_died(tmp_path: Path) -> None:
    states.write(tmp_path, running())
    found = states.read(tmp_path)
    assert found is not None
    assert found.status == states.DIED
    ended = running()
    ended.status = states.STOPPED
    states.write(tmp_path, ended)
    assert states.read(tmp_path) == ended


def test_what_later_versions_tell_is_passed_over(tmp_path: Path) -> None:
    content = running().to_json()
    content["new"] = content["flows"]["words"]["newer"] = 1
    (tmp_path / states.STATE).write_text(json.dumps({**content, "status": states.STOPPED}))
    found = states.read(tmp_path)
    assert found is not None
    assert found.flows == running().flows


def test_where_nothing_ran_there_is_no_state_and_a_broken_one_is_named(tmp_path: Path) -> None:
    assert states.read(tmp_path / "none") is None
    (tmp_path / states.STATE).write_text("{")
    with pytest.raises(PipelineError, match=states.STATE):
        states.read(tmp_path)


def test_a_pipeline_runs_once_at_a_time(tmp_path: Path) -> None:
    with RunLock(tmp_path / "new"):
        assert states.is_locked(tmp_path / "new")
        with pytest.raises(PipelineError, match="a run of this pipeline is going on"):
            RunLock(tmp_path / "new").__enter__()
    assert not states.is_locked(tmp_path / "new")
    with RunLock(tmp_path / "new"):
        pass


def test_only_the_run_that_is_meant_is_asked_to_stop(tmp_path: Path) -> None:
    assert not states.is_asked_to_stop(tmp_path, "r1")
    states.ask_to_stop(tmp_path, running())
    assert states.is_asked_to_stop(tmp_path, "r1")
    assert not states.is_asked_to_stop(tmp_path, "r2")


def test_who_waits_for_the_end_waits_no_longer_than_he_wants(tmp_path: Path) -> None:
    waited: list[float] = []
    with RunLock(tmp_path):
        assert not states.wait_until_ended(tmp_path, 1.0, waited.append)
    assert sum(waited) == pytest.approx(1.0)
    assert states.wait_until_ended(tmp_path, 1.0, waited.append)


def test_the_table_fits_the_terminal_and_tells_what_is_wrong() -> None:
    lines = table(running(), 200, 62_000)
    assert lines[0] == "shop  running  1:01  local[2]"
    assert lines[2].split() == ["words", "words", "running", "1,234", "100", "12", "7", "0.3s"]
    assert lines[3].split() == ["out", "topic", "waiting", "(2)", "0", "0"]
    assert lines[4] == "out: it is away"
    assert max(len(each) for each in table(running(), 20, 62_000)) == 20


def test_on_a_terminal_the_table_is_rewritten_in_its_place() -> None:
    terminal, clock = Terminal(), Hours()
    display = Display(terminal, clock=clock, width=lambda: 80)
    display.show(running())
    first = terminal.getvalue()
    display.show(running())
    assert terminal.getvalue() == first, "nobody can read that fast"
    clock.seconds = 1.0
    display.show(running())
    assert terminal.getvalue().removeprefix(first).startswith("\x1b[5A\r\x1b[J")


def test_elsewhere_there_is_a_line_for_each_change_of_status() -> None:
    stream, clock = io.StringIO(), Hours()
    display = Display(stream, clock=clock)
    state = running()
    display.show(state)
    first = stream.getvalue().splitlines()
    assert first == [*map(line, state.flows.values()), "shop: running"]
    state.flows["words"].rows += 1
    display.show(state)
    assert stream.getvalue().splitlines() == first
    state.flows["words"].status = states.FAILED
    display.show(state)
    assert stream.getvalue().splitlines()[3:] == [line(state.flows["words"])]
    clock.seconds = 60
    state.flows["words"].rows += 1
    display.show(state)
    assert len(stream.getvalue().splitlines()) == 5


def starting(step: str) -> RunState:
    return RunState("shop", "r1", 1, "local[2]", 1_000, step=step)


def test_while_it_starts_each_step_is_told_at_once() -> None:
    terminal, clock, lines, steps = Terminal(), Hours(), io.StringIO(), io.StringIO()
    shown: list[Display | Steps] = [
        Display(terminal, clock=clock, width=lambda: 80),
        Display(lines, clock=clock),
        Steps(steps),
    ]
    for state in (starting("Spark"), starting("plan of words"), running(), running()):
        for each in shown:
            each.show(state)
    told = ["shop: starting: Spark", "shop: starting: plan of words", "shop: running"]
    assert steps.getvalue().splitlines() == told
    assert [each for each in lines.getvalue().splitlines() if each.startswith("shop")] == told
    heads = [each for each in terminal.getvalue().splitlines() if "shop  " in each]
    assert [each.partition("shop  ")[2].partition("  ")[0] for each in heads] == [
        "starting: Spark",
        "starting: plan of words",
        "running",
    ]


def test_a_run_tells_its_steps_and_where_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no Java here")

    monkeypatch.setattr(runner, "open_session", refuse)
    told: list[tuple[str, str | None]] = []
    with caplog.at_level("INFO", "ottla.spark"), pytest.raises(OSError, match="no Java here"):
        runner.run(
            Pipeline("shop", tmp_path, str(tmp_path / "storage"), ()),
            show=lambda state: told.append((state.status, state.step)),
        )
    assert told == [(states.STARTING, "Spark"), (states.FAILED, None)]
    assert "shop: starting: Spark" in caplog.messages


def test_for_programs_each_change_is_an_object_on_a_line() -> None:
    stream = Terminal()
    display = Display(stream, as_json=True, clock=Hours())
    display.show(running())
    display.show(running())
    told = [json.loads(each) for each in stream.getvalue().splitlines()]
    assert [each["flow"] for each in told] == [None, "words", "out"]
    assert told[2]["error"] == "it is away"


def test_times_are_for_people() -> None:
    assert [duration(each) for each in (0, 61, 3_661)] == ["0:00", "1:01", "1:01:01"]


LONG = """[STREAM_FAILED] Query [id = 7, runId = 8] terminated with exception: boom
  File "x.py", line 3, in work
pyspark.errors.exceptions.base.PySparkRuntimeError: outer
ottla.spark.errors.DataLoss: orders-0: offsets 5 to 9 are gone
JVM stacktrace: org.apache.spark.SparkException: Job aborted
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LONG, "DataLoss: orders-0: offsets 5 to 9 are gone"),
        (
            "[A_B.C] there is no x; did you mean y\n at plan",
            "[A_B.C] there is no x; did you mean y",
        ),
        ("just so", "just so"),
        ("Caused by: java.net.ConnectException: refused\n\tat x", "ConnectException: refused"),
        ("x\nottla.common.errors.UnknownTopicId: no topic", "UnknownTopicId: no topic"),
        ("", "no reason was given"),
        ("ValueError: " + "x" * 500, "ValueError: " + "x" * 285 + "..."),
    ],
)
def test_of_an_error_its_sentence_is_told(text: str, said: str) -> None:
    assert brief(text) == said


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (LONG, False),
        ("pyspark.errors.AnalysisException: no such column", False),
        ("ottla.spark.tables.errors.SchemaMismatch: table t: column a", False),
        ("NameError: name 'x' is not defined", False),
        ("ConnectionRefusedError: [Errno 111]", True),
        ("ottla.common.errors.BrokerNotAvailable: it is away", True),
        ("org.apache.spark.SparkException: executor lost", True),
    ],
)
def test_what_will_not_pass_is_not_tried_again(text: str, passes: bool) -> None:
    assert may_pass(text) is passes


def test_an_error_of_our_own_is_known_by_its_package() -> None:
    assert not may_pass(text_of(BadOption("topics")))
    assert brief(text_of(BadOption("topics"))) == "BadOption: topics"
    assert may_pass(text_of(TimeoutError("late")))


def test_pauses_double_up_to_a_minute() -> None:
    assert [pause_seconds(each) for each in (1, 2, 3, 7, 2_000)] == [1, 2, 4, 60, 60]


def test_progress_tells_what_is_left_in_topics() -> None:
    told = {
        "runId": "r",
        "batchId": 3,
        "numInputRows": 10,
        "processedRowsPerSecond": 20.5,
        "durationMs": {"triggerExecution": 1500},
        "sources": [
            {"latestOffset": '{"t":{"0":10,"1":7}}', "endOffset": {"t": {"0": 4, "1": 9}}},
            {"latestOffset": '{"version":3}', "endOffset": '{"version":3}'},
            {"latestOffset": None, "endOffset": "no json"},
        ],
    }
    progress = parse(told)
    assert progress == ("r", 3, 10, 20.5, 1.5, 6)
    assert parse({"sources": [{}]}).lag is None
