"""The farm inside this process: the controller's loop in a thread of its own, for as long as somebody follows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orchestrator import wiring
from orchestrator.errors import FarmError
from orchestrator.settings import Settings

STOP_S = 30.0


class InlineFarm:
    """Runs the controller in a thread; `wait` tells when it ended."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ended = threading.Event()
        self._health_stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="inline-farm", daemon=True)

    def start(self) -> None:
        self._thread.start()
        wiring.health_monitor(self._settings, self._health_stop, start_phones=True).start()

    def wait(self, seconds: float) -> None:
        """Sleep while the controller works; raises FarmError when it is gone."""
        if self._ended.wait(seconds):  # joining would take the thread for dead once Ctrl-C interrupted it
            raise FarmError(f"the controller ended: {self._error}", "The same command again goes on where it stopped.")

    def stop(self) -> None:
        """Let the loop return; attempts that run go on on their phones and are found again by the next controller."""
        self._health_stop.set()
        with suppress(RuntimeError):  # its loop is closed: it ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._ended.wait(STOP_S)

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._run())
        except Exception as error:  # noqa: BLE001  # told by wait(), in the thread that follows
            self._error = error
        finally:
            self._ended.set()

    async def _run(self) -> None:
        executor = wiring.inline_executor(self._settings)
        with wiring.open_controller(self._settings, executor) as controller:
            await controller.run(self._stop)


@contextmanager
def inline_farm(settings: Settings) -> Iterator[InlineFarm]:
    farm = InlineFarm(settings)
    farm.start()
    try:
        yield farm
    finally:
        farm.stop()
