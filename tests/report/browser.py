"""A headless Chromium, driven over the WebDriver protocol with nothing but the standard library."""

import http.client
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1280,2000",
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for "this is an element"


class Browser:
    """One page, and what a person could do with it."""

    def __init__(self, port: int, session: str = "") -> None:
        self.port = port
        self._session = session

    def command(self, method: str, path: str, body: Any = None) -> Any:
        """Send one command of the protocol and return its value."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        data = None if body is None else json.dumps(body)
        connection.request(method, self._session + path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        value = json.load(answer)["value"]
        connection.close()
        assert answer.status == 200, f"{method} {path}: {value}"
        return value

    def open(self, path: Path) -> None:
        """Load a file and wait until its charts are drawn."""
        self.command("POST", "/url", {"url": path.as_uri()})
        self.wait("return document.documentElement.dataset.charts === 'drawn'")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page."""
        return self.command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, seconds: float = 300) -> None:
        """Wait until the script says yes."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"waited in vain for: {script}"
            time.sleep(0.05)

    def find(self, selector: str) -> str:
        """The first element that fits."""
        return str(self.command("POST", "/element", {"using": "css selector", "value": selector})[_ELEMENT])

    def click(self, selector: str) -> None:
        """Click an element as a person does."""
        self.command("POST", f"/element/{self.find(selector)}/click", {})

    def point_at(self, selector: str) -> None:
        """Move the mouse over an element."""
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {_ELEMENT: self.find(selector)}}
        away = {"type": "pointerMove", "duration": 0, "x": 1, "y": 1}
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.command("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [away, move]}]})

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What the browser has written down since the last time: "browser" (console) or "performance" (network)."""
        entries: list[dict[str, Any]] = self.command("POST", "/se/log", {"type": kind})
        return entries


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of its own, without a network, closed at the end."""
    assert CHROMEDRIVER is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([CHROMEDRIVER, f"--port={port}"], **quiet) as driver:
        try:
            session = _start(port)
            try:
                yield session
            finally:
                session.command("DELETE", "")  # ends the browser; ending the driver alone would leave it
        finally:
            driver.terminate()


def _start(port: int) -> Browser:
    wanted = {
        "goog:chromeOptions": {"binary": CHROMIUM, "args": list(FLAGS)},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    for _ in range(3000):  # until the driver listens
        try:
            answer = Browser(port).command("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except ConnectionError:
            time.sleep(0.1)
            continue
        return Browser(port, f"/session/{answer['sessionId']}")
    raise TimeoutError("chromedriver does not listen")
