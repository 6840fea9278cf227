#include "workflow/card/ncu_script.hpp"

namespace flashmoe::workflow {

const char* const ncu_report_script = R"PY(
import glob, json, math, sys

# pip's first; then the one that a Nsight Compute brings, the newest last in the order of names.
for folder in sys.argv[2:]:
    sys.path.extend(sorted(glob.glob(folder), reverse=True))
try:
    import ncu_report
except ImportError as error:
    print(json.dumps({"error": "the package ncu-report cannot be imported by %s: %s" % (sys.executable, error),
                      "fix": "%s -m pip install ncu-report" % sys.executable}))
    sys.exit(0)

# Reports hold base units today; should one be scaled, it says so.
SCALE = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
         "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def metrics_of(action):
    numbers, texts = {}, {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        value = None if metric is None else metric.value()
        if isinstance(value, str):
            texts[name] = value
        elif isinstance(value, (int, float)) and math.isfinite(value):
            numbers[name] = float(value) * SCALE.get(metric.unit(), 1)
    return numbers, texts


try:
    launches = []
    for one_range in ncu_report.load_report(sys.argv[1]):
        for action in one_range:
            numbers, texts = metrics_of(action)
            launches.append({"kernel": action.name(action.NameBase_MANGLED), "name": action.name(),
                             "numbers": numbers, "texts": texts})
    print(json.dumps({"launches": launches}))
except Exception as error:
    print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}))
)PY";

}  // namespace flashmoe::workflow
