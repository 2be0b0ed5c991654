"""Headless Chromium, spoken to over a pipe by its debugging protocol: pages opened at a width, in light, dark or print, with what
they say on the console and ask for, and keys pressed as a reader would."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60


def find():
    return next((shutil.which(n) for n in NAMES if shutil.which(n)), None)


class Browser:
    """One process, one tab. Events since the last open(): `messages` of the console and `requests` beyond the page itself."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory()
        down_read, self.to = os.pipe()
        self.come, up_write = os.pipe()

        def pipes(): # the protocol's pipe is descriptors 3 and 4; through high ones first, which none of these four is
            a, b = os.dup2(down_read, 200), os.dup2(up_write, 201)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen([program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                                         f"--user-data-dir={self.profile.name}", "about:blank"], preexec_fn=pipes, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(down_read)
        os.close(up_write)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        self.messages, self.requests, self.page = [], [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def close(self):
        os.close(self.to)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.come)
        self.profile.cleanup()

    def read(self, patience=PATIENCE_S):
        while b"\0" not in self.buffer:
            if not select.select([self.come], [], [], patience)[0]:
                raise TimeoutError("the browser says nothing")
            piece = os.read(self.come, 1 << 20)
            if not piece:
                raise EOFError("the browser ended")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def take(self, event):
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(a.get("value", a.get("description"))) for a in about["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(about["exceptionDetails"].get("exception", {}).get("description", about["exceptionDetails"]["text"]))
        elif method == "Log.entryAdded":
            self.messages.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent" and about["request"]["url"] != self.page and not about["request"]["url"].startswith(("data:", "blob:")):
            self.requests.append(about["request"]["url"])
        self.events.append(event)

    def ask(self, method, **about):
        self.number += 1
        message = {"id": self.number, "method": method, "params": about}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text):]
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.take(answer)

    def look(self, width=1200, height=900, dark=False, media="", phone=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Seconds from the request until the page has loaded and its script has run."""
        self.messages, self.requests, self.events, self.page = [], [], [], "file://" + os.path.abspath(path)
        start = time.monotonic()
        self.ask("Page.navigate", url=self.page)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.take(self.read())
        return time.monotonic() - start

    def run(self, expression):
        """The value of a JavaScript expression in the page."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return result["result"].get("value")

    def press(self, key, text=None, code=0):
        about = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **about)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, path, whole=True):
        image = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)["data"]))
