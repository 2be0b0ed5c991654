#!/bin/sh
# make_man.sh RECKON: the man page reckon(1) on standard output, from what RECKON --help says, so that the two cannot part.
set -eu
reckon=$1
commands=$("$reckon" --help | awk '/^  [a-z]/ && $1 != "reckon" { print $1 }')
roff() { # text as it stands: backslashes, and dots and quotes that begin a line
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"
}
version=$("$reckon" --version | awk 'NR == 1 { print $2 }')
cat <<EOF
.TH RECKON 1 "" "reckon $version" "User commands"
.SH NAME
reckon \- how long a DLRM training step and its kernels take on GPUs you need not own
.SH SYNOPSIS
.B reckon
.I COMMAND
.RI [ OPTION ...]
.SH DESCRIPTION
.B reckon
predicts how long a training step and each of its kernels take on a GPU, why, and which change pays, from a profiler's trace or a
model description. Every device value has a source and a range; answers carry the doubt that follows from them.
.SH COMMANDS
.nf
EOF
"$reckon" --help | awk '/^  [a-z]/ && $1 != "reckon"' | roff
printf '.fi\n'
for command in $commands; do
    printf '.SS reckon %s\n.nf\n' "$command"
    "$reckon" "$command" --help | roff
    printf '.fi\n'
done
cat <<'EOF'
.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
wrong input; one line on standard error says what, where, and what would be valid
.TP
.B 2
cannot: does not fit, infeasible, or not modelled
.TP
.B 3
a bug of ours
.SH ENVIRONMENT
.TP
.B RECKON_DATA
folder with devices/, hosts/ and workloads/models; the checkout it was built from, else the install prefix
.TP
.B RECKON_STAMP
what pages say in place of version and commit, for pages that are committed themselves
.SH FILES
Profiles are JSON files in devices/; schemas of all inputs and outputs are in docs/schemas.
EOF
