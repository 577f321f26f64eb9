"""``ottla version``."""

import importlib.util
import platform
from pathlib import Path
from typing import Final

import click

import ottla
from ottla.cli.output import Output, output_options

KAFKA_VERSION: Final = "4.3.1"


def compiled_modules() -> list[str]:
    """The modules that mypyc has made native code of; the others run as they are written."""
    root = Path(ottla.__file__).parent
    return sorted(
        ".".join(path.relative_to(root).with_suffix("").with_suffix("").parts)
        for path in root.rglob("*.so")
    )


@click.command()
@output_options
def version(output: Output) -> None:
    """Say what this is, and whether its hot modules are compiled."""
    compiled = compiled_modules()
    uvloop = importlib.util.find_spec("uvloop") is not None
    if output.is_document:
        output.document(
            {
                "version": ottla.__version__,
                "kafka": KAFKA_VERSION,
                "python": platform.python_version(),
                "compiled": compiled,
                "uvloop": uvloop,
            }
        )
        return
    native = f"compiled: {', '.join(compiled)}" if compiled else "not compiled (make compile)"
    output.line(f"ottla {ottla.__version__} (speaks Apache Kafka {KAFKA_VERSION})")
    output.line(
        f"python {platform.python_version()}, {'uvloop' if uvloop else 'asyncio'}, {native}"
    )
