"""``pipeline.toml``, the SQL of a pipeline, and the templates."""

from pathlib import Path

import pytest

from ottla.spark.pipelines.model import Dataset, Flow, Kind, PipelineError
from ottla.spark.pipelines.project import load
from ottla.spark.pipelines.sql import definitions, replace_streams, tokens
from ottla.spark.pipelines.template import write


def project(directory: Path, text: str) -> Path:
    (directory / "transformations").mkdir()
    (directory / "transformations" / "one.sql").write_text("")
    (directory / "pipeline.toml").write_text(text)
    return directory


def test_an_empty_file_is_a_pipeline_of_its_directory(tmp_path: Path) -> None:
    pipeline = load(project(tmp_path, ""))
    assert pipeline.name == tmp_path.name
    assert pipeline.storage == str(tmp_path / "storage")
    assert pipeline.libraries == (tmp_path / "transformations" / "one.sql",)
    assert pipeline.table_format == "parquet"
    assert pipeline.state_directory == tmp_path / "storage"


def test_all_that_a_file_may_say_is_understood(tmp_path: Path) -> None:
    text = """
        name = "shop"
        storage = "s3://bucket/shop"
        libraries = ["transformations/one.sql"]
        bootstrap_servers = "a:1,b:2"
        client_config = "client.properties"
        trigger = "500 ms"
        refresh = "2 minutes"
        static_refresh = "1.5s"
        [tables]
        format = "delta"
        options = { codec = "snappy" }
        [spark]
        "spark.sql.shuffle.partitions" = 4
        "spark.speculation" = false
        [sources.orders]
        subscribe = "orders"
        [sinks.out]
        format = "console"
        truncate = false
    """
    (tmp_path / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.username=alice\nsasl.password=hush-hush\n"
    )
    pipeline = load(project(tmp_path, text))
    assert dict(pipeline.security.settings)["sasl.password"] == "hush-hush"
    assert "hush-hush" not in repr(pipeline)
    assert pipeline.storage == "s3://bucket/shop"
    assert pipeline.path("tables", "t") == "s3://bucket/shop/tables/t"
    assert pipeline.state_directory == tmp_path / ".ottla"
    assert (pipeline.trigger_seconds, pipeline.refresh_seconds) == (0.5, 120)
    assert pipeline.static_refresh_seconds == 1.5
    assert pipeline.table_options == {"codec": "snappy"}
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "4", "spark.speculation": "false"}
    orders, out = pipeline.datasets
    assert (orders.kind, orders.format, orders.options) == (
        Kind.SOURCE,
        "ottla",
        {"subscribe": "orders"},
    )
    assert (out.kind, out.format, out.options) == (Kind.SINK, "console", {"truncate": "false"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('client_config = "nowhere"', "nowhere cannot be read"),
        ('nmae = "x"', "nmae is unknown; did you mean name?"),
        ('[tables]\nformt = "delta"', "tables.formt is unknown; did you mean format?"),
        ('[tables]\nformat = "detla"', "did you mean delta?"),
        ('trigger = "soon"', "trigger: expected '5 seconds' or so, got 'soon'"),
        ('libraries = ["nothing/**"]', "no file is named by 'nothing/**'"),
        ('libraries = ["pipeline.toml"]', "is neither .py nor .sql"),
        ('libraries = "transformations"', "libraries: expected a list"),
        ("spark = 3", "spark: expected a table"),
        ("[spark]\nspark.ui.enabled = true", 'write "spark.ui" = ...'),
        ('name = "a b"', "make a name"),
        ("name = ", "pipeline.toml: Invalid value"),
        ("storage = 7", "storage: expected a text, got 7"),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=r"pipeline\.toml") as caught:
        load(project(tmp_path, text))
    assert said in str(caught.value)


def test_where_there_is_no_pipeline_it_is_said_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="ottla pipeline init"):
        load(tmp_path)


SQL = """
-- a comment; with a semicolon
CREATE STREAMING TABLE clicks (id INT, at TIMESTAMP COMMENT 'a ; b')
  USING parquet PARTITIONED BY (day, `hour`) COMMENT 'it''s' TBLPROPERTIES ('a' = 'b')
AS SELECT * FROM STREAM(raw) WHERE note <> ';' /* ; */ ;
create materialized view per_day as select count(*) from clicks;
CREATE TEMPORARY VIEW good AS SELECT * FROM STREAM clicks;
CREATE STREAMING TABLE `all`;
CREATE FLOW f AS INSERT INTO `all` BY NAME SELECT 1
"""


def test_sql_defines_datasets_and_flows() -> None:
    made = list(definitions(SQL, "file.sql"))
    datasets = [each for each in made if isinstance(each, Dataset)]
    flows = [each for each in made if isinstance(each, Flow)]
    assert [(each.name, each.kind) for each in datasets] == [
        ("clicks", Kind.TABLE),
        ("per_day", Kind.VIEW),
        ("good", Kind.TEMPORARY),
        ("all", Kind.TABLE),
    ]
    clicks = datasets[0]
    assert clicks.partition_by == ("day", "hour")
    assert clicks.options == {"a": "b"}
    assert clicks.format == "parquet"
    assert clicks.schema == "id INT, at TIMESTAMP COMMENT 'a ; b'"
    assert str(clicks.place) == "file.sql:3"
    assert [(each.name, each.target) for each in flows] == [
        ("clicks", "clicks"),
        ("per_day", "per_day"),
        ("good", "good"),
        ("f", "all"),
    ]
    assert flows[0].query == "SELECT * FROM STREAM(raw) WHERE note <> ';'"
    assert flows[3].query == "SELECT 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1", "x.sql:1: expected CREATE"),
        ("\n\nCREATE TABLE t AS SELECT 1", "x.sql:3: CREATE TABLE T is not known here"),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", "OR REPLACE has no meaning"),
        ("CREATE MATERIALIZED VIEW v", "materialized view v has no query"),
        ("CREATE STREAMING TABLE t LOCATION 'x' AS SELECT 1", "LOCATION was not expected"),
        ("CREATE STREAMING TABLE a.b AS SELECT 1", "names of datasets have one part"),
        ("CREATE STREAMING TABLE t AS", "the query is missing"),
        ("CREATE STREAMING TABLE t (a INT", "the statement breaks off"),
        ("CREATE STREAMING TABLE t PARTITIONED BY (year(at)) AS SELECT 1", "names of columns"),
        ("CREATE STREAMING TABLE t TBLPROPERTIES (a) AS SELECT 1", "TBLPROPERTIES takes"),
        ("CREATE FLOW f AS SELECT 1", "expected INSERT INTO"),
        ("CREATE FLOW f AS INSERT INTO t SELECT 1", "expected BY NAME"),
        ("CREATE FLOW f AS AUTO CDC INTO t FROM x KEYS (a)", "Python files only"),
        ("CREATE STREAMING TABLE 'a'", "expected a name, got 'a'"),
    ],
)
def test_a_mistake_in_sql_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        list(definitions(text, "x.sql"))
    assert said in str(caught.value)


def test_streams_of_the_pipeline_become_views_and_nothing_else_does() -> None:
    query = (
        "SELECT 'STREAM(a)', stream.x /* STREAM(a) */ FROM STREAM(a) JOIN stream `b` "
        "JOIN STREAM(other) JOIN STREAM(c.d) -- STREAM a"
    )
    views = {"a": "va", "b": "vb"}
    assert replace_streams(query, views.get) == (
        "SELECT 'STREAM(a)', stream.x /* STREAM(a) */ FROM va JOIN vb "
        "JOIN STREAM(other) JOIN STREAM(c.d) -- STREAM a"
    )


def test_tokens_lie_where_they_say() -> None:
    text = "a 'b''c' -- d\n`e``f`(\"g\\\"h\")"
    found = tokens(text)
    assert all(text[each.start : each.end] == each.text for each in found)
    assert [each.text for each in found] == ["a", "'b''c'", "`e``f`", "(", '"g\\"h"', ")"]
    assert found[2].name == "e`f"


@pytest.mark.parametrize("in_sql", [False, True])
def test_a_template_is_a_pipeline_that_can_be_loaded(tmp_path: Path, in_sql: bool) -> None:
    made = write(tmp_path / "p", "minimal", "example:1234", in_sql=in_sql)
    pipeline = load(tmp_path / "p")
    assert pipeline.bootstrap_servers == "example:1234"
    assert set(pipeline.libraries) <= set(made)
    assert not any("@" in path.read_text().replace("@dp.", "") for path in made)
    with pytest.raises(PipelineError, match="exists already; nothing was written"):
        write(tmp_path / "p", "minimal")
    with pytest.raises(PipelineError, match="there is no template other"):
        write(tmp_path / "q", "other")
