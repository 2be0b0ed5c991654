#!/usr/bin/env python3
"""Hold --help, the man page and the completion to one another and to the options that the source declares; a common option that
a help leaves out is one that the command refuses.

Usage: check_help.py ROOT RECKON. Prints one line per breach and exits 1; exits 0 with a count.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

LISTED = re.compile(r"^(?:  -[a-z], |      )(--[a-z][a-z-]*)", re.M) # a line that begins with an option; prose only mentions them
DECLARED = re.compile(r'^    \{ "([a-z][a-z-]*)", (?:OPTION_\w+|\'.\'), (?:"[^"]*"|\w+), ([^,]+),', re.M)


def output(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    return done.stdout if done.returncode == 0 else ""


def refused(program, command, option):
    """Does the command say in one line that it takes no such option?"""
    done = subprocess.run([program, command, option, "1"], capture_output=True, text=True, check=False)
    return done.returncode == 1 and re.fullmatch(rf"reckon {command}: {option}[^\n]*: [^\n]+\n", done.stderr) and "not known" not in done.stderr


def declared(path, common=frozenset()):
    """Options of a command's table, and the common ones where it has them; the hidden ones are left out."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return {"--" + name for name, flags in DECLARED.findall(text) if "HIDDEN" not in flags} | (common if "cli_common_argp" in text else set())


def completed(script, folder, command):
    """What the completion offers behind `reckon COMMAND -`."""
    text = f'. "{script}"; COMP_WORDS=(reckon {command} -); COMP_CWORD=2; _reckon; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return set(output(["bash", "-c", text], env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]}).split())


def completed_zsh(script, folder, command):
    """The same of zsh: what its completion hands to the line editor."""
    text = ("compadd() { [[ $1 == -- ]] && shift; print -rl -- $@ }; _files() { }; CURRENT=3; PREFIX=-; "
            f'words=(reckon {command} -); complete_it() {{ source "{script}" }}; complete_it')
    return set(output(["zsh", "-f", "-c", text], env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]}).split())


def wrapped(text):
    """Lines of examples that --help broke at its margin: a reader who pastes them runs half a command."""
    lines = text.splitlines()
    return [line for line, behind in zip(lines, lines[1:]) if re.match("  ( {2}.*|reckon .*)$", line) and not line.endswith("\\") and re.match("[a-z-]", behind)
            and len(line) + len(behind.split()[0]) > 77]


def check(root, program):
    breaches, count = [], 0
    top = output([program, "--help"])
    commands = [line.split()[0] for line in top.splitlines() if re.match(r"  [a-z]", line) and line.split()[0] != "reckon"]
    manual = output([os.path.join(root, "docs/man/make_man.sh"), program]).replace("\\-", "-")
    sections = dict(re.findall(r"^\.SS reckon (\w+)\n(.*?)^\.fi$", manual, re.M | re.S))
    if not re.match(r'\.TH RECKON 1 "" "reckon \d+\.\d+\.\d+" "User commands"\n\.SH NAME\n', manual):
        breaches.append(f"the man page begins {manual[:80]!r}")
    common = declared(os.path.join(root, "sim/cli/cli.c"))
    if len(common) < 5 or len(commands) < 10:
        breaches.append(f"{len(common)} common options and {len(commands)} commands: the tables are not where they were")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(program, os.path.join(folder, "reckon"))
        for command in commands:
            source = os.path.join(root, "sim/cli", f"cmd_{command}.c")
            text = output([program, command, "--help"])
            listed = set(LISTED.findall(text))
            count += len(listed)
            own = declared(source, common)
            own = {option for option in own if option in listed or option not in common or not refused(program, command, option)}
            for name, other in (("the source", own), ("the man page", set(LISTED.findall(sections.get(command, "")))),
                                ("the completion", completed(os.path.join(root, "docs/completion/reckon.bash"), folder, command) - {"--help"}),
                                *([("the zsh completion", completed_zsh(os.path.join(root, "docs/completion/reckon.zsh"), folder, command) - {"--help"})]
                                  if shutil.which("zsh") else [])):
                for option in sorted(other - listed):
                    breaches.append(f"{command}: {name} has {option}, its --help has not")
                for option in sorted(listed - other):
                    breaches.append(f"{command}: --help has {option}, {name} has not")
            if not re.search(r"^Examples?:\n(?:.*\n)*? *reckon " + command, text, re.M):
                breaches.append(f"{command}: --help ends without an example of it")
            breaches += [f"{command}: an example is wrapped where a shell would end it: {line.strip()}" for line in wrapped(text)]
    return breaches, count, len(commands)


def main():
    if len(sys.argv) != 3:
        print("usage: check_help.py ROOT RECKON", file=sys.stderr)
        return 2
    breaches, count, commands = check(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    print("\n".join(breaches + [f"{commands} commands, {count} options: {len(breaches)} breaches"]))
    return 1 if breaches or not count else 0


if __name__ == "__main__":
    sys.exit(main())
