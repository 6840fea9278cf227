#include "workflow/runner/python_runner.hpp"

namespace flashmoe::workflow {

const char* const python_runner_script = R"PY(
import ctypes, gc, hashlib, importlib.machinery, importlib.util, json, mmap, os, resource, sys, time, traceback

requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
answers = os.dup(1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)  # what a callable prints is not an answer
try:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: expected values are nobody else's to read
except Exception:
    pass

try:
    import numpy as np
except ImportError as error:
    os.write(answers, (json.dumps({"n": json.loads(requests.readline())["n"], "ok": False,
        "error": "numpy cannot be imported by %s: %s" % (sys.executable, error),
        "fix": "%s -m pip install numpy, or set CUDADENT_PYTHON to a Python that has it" % sys.executable}) + "\n").encode())
    os._exit(1)

DTYPES = {0: np.float64, 1: np.float32, 2: np.float16, 3: np.uint16, 4: np.int32, 5: np.int64, 6: np.uint8}
BF16 = 3


def bf16_bits(values):
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def as_array(value, dtype):
    if hasattr(value, "detach"):  # a torch tensor; numpy has no bfloat16
        import torch
        value = value.detach().cpu().contiguous()
        value = value.view(torch.uint16).numpy() if value.dtype == torch.bfloat16 else value.numpy()
    value = np.asarray(value)
    if dtype == BF16 and value.dtype != np.uint16:
        value = bf16_bits(value)
    return value


def as_torch(array, dtype):
    """A tensor over the same memory."""
    import torch
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if dtype == BF16 else torch.from_numpy(array)


def forbid(system_call, program):  # for all threads there are, those that imports have started too
    if system_call < 0:
        return
    program = ctypes.create_string_buffer(bytes.fromhex(program))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]

    wanted = Filter(len(program) // 8, ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.syscall(ctypes.c_long(system_call), 1, 1, ctypes.byref(wanted)) != 0:  # SET_MODE_FILTER, TSYNC
        raise OSError(ctypes.get_errno(), "system calls cannot be filtered")


class FromSource(importlib.machinery.SourceFileLoader):
    """Never bytecode that lies beside a source: it need not be what the source says, and nobody reads it."""

    def get_code(self, name):
        path = self.get_filename(name)
        return self.source_to_code(self.get_data(path), path)


def sources_only(folder):
    own, libraries = os.path.join(os.path.realpath(folder), ""), os.path.join(os.path.realpath(sys.prefix), "")

    def finder(entry):
        entry = os.path.join(os.path.realpath(entry), "")
        if not entry.startswith(own) or entry.startswith(libraries):
            raise ImportError("not of the project")
        return importlib.machinery.FileFinder(entry, (FromSource, [".py"]),
            (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES))

    sys.path_hooks.insert(0, finder)


def own_waits():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


class Worker:
    def __init__(self):
        self.function = None
        self.trusted = False
        self.sets = []
        self.calls = []
        self.results = []

    def load(self, request):
        path = request["library"]
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if request["hash"] and digest != request["hash"]:
            return {"ok": False, "error": "%s is not what was read first: SHA-256 is %s, was %s" % (path, digest, request["hash"])}
        self.trusted = request.get("trusted", False)
        self.torch = request["torch"]
        self.card = request.get("card", "")
        if self.torch:
            gc.disable()  # nothing of an import is garbage, and looking for some takes a fifth of its time
            import torch
            gc.enable()
        if self.card and not torch.cuda.is_available():
            return {"ok": False, "error": "torch %s of %s cannot use the card" % (torch.__version__, sys.executable),
                    "fix": "install the CUDA build of torch there, or set CUDADENT_PYTHON to a Python that has it"}
        if not self.trusted:
            forbid(request["seccomp"], request["touching_others"])
        sources_only(os.path.dirname(path))
        sys.path.append(os.path.dirname(path))  # last: a file beside the project shadows no library
        spec = importlib.util.spec_from_file_location(
            "cudadent_callable", path, loader=FromSource("cudadent_callable", path))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if not hasattr(module, request["entry"]):
            return {"ok": False, "error": "%s has no function '%s'" % (path, request["entry"])}
        self.function = getattr(module, request["entry"])
        self.makes = request["entry"].startswith("make_")
        if not self.trusted:
            forbid(request["seccomp"], request["processes"])
        versions = ["python " + sys.version.split()[0], "numpy " + np.__version__]
        if "torch" in sys.modules:
            versions.append("torch " + sys.modules["torch"].__version__)
        return {"ok": True, "version": ", ".join(versions)}

    def bind(self, request):
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(request["threads"])
        self.params = dict(request["params"])
        for name, value in self.params.items():
            if isinstance(value, float) and value == int(value):
                self.params[name] = int(value)
        self.specs = request["tensors"]
        regions = {}
        for name in ("input", "output"):
            step = request[name + "_bytes"]
            size = step * request["sets"]
            regions[name] = (mmap.mmap(request[name + "s_fd"], size) if size else bytearray(0), step)
        self.sets = []
        for index in range(request["sets"]):
            tensors = {}
            for spec in self.specs:
                if spec["absent"]:
                    continue
                memory, step = regions["input" if spec["role"] == "input" else "output"]
                dtype = np.dtype(DTYPES[spec["dtype"]])
                empty = 0 in spec["shape"]
                tensors[spec["name"]] = np.empty(spec["shape"], dtype) if empty else np.ndarray(
                    spec["shape"], dtype, memory, spec["offset"] + index * step, [s * dtype.itemsize for s in spec["stride"]])
            self.sets.append(tensors)
        self.handed = self.sets if not self.torch else [
            {spec["name"]: as_torch(tensors[spec["name"]], spec["dtype"]) for spec in self.specs if not spec["absent"]}
            for tensors in self.sets]
        self.calls = [None] * request["sets"]
        self.results = [None] * request["sets"]
        self.on_card = [None] * request["sets"]
        return {"ok": True}

    def prepare(self, request):
        for index in range(request["first"], request["first"] + request["count"]):
            tensors, params = self.handed[index], dict(self.params)
            if self.card:
                tensors = self.on_card[index] = {name: tensor.to(self.card) for name, tensor in tensors.items()}
            if request.get("variant"):
                params["variant"] = request["variant"]
            if self.makes:
                self.calls[index] = self.function(tensors, params)
            else:
                self.calls[index] = lambda tensors=tensors, params=params: self.function(tensors, params)
        return {"ok": True}

    def store(self, index):
        result, self.results[index] = self.results[index], None
        if result is None:
            return
        outputs = [spec for spec in self.specs if spec["role"] != "input" and not spec["absent"]]
        if not isinstance(result, dict):
            result = {outputs[0]["name"]: result}
        for spec in outputs:
            if spec["name"] in result and result[spec["name"]] is not None:
                target = self.sets[index][spec["name"]]
                value = as_array(result[spec["name"]], spec["dtype"])
                if value.shape != target.shape:
                    raise ValueError("'%s' has shape %s, declared is %s" % (spec["name"], value.shape, target.shape))
                np.copyto(target, value, casting="unsafe")

    def time_on_card(self, request):
        """Seconds of all calls together, as GpuEntry::time() takes them: kernel, cold or call."""
        torch = sys.modules["torch"]
        indices = range(request["first"], request["first"] + request["count"])

        def run_all():
            for index in indices:
                self.results[index] = self.calls[index]()

        with torch.cuda.device(self.card), torch.no_grad():
            if request["timing"] == "call":
                torch.cuda.synchronize()
                start = time.perf_counter()
                run_all()
                torch.cuda.synchronize()
                return time.perf_counter() - start
            flush = torch.empty(2 * torch.cuda.get_device_properties(self.card).L2_cache_size, dtype=torch.uint8, device=self.card)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if request["timing"] == "cold":
                seconds = 0
                for index in indices:
                    flush.zero_()
                    begin.record()
                    self.results[index] = self.calls[index]()
                    end.record()
                    end.synchronize()
                    seconds += begin.elapsed_time(end) / 1e3
                return seconds
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # torch wants to have run what it captures
                self.calls[indices[0]]()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run_all()
            flush.zero_()
            for index in indices:
                for tensor in self.on_card[index].values():
                    tensor.clone()  # reads it: it lies in L2
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) / 1e3

    def run(self, request):
        if self.card and request.get("timing"):
            return {"ok": True, "card_seconds": self.time_on_card(request)}
        calls, results = self.calls, self.results
        first, last = request["first"], request["first"] + request["count"]
        waits = own_waits()
        start = time.perf_counter()
        for index in range(first, last):
            results[index] = calls[index]()
        if not self.trusted:
            for index in range(first, last):
                self.store(index)
        return {"ok": True, "seconds": time.perf_counter() - start, "waits": own_waits() - waits}

    def publish(self, request):
        for index in range(request["first"], request["first"] + request["count"]):
            self.store(index)
        return {"ok": True}


worker = Worker()
for line in requests:
    request = json.loads(line)
    try:
        with np.errstate(all="ignore"):
            reply = getattr(worker, request["cmd"])(request)
    except BaseException as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != "<string>"]
        where = " (%s:%d)" % (os.path.basename(frames[-1].filename), frames[-1].lineno) if frames else ""
        reply = {"ok": False, "error": "%s: %s%s" % (type(error).__name__, error, where)}
        if isinstance(error, ModuleNotFoundError):
            reply["fix"] = "%s -m pip install %s, or set CUDADENT_PYTHON to a Python that has it" % (sys.executable, error.name)
    reply["n"] = request["n"]
    os.write(answers, (json.dumps(reply) + "\n").encode())
os._exit(0)
)PY";

}  // namespace flashmoe::workflow
