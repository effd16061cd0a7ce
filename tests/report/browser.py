"""A headless Chromium, driven over its debugging pipe with nothing but the standard library."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
# Chromium reads commands from its third file and writes answers to its fourth one, each ended by a zero byte.
_WITH_PIPES = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(pipe), fcntl.F_DUPFD, 10) for pipe in sys.argv[1:3])  # out of the way
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page, and what a person could do with it.

    Attributes:
        console: What the page wrote to the console since the last ``open``, and errors that nothing caught.
        requests: Addresses that were asked for since then.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._unread = b""
        self._number = 0
        self._session: dict[str, str] = {}
        self.console: list[str] = []
        self.requests: list[str] = []
        page = self.command("Target.createTarget", url="about:blank")["targetId"]
        attached = self.command("Target.attachToTarget", targetId=page, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")
        self.resize(1280)

    def command(self, method: str, **settings: Any) -> Any:
        """Send one command of the protocol and return its result; events on the way are written down."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": settings, **self._session}
        _write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def resize(self, width: int, height: int = 2000) -> None:
        """Give the page so many pixels."""
        # a mobile one would zoom out until nothing overflows
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **shape)

    def open(self, path: Path) -> None:
        """Load a file and wait until its charts are drawn, if a script draws any."""
        self.run("return 0")  # what the page before had to say is read
        self.console.clear()
        self.requests.clear()
        self.command("Page.navigate", url=path.as_uri())
        self.wait(
            "return location.href === arguments[0] && document.readyState === 'complete'"
            " && (document.scripts.length === 0 || document.documentElement.dataset.charts === 'drawn')",
            path.as_uri(),
        )

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page and return what it returns."""
        function = f"(function () {{ {script} }}).apply(null, {json.dumps(arguments)})"
        found = self.command("Runtime.evaluate", expression=function, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, *arguments: Any, seconds: float = 60) -> None:
        """Wait until the script says yes."""
        end = time.monotonic() + seconds
        while not self.run(script, *arguments):
            assert time.monotonic() < end, f"waited in vain for: {script}"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """Click an element as a person does."""
        at = self._centre(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def point_at(self, selector: str) -> None:
        """Move the mouse over an element."""
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        self.command("Input.dispatchMouseEvent", type="mouseMoved", **self._centre(selector))

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page, for people to look at."""
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _centre(self, selector: str) -> dict[str, float]:
        x, y = self.run(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center', inline: 'center'});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]",
            selector,
        )
        return {"x": x, "y": y}

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has ended"
            self._unread += read
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        if event["method"] == "Runtime.consoleAPICalled":
            self.console.append(json.dumps(told["args"]))
        elif event["method"] == "Runtime.exceptionThrown":
            self.console.append(json.dumps(told["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded":
            self.console.append(told["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of its own, without a network, closed at the end."""
    assert CHROMIUM is not None
    (theirs, commands), (answers, ours) = os.pipe(), os.pipe()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "pass_fds": (theirs, ours)}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        start = [sys.executable, "-I", "-c", _WITH_PIPES, str(theirs), str(ours)]
        with subprocess.Popen([*start, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"], **quiet) as process:
            os.close(theirs)
            os.close(ours)
            try:
                one = Browser(commands, answers)
                yield one
                one._session = {}
                one.command("Browser.close")
                process.wait(60)
            finally:
                process.kill()
                os.close(commands)
                os.close(answers)
