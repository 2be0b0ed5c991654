#!/usr/bin/env python3
"""The predicted step as a trace: events that a viewer takes, names as recorded, streams in order, counters within their bounds.

Usage: check_perfetto.py ROOT RECKON. Exits 1 with a line per breach.
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile

TRACES = ("tests/fixtures/traces/field/ok-minimal.json", "tests/fixtures/traces/dlrm_small_w1_r0.kineto.json.gz") # the second has copies, fills, driver calls
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


def predict(root, program, *arguments):
    done = subprocess.run([program, "predict", *arguments], capture_output=True, text=True, cwd=root, check=False,
                          env={**os.environ, "RECKON_DATA": root})
    if done.returncode != 0:
        sys.exit(f"reckon predict {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def events_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def check(answer, trace, recorded):
    breaches = []
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    names = {e["name"] for e in spans}
    for kernel in answer["kernels"]:
        if kernel["name"] not in names:
            breaches.append(f"kernel {kernel['name']} is not in the trace")
    if recorded:
        told = {(e.get("cat"), e.get("name")) for e in recorded}
        breaches += [f"{kind} {name[:60]} is not as it was recorded" for kind, name in sorted({(e["cat"], e["name"]) for e in spans if e["cat"] in DEVICE} - told)]
        hosts = {e.get("name") for e in recorded}
        breaches += [f"{e['name'][:60]} of the host was not recorded" for e in spans if e["cat"] not in DEVICE and e["name"] not in hosts][:3]
        if {e["pid"] for e in trace["traceEvents"]} & {e.get("pid") for e in recorded}:
            breaches.append("joined with the recording, two tracks would be one")
    if not any(e["cat"] == "cuda_runtime" for e in spans) or not any(e["cat"] == "kernel" for e in spans):
        breaches.append("no host call, or no kernel")
    if {e["name"] for e in counters} != {"HBM use", "board power", "core clock"}:
        breaches.append(f"counters are {sorted({e['name'] for e in counters})}")
    if any(not 0 <= e["args"]["percent"] <= 100 for e in counters if e["name"] == "HBM use"):
        breaches.append("HBM use beyond 100%")
    lanes = {}
    for event in spans:
        if event["ts"] < 0 or event["dur"] <= 0:
            breaches.append(f"{event['name']}: from {event['ts']} for {event['dur']}")
        lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for lane, list_of in lanes.items():
        list_of.sort()
        if any(b[0] < a[1] - 0.002 for a, b in zip(list_of, list_of[1:])):
            breaches.append(f"two spans at once on {lane}")
    return breaches, len(spans)


def main():
    root, program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    breaches, count = [], 0
    inputs = [((trace, "--device", "mi350x"), events_of(os.path.join(root, trace))) for trace in TRACES]
    inputs.append(((TRACES[1], "--device", "mi350x", "--batch", "8192", "--set", "batch=4096"), inputs[1][1]))
    inputs.append((("tests/fixtures/models/tiny.json", "--device", "h200", "--gpus", "2", "--set", "parallel=ddp"), None))
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "step.json")
        for arguments, recorded in inputs:
            answer = predict(root, program, *arguments, "--perfetto", path, "--json")
            with open(path, encoding="utf-8") as file:
                found, spans = check(answer, json.load(file), recorded)
            breaches += [f"{arguments[0]}: {b}" for b in found]
            timed = recorded is not None and "--set" not in arguments # of another batch, or of a description, nothing was
            if any((k["traced_ms"] is not None) != timed for k in answer["kernels"]):
                breaches.append(f"{arguments[0]}: kernels have traced times: {timed} was expected")
            count += spans
    print("\n".join(breaches[:40] + [f"{count} spans: {len(breaches)} breaches"]))
    return 1 if breaches or not count else 0


if __name__ == "__main__":
    sys.exit(main())
