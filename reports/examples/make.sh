#!/bin/sh
# make.sh RECKON: the example reports of this folder, anew; same program and profiles, same bytes. From the root of the tree.
set -eu
reckon=$1
here=reports/examples
RECKON_STAMP='reckon, example of the tree it stands in'
RECKON_DATA=$PWD
export RECKON_STAMP RECKON_DATA
if [ "$reckon" != reckon ]; then # the command on a page is the one a reader would type
    bin=$(mktemp -d)
    trap 'rm -rf "$bin"' EXIT
    ln -s "$(realpath "$reckon")" "$bin/reckon"
    PATH=$bin:$PATH
fi
echo 'a study of DLRM v2'
rm -f $here/dlrm_v2.db # pages name their command: a store of this name, and not of a scratch folder
reckon sweep $here/dlrm_v2.study.json --db $here/dlrm_v2.db --uncertainty 8 --html $here/dlrm_v2.html --quiet >/dev/null
rm -f $here/dlrm_v2.db
echo 'what power leaves dense products in bursts'
reckon power n=8192 dtype=bf16 --device mi350x --svg $here/power_mi350x.svg --quiet >/dev/null
echo 'contention of bounds checks'
reckon atomics bounds_check/per_thread_atomic tables=8 --over rate=0,0.002,0.01,0.05,0.2 --device mi350x,b200 --fix tree-reduction --html $here/bounds_check.html --quiet >/dev/null
echo 'a plan for six models'
reckon plan $here/six_models.demand.json --html $here/six_models.html --quiet >/dev/null
