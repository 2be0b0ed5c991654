#!/usr/bin/env python3
"""Hold a source tree to docs/design.md: who may include whom, which file reaches which third party, what no text may say.

Usage: check_tree.py ROOT. Prints one line per breach (file:line: what, and what would be valid) and exits 1; exits 0 with a
count of what was read. The tables of sections 2 and 7 of ROOT/docs/design.md are the rules; a tree without them is a breach.
"""
import os
import re
import sys

C_FILE = re.compile(r"\.(c|h)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
NAME = re.compile(r"`([^`]+)`")
GENERATED = {"reckon_version.h"}
# Pieces are joined here, so that this file does not hold what it forbids.
OUTSIDE = re.compile(r"(?<![\w.])/" + r"work\b|\.\./" + r"shared\b")
VENDOR = re.compile(
    r"(?<![a-z0-9])(nvidia|amd|hopper|blackwell|cdna[0-9]?|gfx[0-9]+|[abhv][12]00|mi3[0-9]{2}x?)(x[0-9]+)?(?![a-z0-9])", re.I)
DECISION = re.compile(r"\b(?:if|while|switch|strcmp|strcasecmp|strncmp|strncasecmp|strstr)\s*\(")
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)$", re.M)


def table_rows(text, heading):
    """Cells of the rows of the first table under the '## N.' heading that holds `heading`."""
    rows, inside = [], False
    for line in text.splitlines():
        if line.startswith("## "):
            inside = heading in line
        elif inside and line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]


def files_under(root):
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if not n.startswith("build") and n not in (".git", "__pycache__"))
        for name in sorted(files):
            yield os.path.relpath(os.path.join(folder, name), root)


def owner_of(path, folders):
    """The listed folder that holds `path`: the longest that fits."""
    fits = [f for f in folders if path.startswith(f + "/")]
    return max(fits, key=len) if fits else None


def without_comments(code):
    """`code` with comments blanked; line numbers stay, and a comment sign inside a literal is none."""
    def blank(match):
        text = match.group(0)
        return re.sub(r"[^\n]", " ", text) if text.startswith("/") else text
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, code, flags=re.S)


def in_parentheses(code, start):
    """Text between the parenthesis that opens at `start` and its partner."""
    depth = 0
    for i in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return code[start + 1:i]
    return code[start + 1:]


class Tree:
    def __init__(self, root):
        self.root, self.breaches = root, []
        self.edges = self.c_files = self.texts = 0
        design = os.path.join(root, "docs", "design.md")
        text = open(design, encoding="utf-8").read() if os.path.exists(design) else ""
        self.allowed = {NAME.findall(r[0])[0]: "everything" if r[2] == "everything" else NAME.findall(r[2])
                        for r in table_rows(text, "Folders")}
        self.third = [(NAME.findall(r[1])[0], NAME.findall(r[3])) for r in table_rows(text, "Dependencies")]
        if not self.allowed or not self.third:
            self.breach("docs/design.md", 1, "the tables of folders (section 2) and of third parties (section 7) are not there")

    def breach(self, path, line, text):
        self.breaches.append(f"{path}:{line}: {text}")

    def check_our_include(self, path, line, target):
        if "/" not in target:
            if target not in GENERATED:
                self.breach(path, line, f'"{target}": includes are written from the root of the tree')
            return
        self.edges += 1
        source, destination = owner_of(path, self.allowed), owner_of(target, self.allowed)
        if destination is None:
            self.breach(path, line, f'"{target}" is in no folder of docs/design.md section 2')
        elif source is None:
            self.breach(path, line, "this folder is not in docs/design.md section 2")
        elif source != destination and self.allowed[source] != "everything" \
                and destination not in self.allowed[source] and target not in self.allowed[source]:
            valid = ", ".join(self.allowed[source]) or "nothing"
            self.breach(path, line, f'{source} includes "{target}"; {source} may include {valid}')
        if target.endswith("_internal.h"):
            home = os.path.dirname(target)
            parts = path.split("/")
            is_its_test = parts[0] == "tests" and len(parts) > 2 and (
                parts[1] == "fuzz" or parts[1].split("_")[0] in home.split("/"))
            if os.path.dirname(path) != home and not is_its_test:
                self.breach(path, line, f'"{target}" is internal to {home} and its tests')

    def check_third_party(self, path, line, target):
        if path.startswith("tests/"):
            return # a test may make damaged input with the library that the product reads it by
        for header, places in self.third:
            if target == header or (header.endswith("/") and target.startswith(header)):
                if not any(path == p or path.startswith(p + "/") for p in places):
                    self.breach(path, line, f"<{target}> is reached through {', '.join(places)} alone")

    def check_c(self, path, code):
        self.c_files += 1
        code = without_comments(code)
        for number, text in enumerate(code.splitlines(), 1):
            match = INCLUDE.match(text)
            if match and match.group(1) == '"':
                self.check_our_include(path, number, match.group(2))
            elif match:
                self.check_third_party(path, number, match.group(2))
        if path.startswith(("tests/", "calib/microkernels/")):
            return # a test may ask for a device by name; what runs on the chip is written for its compiler
        for match in DECISION.finditer(code):
            self.check_decision(path, code, match.start(), in_parentheses(code, match.end() - 1))
        for match in CONDITIONAL.finditer(code):
            self.check_decision(path, code, match.start(), match.group(1))

    def check_decision(self, path, code, at, condition):
        named = VENDOR.search(condition.replace("_", " "))
        if named:
            self.breach(path, code.count("\n", 0, at) + 1,
                        f"decides by '{named.group(0)}'; a difference between chips is a value of their profiles")

    def run(self):
        for path in files_under(self.root):
            with open(os.path.join(self.root, path), "rb") as file:
                data = file.read()
            if b"\0" in data:
                continue
            text = data.decode("utf-8", errors="replace")
            self.texts += 1
            for number, line in enumerate(text.splitlines(), 1):
                if OUTSIDE.search(line):
                    self.breach(path, number, "names a folder outside the checkout; copy what is needed, with its source")
            if C_FILE.search(path) and self.allowed:
                self.check_c(path, text)
        return self.breaches


def main():
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("usage: check_tree.py ROOT", file=sys.stderr)
        return 2
    tree = Tree(sys.argv[1])
    for breach in tree.run():
        print(breach)
    print(f"{tree.texts} texts, {tree.c_files} C files, {tree.edges} include edges: {len(tree.breaches)} breaches")
    return 1 if tree.breaches or not tree.edges else 0


if __name__ == "__main__":
    sys.exit(main())
