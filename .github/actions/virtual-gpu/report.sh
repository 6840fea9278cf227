#!/usr/bin/env bash
# Annotations, SARIF, and counters beside those of the base branch. Fails when a check found something or the suite failed.
#
#   report.sh WORK     in the folder of the sources, after suite.sh
set -euo pipefail
work=$1
. "$work/settings.sh"
{
  echo "sarif=$work/findings.sarif"
  echo "launches=$work/suite.jsonl"
} >>"${GITHUB_OUTPUT:-/dev/null}"
suite=$(<"$work/suite.exit")
[[ $suite != 99 ]] || suite=0
"$work/cudadent/bin/python" -m cudadent.ci_report "$work/suite.jsonl" --base "$work/base.jsonl" --sarif "$work/findings.sarif" \
  --summary "${GITHUB_STEP_SUMMARY:-$work/summary.md}" --suite-exit "$suite"
