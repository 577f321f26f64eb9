"""Waiting for what others do in their own time: processes, threads, metadata on its way."""

import asyncio
import threading
import time
from collections.abc import Callable

PAUSE_SECONDS = 0.05


def eventually(
    condition: Callable[[], bool], what: str = "what is waited for", *, seconds: float = 60.0
) -> None:
    """Ask again and again until it is so."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        pause.wait(PAUSE_SECONDS)


async def eventually_async(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """The same beside a loop that must go on."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.to_thread(threading.Event().wait, PAUSE_SECONDS)
