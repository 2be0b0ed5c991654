#!/usr/bin/env python3
"""check_tree.py can fail: each case is a small tree with one thing wrong, and the line that must be said about it."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_tree.py")
GOOD = {
    "docs/design.md": """# Design
## 2. Folders
| folder | holds | may include |
|---|---|---|
| `sim/core` | leaves | nothing |
| `sim/chiplet` | chip | `sim/core` |
| `sim/fabric` | wires | `sim/core` |
| `sim/cli` | commands | everything |
| `reports` | pages | `sim/reckon.h` |
| `sim` | joins | `sim/core` `sim/chiplet` |
| `tests` | tests | everything |
## 7. Dependencies
| library | header | for | reached through |
|---|---|---|---|
| cJSON | `cjson/cJSON.h` | JSON | `sim/core/json.c` |
| GSL | `gsl/` | fits | `sim/core/rng.c` `calib` |
""",
    "sim/core/json.c": '#include <cjson/cJSON.h>\n#include <stdio.h>\n',
    "sim/core/units.h": "",
    "sim/chiplet/l2.c": '#include "sim/core/units.h"\n#include "sim/chiplet/l2_internal.h"\n/* if (amd) says a comment */\n',
    "tests/chiplet/test_l2.c": '#include "sim/chiplet/l2_internal.h"\nint x(const char *d) { if (strcmp(d, "h200")) { return 1; } }\n',
    "reports/page.c": '#include "sim/reckon.h"\n#include "reckon_version.h"\n',
    "sim/core/text.txt": "the folder /workloads is no folder outside\n",
}


def check(changes):
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**GOOD, **changes}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class CheckTree(unittest.TestCase):
    def refused(self, path, text, expected):
        status, said = check({path: text})
        self.assertEqual(status, 1, said)
        self.assertIn(expected, said)
        self.assertIn(": 1 breaches", said)

    def test_a_good_tree_passes(self):
        status, said = check({})
        self.assertEqual(status, 0, said)
        self.assertIn(" 0 breaches", said)

    def test_siblings_do_not_include_each_other(self):
        self.refused("sim/fabric/a.c", '\n#include "sim/chiplet/l2.h"\n',
                     'sim/fabric/a.c:2: sim/fabric includes "sim/chiplet/l2.h"; sim/fabric may include sim/core')

    def test_a_leaf_includes_nothing(self):
        self.refused("sim/core/a.c", '#include "sim/fabric/f.h"\n', "sim/core may include nothing")

    def test_one_allowed_file_is_not_its_folder(self):
        self.refused("reports/b.c", '#include "sim/system_private.h"\n', "reports may include sim/reckon.h")

    def test_includes_start_at_the_root(self):
        self.refused("sim/core/a.c", '#include "units.h"\n', "written from the root")

    def test_a_folder_outside_the_table(self):
        self.refused("sim/core/a.c", '#include "misc/utils.h"\n', "in no folder")

    def test_internal_headers_stay_inside(self):
        self.refused("sim/cli/a.c", '#include "sim/chiplet/l2_internal.h"\n', "internal to sim/chiplet and its tests")

    def test_another_folders_tests_are_outside(self):
        self.refused("tests/fabric/a.c", '#include "sim/chiplet/l2_internal.h"\n', "internal to sim/chiplet and its tests")

    def test_a_second_door_to_a_third_party(self):
        self.refused("sim/fabric/a.c", "#include <cjson/cJSON.h>\n", "<cjson/cJSON.h> is reached through sim/core/json.c alone")

    def test_a_third_party_folder_of_headers(self):
        self.refused("sim/fabric/a.c", "#include <gsl/gsl_rng.h>\n", "reached through sim/core/rng.c, calib alone")

    def test_a_vendor_in_an_if(self):
        self.refused("sim/chiplet/a.c", "void f(void)\n{\n    if (chip->is_nvidia) {\n    }\n}\n", "a.c:3: decides by 'nvidia'")

    def test_a_device_name_compared(self):
        self.refused("sim/chiplet/a.c", 'bool x = strcmp(profile->name, "mi350x") == 0;\n', "decides by 'mi350x'")

    def test_a_condition_over_several_lines(self):
        self.refused("sim/chiplet/a.c", 'if (a(1) &&\n    b("H200"))\n{ }\n', "a.c:1: decides by 'H200'")

    def test_a_path_outside_the_checkout(self):
        self.refused("README.md", "see /" + "work/data\n", "README.md:1: names a folder outside")

    def test_a_sibling_of_the_checkout(self):
        self.refused("docs/a.md", "\nsee ../" + "shared/data\n", "docs/a.md:2: names a folder outside")

    def test_a_tree_without_rules(self):
        status, said = check({"docs/design.md": "# nothing\n"})
        self.assertEqual(status, 1, said)
        self.assertIn("not there", said)


if __name__ == "__main__":
    unittest.main()
