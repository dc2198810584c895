"""A headless Chromium, driven through its own pipe: one JSON message after the other."""

import base64
import json
import os
import shutil
import subprocess
from contextlib import contextmanager

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser():
    """The first one that is installed, None when none is."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A page by its session; `errors` are exceptions and what the console was told as an error."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.number, self.session, self.errors, self.loaded = 0, None, [], False
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        self.writer.flush()
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def receive(self):
        raw = bytearray()
        while (byte := self.reader.read(1)) != b"\0":
            assert byte, "the browser ended"
            raw += byte
        message = json.loads(raw)
        method, told = message.get("method"), message.get("params", {})
        self.loaded |= method == "Page.loadEventFired"
        level = told.get("type") or told.get("entry", {}).get("level")
        if method == "Runtime.exceptionThrown" or level in ("error", "assert"):
            self.errors.append(told)
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        return message

    def open(self, path):
        self.loaded, self.requests = False, []
        self.ask("Page.navigate", url=path.as_uri())
        while not self.loaded:
            self.receive()

    def evaluate(self, script):
        """The value of a JavaScript expression."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def size(self, width, height, dark=False):
        mobile = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=mobile)  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self):
        """The whole page as PNG."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


@contextmanager
def browser(folder):
    """A Page of a browser whose profile is in the folder."""
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    script = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-dev-shm-usage", f"--user-data-dir={folder}"]  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", script, find_browser(), *flags],
        pass_fds=(their_in, their_out),
        stderr=subprocess.DEVNULL,
    )
    os.close(their_in)
    os.close(their_out)
    with os.fdopen(our_out, "wb") as writer, os.fdopen(our_in, "rb") as reader:
        try:
            yield Page(reader, writer)
        finally:
            process.terminate()
            process.wait()
