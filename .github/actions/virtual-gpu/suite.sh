#!/usr/bin/env bash
# Builds a suite and runs it on the virtual GPU. What it found is for report.sh to judge: this fails only where it cannot run.
#
#   suite.sh WORK NAME DEVICE CHECK BUILD TEST     in the folder of the sources; BUILD and TEST are commands
#
# WORK/NAME.jsonl then has the launches, WORK/NAME.exit the suite's own exit code.
set -euo pipefail
work=$1 name=$2 device=$3 check=$4 build=$5 test=$6
. "$work/settings.sh"
rm -f "$work/$name".{jsonl,exit}
bash -euo pipefail -c "$build"
status=0
# 99: the checks found something, whatever the suite ended with.
cudadent run --device "virtual:$device" --check "$check" --findings-exit 99 --report "$work/$name.jsonl" -- \
  bash -euo pipefail -c "$test" || status=$?
echo "$status" >"$work/$name.exit"
