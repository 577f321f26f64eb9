"""Ottla: an event streaming platform that speaks Apache Kafka's protocol."""

from pathlib import Path as _Path

__version__ = "0.1.0"


def _refuse_stale_modules(package: _Path) -> None:
    """In a work tree Python would run a compiled module in place of what was edited since."""
    if not (package.parents[1] / "pyproject.toml").exists():
        return  # installed: both came together
    if not any(package.parent.glob("*__mypyc.*")):
        return
    for compiled in package.rglob("*.so"):
        module = compiled.with_name(compiled.name.partition(".")[0] + ".py")
        if not module.exists() or module.stat().st_mtime > compiled.stat().st_mtime:
            raise ImportError(
                f"{compiled} is older than {module.name}: "
                "`make compile` makes it anew, `make clean` removes it"
            )


_refuse_stale_modules(_Path(__file__).resolve().parent)
