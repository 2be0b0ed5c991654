#!/usr/bin/env python3
"""Open pages in headless Chromium: no message on the console, no request, key figures in the document, every number in the
answer and as the answer has it.

Usage: check_pages.py ROOT RECKON MAKE_HARD_PAGES. Exits 0 with a count, 1 with a line per breach, 77 (skipped) without Chromium.
The pages forbid every request by their own content security policy, so one that is tried is a message on the console.
"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TRACE = "tests/fixtures/traces/field/ok-minimal.json"
# name, command; key figures that must stand in the page as <data value>, as paths in the (first) answer
PAGES = [
    ("predict", f"predict {TRACE} --device mi350x", ["step_ms", "gpu_busy_ms"]),
    ("described", "predict tests/fixtures/models/tiny.json --device h200,b200 --uncertainty 8", ["step_ms", "step_ms_low", "step_ms_high", "memory_gib.peak"]),
    ("kernel", "kernel gather/random_rows row_bytes=256 table_mb=64 n=65536 --device h200,mi350x --uncertainty 8",
     ["time_us", "time_us_low", "time_us_high", "stack.hbm"]),
    ("atomics", "atomics scatter/histogram n=10000 --over addresses=1:1000:3 --device mi350x,b200 --fix privatise --uncertainty 8",
     ["curves.0.points.0.time_us", "curves.0.points.0.time_us_low", "curves.1.points.2.time_us_high"]),
    ("validate", "validate calib/data/h200/launch.csv --device h200", []),
    ("collective", "collective all_reduce 1048576 --node h200x8 --gpus 8", ["time_us", "busbw_gbs"]),
    ("plan", "plan tests/fixtures/demands/tiny.json", ["cost_total", "gpus", "cost_per_billion_examples"]),
    ("advise", "advise tests/fixtures/models/tiny.json --device h200", ["step_ms", "combination.gain"]),
    ("sweep", "sweep tests/fixtures/studies/tiny.json --db {scratch}/sweep.db", ["tried", "feasible"]),
    ("compare", "compare tests/fixtures/answers/minimal_h200.json tests/fixtures/answers/minimal_mi350x.json", ["same"]),
]
LARGEST_BYTES = 5e6
SLOWEST_S = 2.0
CONSOLE = re.compile(r'CONSOLE[^"]*"(.*?)", source')


class Page(html.parser.HTMLParser):
    """What the checks ask of a document: numbers, title, scripts, tables and what could be asked for."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.numbers, self.title, self.tables, self.unlabelled, self.wants, self.rows = [], "", 0, [], [], 0
        self.inside, self.value, self.header = None, None, None

    def handle_starttag(self, tag, attrs):
        at = dict(attrs)
        self.inside = tag if tag in ("title", "script", "style") else self.inside
        if tag == "data":
            self.value = at.get("value")
        if tag == "tr":
            self.rows += 1
        self.tables += tag == "table"
        if tag == "th":
            self.header = ""
        if tag == "svg" and not (at.get("aria-label") or at.get("aria-hidden")):
            self.unlabelled.append("svg")
        for key in ("src", "href", "action", "data-src", "srcset", "poster"):
            if at.get(key) and not at[key].startswith(("#", "data:")):
                self.wants.append(f"{tag} {key}={at[key]}")

    def handle_data(self, data):
        if self.inside == "title":
            self.title += data
        self.header = self.header + data if self.header is not None else None
        if self.value is not None:
            self.numbers.append((self.value, data))
            self.value = None

    def handle_endtag(self, tag):
        if tag == "th" and self.header is not None:
            if not self.header.strip(): # it becomes a button that sorts: a screen reader would say nothing
                self.unlabelled.append("th")
            self.header = None
        if tag == self.inside:
            self.inside = None


def numbers_of(value, found):
    if isinstance(value, dict):
        for child in value.values():
            numbers_of(child, found)
    elif isinstance(value, list):
        for child in value:
            numbers_of(child, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found.add(float(value))
    return found


def at_path(answer, path):
    for key in path.split("."):
        answer = answer[int(key) if isinstance(answer, list) else key]
    return answer


def shown_as(text):
    """The number that a reader sees, and one unit of its last digit."""
    match = re.match(r"\s*([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)", text)
    if not match:
        return None, None
    digits = match.group(1).replace(",", "")
    mantissa, _, exponent = digits.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(digits), 10.0 ** (int(exponent or 0) - decimals)


class Check:
    def __init__(self, browser, root):
        self.browser, self.root, self.breaches, self.pages, self.numbers = browser, root, [], 0, 0

    def breach(self, name, text):
        self.breaches.append(f"{name}: {text}")

    def open(self, name, path, width=1200):
        """The document after its script has run, and the seconds from the request to the script's end (page.js says)."""
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run([self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
                                   f"--user-data-dir={profile}", f"--window-size={width},900", "--dump-dom", "file://" + path],
                                  capture_output=True, text=True, timeout=120, check=False)
        ready = re.search(r'<html[^>]* data-ready="(\d+)"', done.stdout)
        seconds = int(ready.group(1)) / 1000 if ready else float("inf")
        for message in CONSOLE.findall(done.stderr):
            self.breach(name, f"console: {message[:200]}")
        if done.returncode != 0 or "</html>" not in done.stdout:
            self.breach(name, f"the browser gave no document (exit {done.returncode}): {done.stderr[-300:]}")
        page = Page()
        page.feed(done.stdout)
        self.pages += 1
        return page, done.stdout, seconds

    def check(self, name, path, document, figures):
        page, text, seconds = self.open(name, path)
        known = numbers_of(document, set())
        known |= numbers_of(self.embedded(name, text, "profiles"), set())
        for value, shown in page.numbers:
            if value is None or not any(float(value) == k for k in (float(value),) if k in known):
                self.breach(name, f"{shown!r} ({value}) is no number of the answer")
                continue
            number, unit = shown_as(shown)
            if number is not None and not any(abs(number - float(value) * f) <= unit * 0.51 for f in (1, 100, 1e-6)):
                self.breach(name, f"{shown!r} stands for {value}")
        self.numbers += len(page.numbers)
        if self.embedded(name, text, "answer") != document:
            self.breach(name, "the answer inside the page is not what --json printed")
        present = {float(v) for v, _ in page.numbers if v}
        first = document[0] if isinstance(document, list) else document
        for figure in figures:
            if float(at_path(first, figure)) not in present:
                self.breach(name, f"{figure} = {at_path(first, figure)} is not shown")
        if page.wants:
            self.breach(name, f"asks for {page.wants[:3]}")
        if page.unlabelled:
            self.breach(name, f"{len(page.unlabelled)} figures or columns without a label")
        if 'id="verdict"' not in text and "id=verdict" not in text:
            self.breach(name, "no verdict")
        return page, text, seconds

    def embedded(self, name, text, element):
        match = re.search(r'<script type="application/json" id="%s">(.*?)</script>' % element, text, re.S)
        if match is None:
            if element == "answer":
                self.breach(name, "holds no answer")
            return None
        return json.loads(match.group(1))

    def check_command(self, program, scratch, name, command, figures):
        path = os.path.join(scratch, name + ".html")
        done = subprocess.run([program, *command.format(scratch=scratch).split(), "--html", path, "--json"], capture_output=True, text=True, cwd=self.root, check=False,
                              env={**os.environ, "RECKON_DATA": self.root})
        if done.returncode != 0:
            self.breach(name, f"exit {done.returncode}: {done.stderr.strip()[:300]}")
            return
        self.check(name, path, json.loads(done.stdout), figures)

    def check_hard(self, maker, scratch):
        subprocess.run([maker, scratch], check=True)
        for name in ("many", "names"):
            with open(os.path.join(scratch, name + ".json"), encoding="utf-8") as file:
                document = json.load(file)
            page, text, seconds = self.check(name, os.path.join(scratch, name + ".html"), document, ["step_ms"])
            if "broken" in page.title.split("<")[0] or "document.title='broken'" not in text.replace("&#39;", "'") and name == "names":
                self.breach(name, "a name ran as a script, or vanished")
            if name == "many":
                for _ in range(2): # the least of three: other work on the machine only adds to it
                    if seconds > SLOWEST_S:
                        seconds = min(seconds, self.open(name, os.path.join(scratch, "many.html"))[2])
                size = os.path.getsize(os.path.join(scratch, "many.html"))
                print(f"5,000 kernels on two devices: {size / 1e6:.2f} MB, ready {seconds:.2f} s after the request")
                if size > LARGEST_BYTES:
                    self.breach(name, f"{size} bytes")
                if seconds > SLOWEST_S:
                    self.breach(name, f"opens in {seconds:.2f} s")


def main():
    if len(sys.argv) != 4:
        print("usage: check_pages.py ROOT RECKON MAKE_HARD_PAGES", file=sys.stderr)
        return 2
    browser = next((shutil.which(n) for n in ("chromium", "chromium-browser", "google-chrome") if shutil.which(n)), None)
    if browser is None:
        print("skipped: no chromium on this machine (cmake/setup.sh installs it)")
        return 77
    check = Check(browser, os.path.abspath(sys.argv[1]))
    with tempfile.TemporaryDirectory() as scratch:
        for name, command, figures in PAGES:
            check.check_command(os.path.abspath(sys.argv[2]), scratch, name, command, figures)
        check.check_hard(os.path.abspath(sys.argv[3]), scratch)
    for breach in check.breaches[:60]:
        print(breach)
    print(f"{check.pages} pages, {check.numbers} numbers: {len(check.breaches)} breaches")
    return 1 if check.breaches or not check.numbers else 0


if __name__ == "__main__":
    sys.exit(main())
