#include "workflow/agents/ray_script.hpp"

namespace flashmoe::workflow {

const char* const ray_script = R"PY(
# Answers one line of JSON for each that it reads. A task is a share of a batch: it gets the repository as a bundle and
# the run's records, counts in a clone of its own, and hands back the records it wrote. So no file system has to be
# shared, and a task that ran twice does no harm.
import json, os, secrets, subprocess, sys, tempfile
from pathlib import Path

cudadent, project, workers = sys.argv[1:4]
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever else prints does not answer


def reply(answer):
    replies.write(json.dumps(answer) + "\n")
    replies.flush()


os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
longest_scratch = 30  # a socket's path has an end
own_cluster = workers == "" or workers.isdigit()
if own_cluster:
    # Ray's own switch for keeping all of its sockets on loopback.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_enable_metrics_collection"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # its workers do the work of this command, no background work
    # Other users of this machine reach loopback, too: without the token they are refused. It goes with the script.
    scratch = Path(__file__).resolve().parent
    token = scratch / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
try:
    import ray
except ImportError as error:
    reply({"error": "the package ray cannot be imported by %s: %s" % (sys.executable, error),
           "fix": "%s -m pip install ray" % sys.executable})
    sys.exit(0)


def git(directory, *words):
    return subprocess.run(["git", "-C", str(directory), *words], check=True, capture_output=True).stdout


def count(bundle, prefix, lines, words):
    with tempfile.TemporaryDirectory(prefix="cudadent_ray_") as name:
        root = Path(name)
        (root / "bundle").write_bytes(bundle)
        git(root, "clone", "-q", "bundle", "clone")
        here = root / "clone" / prefix
        records = here / ".cudadent" / "records.jsonl"
        records.parent.mkdir(exist_ok=True)
        records.write_text("".join(lines))
        ran = subprocess.run([words[0], "optimize", str(here), *words[1:], "--quiet"], capture_output=True, text=True,
                             env={**os.environ, "XDG_STATE_HOME": str(root / "state")})
        if ran.returncode != 0:
            raise RuntimeError("cudadent optimize exits with %d: %s%s" % (ran.returncode, ran.stdout[-2000:],
                                                                          ran.stderr[-2000:]))
        with records.open() as file:
            return file.read().splitlines(keepends=True)[len(lines):]


def records_of(journal, run):
    mark = '"run":' + json.dumps(run, ensure_ascii=False)
    with open(journal) as file:
        return [line for line in file
                if mark in line and line.endswith("\n") and json.loads(line)["kind"] in ("batch", "count")]


def count_batch(wish):
    lines = ray.put(records_of(wish["journal"], wish["run"]))
    words = [cudadent, "--run", wish["run"], "--seed", str(wish["seed"]), "--device", wish["device"]]
    tasks = [task.remote(bundle, prefix, lines, [*words, "--shard", "%d/%d" % (i + 1, wish["tasks"])])
             for i in range(wish["tasks"])]
    files = []
    for i, written in enumerate(ray.get(tasks)):
        if not written:
            continue
        files.append(os.path.join(wish["out"], "%d.jsonl" % i))
        Path(files[-1]).write_text("".join(written))
    return {"files": files}


try:
    with tempfile.TemporaryDirectory() as name:
        git(project, "bundle", "create", "-q", os.path.join(name, "bundle"), "HEAD")
        content = Path(name, "bundle").read_bytes()
    prefix = git(project, "rev-parse", "--show-prefix").decode().strip()
    if own_cluster:
        ray.init(num_cpus=int(workers) if workers else None, include_dashboard=False, _node_ip_address="127.0.0.1",
                 _temp_dir=str(scratch / "ray") if len(str(scratch)) < longest_scratch else None,
                 log_to_driver=False, logging_level="error")
    else:
        ray.init(address=workers, log_to_driver=False, logging_level="error")
    bundle = ray.put(content)
    # A task whose worker or node dies is run again; one whose cudadent fails is not.
    task = ray.remote(num_cpus=1, max_retries=5)(count)
    reply({"ray": ray.__version__})
    for line in sys.stdin:
        reply(count_batch(json.loads(line)))
except Exception as error:
    reply({"error": "%s: %s" % (type(error).__name__, str(error)[-3000:])})
)PY";

}  // namespace flashmoe::workflow
