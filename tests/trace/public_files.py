#!/usr/bin/env python3
"""Rows of the tables of docs/public-files.md.

  public_files.py files PROGRAM FOLDER...           read, steps, ranks, shares, verdict, seconds and memory of every trace below
  public_files.py pair PROGRAM A DEVICE_A B DEVICE_B  kernel time of each from the other's trace (collectives apart), worst kernels

A folder that holds several traces is one run (ranks, or an execution trace beside its profile) and gets a row as a whole and one
for its first file."""
import json
import os
import resource
import subprocess
import sys
import time

SECONDS_MOST = 600


def predict(program, path, device):
    """The answer (None: refused), what was said on standard error, seconds of processor time, MiB of the largest process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [program, "predict", path, "--device", device, "--json", "--jobs", "1", "--quiet"]
    try:
        run = subprocess.run(["/usr/bin/env", "time", "-f", "%M"] + arguments, capture_output=True, text=True, timeout=SECONDS_MOST)
    except subprocess.TimeoutExpired:
        return None, "no answer in %d s" % SECONDS_MOST, SECONDS_MOST, 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = run.stderr.strip().split("\n")
    said = [line for line in lines[:-1] if not line.startswith("Command exited")]
    answer = json.loads(run.stdout) if run.stdout else None
    if run.returncode not in (0, 1, 2):
        said = ["CRASH: exit code %d" % run.returncode] + said
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answer, " ".join(said), seconds, int(lines[-1]) // 1024


def row(program, path, shown, device="mi350x"):
    answer, said, seconds, mib = predict(program, path, device)
    if answer is None:
        print("| %s | no | - | - | - | - | refused: %s | %.1f | %d |" % (shown, said.replace("reckon predict: ", "").replace(path + ": ", ""), seconds, mib), flush=True)
        return
    read = answer["input"]
    shares = " / ".join("%.0f" % (100 * read[key]) for key in ("program_share", "fabric_share", "bytes_share", "replayed_share"))
    print("| %s | yes | %g | %d of %d | %d | %s | %s | %.1f | %d |"
          % (shown, read["steps"], read["ranks"], read["world_size"], read["gpu_events"], shares, read["verdict"].split(":")[0] if answer["step_ms"] is not None else "not enough understood, no step time",
             seconds, mib), flush=True)


def is_trace(name):
    return name.endswith((".json", ".json.gz", ".et", ".et.gz", ".json.zst")) or ("." not in name)


def files(program, folders):
    print("| file | read | steps | ranks | GPU events | program / fabric / bytes / replayed, % | verdict on mi350x | CPU s | MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for folder in folders:
        base = os.path.basename(os.path.normpath(folder))
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                row(program, path, base + "/" + name)
                first = sorted(f for f in os.listdir(path) if is_trace(f))[0]
                row(program, os.path.join(path, first), base + "/" + name + "/" + first)
            elif is_trace(name):
                row(program, path, base + "/" + name)


def kernels_of(answer):
    return [k for k in answer["kernels"] if k["priced"] != "fabric" and k["category"] != "collective"]


def by_category(kernels, key):
    sums = {}
    for kernel in kernels:
        sums[kernel["category"]] = sums.get(kernel["category"], 0) + (kernel[key] or 0)
    return sums


def direction(source, target, source_answer, target_own):
    """source_answer: the source's trace on the target's device; target_own: the target's trace there, whose traced times are the truth."""
    model = sum(k["ms"] for k in kernels_of(source_answer))
    traced = sum(k["traced_ms"] or 0 for k in kernels_of(target_own))
    replayed = sum(k["ms"] for k in kernels_of(source_answer) if k["priced"] == "replayed")
    print("%s from %s: %.3f ms for %.3f traced, ratio %.2f, %.0f%% replayed"
          % (os.path.basename(target), os.path.basename(source), model, traced, model / traced, 100 * replayed / model))
    predicted, truth = by_category(kernels_of(source_answer), "ms"), by_category(kernels_of(target_own), "traced_ms")
    for category in sorted(truth, key=lambda c: -abs(predicted.get(c, 0) - truth[c])):
        print("  %-14s %8.3f for %8.3f" % (category, predicted.get(category, 0), truth[category]))
    for kernel in sorted(kernels_of(target_own), key=lambda k: -abs(k["ms"] - (k["traced_ms"] or 0)))[:5]:
        print("  worst of its own trace: %.60s x%g %.3f for %.3f" % (kernel["name"], kernel["count"], kernel["ms"], kernel["traced_ms"] or 0))


def pair(program, a, device_a, b, device_b):
    answers = {(path, device): predict(program, path, device)[0] for path in (a, b) for device in {device_a, device_b}}
    direction(a, b, answers[a, device_b], answers[b, device_b])
    if device_a != device_b or a != b:
        direction(b, a, answers[b, device_a], answers[a, device_a])


if __name__ == "__main__":
    if len(sys.argv) >= 4 and sys.argv[1] == "files":
        files(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) == 7 and sys.argv[1] == "pair":
        pair(*sys.argv[2:])
    else:
        sys.exit(__doc__)
