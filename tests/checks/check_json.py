#!/usr/bin/env python3
"""Hold every JSON file of the project and every --json output of the program to docs/schemas.

Usage: check_json.py ROOT RECKON. A document says which schema it follows ("schema": "reckon.NAME/1"); keys that the schema
does not describe are breaches here, so that a field is added to the schema in the commit that adds it. Every schema must be
used, and every output must be refused by its schema once one required field is taken away: a check that accepts anything
checks nothing. Prints one line per breach and exits 1; exits 0 with counts.
"""
import copy
import glob
import json
import os
import subprocess
import sys
import tempfile

import jsonschema

TRACE = "tests/fixtures/traces/field/ok-minimal.json" # two kernels: the shape of the answer, not its content
# One command per output kind; {trace} and {scratch} are replaced. Every kind of docs/design.md section 6 that exists has a line.
COMMANDS = [
    "devices --json",
    "devices h200 --json",
    "devices --check devices/h200.json --json",
    "kernel gather/random_rows row_bytes=256 table_mb=64 n=65536 --device h200,mi350x --json",
    "atomics scatter/histogram n=10000 --over addresses=1:1000:3 --device mi350x,b200 --fix privatise --json",
    "gemm 8192 3456 512 --dtype tf32 --device mi350x,b200 --json",
    "gemm 512 512 512 --dtype bf16 --device h200,b200 --uncertainty 8 --json",
    "power n=2048 dtype=bf16 --device mi350x,b200 --json",
    "gemm 300 64 128 --dtype bf16 --grouped 100,200 --all --estimate --device h200 --json",
    "predict {trace} --device mi350x,b200,h200 --force --json",
    "predict tests/fixtures/models/tiny.json --device h200 --json",
    "predict tests/fixtures/models/tiny.json --device h200,mi350x --html {scratch}.html --json", # with its timeline
    "validate calib/data/h200/launch.csv --device h200 --json",
    "plan tests/fixtures/demands/tiny.json --json",
    "sweep tests/fixtures/studies/tiny.json --db {scratch}.db --uncertainty 8 --json",
    "advise tests/fixtures/models/tiny.json --device h200 --json",
    "compare tests/fixtures/answers/minimal_h200.json tests/fixtures/answers/minimal_mi350x.json --json",
    "collective all_reduce 1048576 --node h200x8 --gpus 8 --json",
    "calibrate --from calib/data/h200/latency.csv --base h200 --fit tests/fixtures/fits/latency.json -o {scratch} --json",
]


def strict(schema):
    """The schema with every described object closed."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and isinstance(schema["properties"], dict):
        closed.setdefault("additionalProperties", False)
    return closed


def first_error(validator, document):
    errors = sorted(validator.iter_errors(document), key=lambda e: [str(p) for p in e.absolute_path])
    if not errors:
        return None
    where = ".".join(str(p) for p in errors[0].absolute_path) or "the document"
    return f"{where}: {errors[0].message[:200]}"


class Check:
    def __init__(self, root, program):
        self.root, self.program = root, program
        self.breaches, self.used, self.validators, self.documents = [], set(), {}, 0

    def breach(self, what, text):
        self.breaches.append(f"{what}: {text}")

    def load_schemas(self):
        for path in sorted(glob.glob(os.path.join(self.root, "docs/schemas/*.schema.json"))):
            with open(path, encoding="utf-8") as file:
                schema = json.load(file)
            try:
                jsonschema.Draft7Validator.check_schema(schema)
            except jsonschema.SchemaError as error:
                self.breach(path, f"is no schema: {error.message}")
                continue
            name = schema.pop("$id") # a name and no address: references inside the schema must not resolve against it
            self.validators[name] = jsonschema.Draft7Validator(strict(schema))

    def check(self, what, document):
        name = document.get("schema") if isinstance(document, dict) else None
        validator = self.validators.get(name)
        self.documents += 1
        if validator is None:
            self.breach(what, f"schema {name!r} is not in docs/schemas; known: {', '.join(sorted(self.validators))}")
            return
        self.used.add(name)
        error = first_error(validator, document)
        if error:
            self.breach(what, error)
        for key in validator.schema["required"]:
            less = copy.copy(document)
            if less.pop(key, None) is not None and first_error(validator, less) is None:
                self.breach(what, f"is accepted without its field {key}")

    def check_files(self):
        for path in sorted(glob.glob(os.path.join(self.root, "devices", "**", "*.json"), recursive=True)
                           + glob.glob(os.path.join(self.root, "calib", "fits", "*.json"))
                           + glob.glob(os.path.join(self.root, "workloads", "models", "*.json"))
                           + glob.glob(os.path.join(self.root, "studies", "examples", "*.json"))
                           + glob.glob(os.path.join(self.root, "tests", "fixtures", "plans", "*.json"))
                           + glob.glob(os.path.join(self.root, "tests", "fixtures", "demands", "*.json"))
                           + glob.glob(os.path.join(self.root, "reports", "examples", "*.demand.json"))):
            with open(path, encoding="utf-8") as file:
                self.check(os.path.relpath(path, self.root), json.load(file))
        for path in sorted(glob.glob(os.path.join(self.root, "calib", "data", "*", "micro", "*.jsonl"))):
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if number % 50 == 1: # some of each program's rows
                        self.check(f"{os.path.relpath(path, self.root)}:{number}", json.loads(line))

    def check_outputs(self, scratch):
        for command in COMMANDS:
            words = command.format(trace=TRACE, scratch=os.path.join(scratch, "device.json")).split()
            done = subprocess.run([self.program, *words], capture_output=True, text=True, cwd=self.root, check=False)
            what = "reckon " + " ".join(words)
            if done.returncode != 0:
                self.breach(what, f"exit {done.returncode}: {done.stderr.strip()[:300]}")
                continue
            try:
                output = json.loads(done.stdout)
            except ValueError as error:
                self.breach(what, f"prints no JSON: {error}")
                continue
            for document in output if isinstance(output, list) else [output]:
                self.check(what, document)

    def run(self):
        self.load_schemas()
        self.check_files()
        with tempfile.TemporaryDirectory() as scratch:
            self.check_outputs(scratch)
        for name in sorted(set(self.validators) - self.used):
            self.breach("docs/schemas", f"no file or output follows {name}")


def main():
    if len(sys.argv) != 3:
        print("usage: check_json.py ROOT RECKON", file=sys.stderr)
        return 2
    check = Check(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    check.run()
    for breach in check.breaches:
        print(breach)
    print(f"{len(check.validators)} schemas, {check.documents} documents: {len(check.breaches)} breaches")
    return 1 if check.breaches or not check.documents else 0


if __name__ == "__main__":
    sys.exit(main())
