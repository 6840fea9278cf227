// The JSON of gate results with their facts, and of the records that hold them.
#include "support/json_text.hpp"
#include "workflow/journal/bodies.hpp"
#include "workflow/journal/gpu_json.hpp"
#include "workflow/journal/json.hpp"

namespace flashmoe::workflow {
namespace journal_json {

// ---- environment -------------------------------------------------------------------------------------------------

template <class Io>
void describe(Io& io, Of<CpuFacts> auto& cpu) {
  io("model", cpu.model);
  io("cores", cpu.cores);
  io("isa", cpu.isa);
}

template <class Io>
void describe(Io& io, Of<CompilerFacts> auto& compilers) {
  io("cxx", compilers.cxx);
  io("flashmoe_library", compilers.flashmoe_library);
  io("headers", compilers.headers);
}

template <class Io>
void describe(Io& io, Of<CudaFacts> auto& cuda) {
  io("toolkit", cuda.toolkit);
  io("nvcc", cuda.nvcc);
  io("driver_cuda", cuda.driver_cuda);
  io("kernel_module", cuda.kernel_module);
}

template <class Io>
void describe(Io& io, Of<CudaGpuFacts> auto& gpu) {
  io("name", gpu.name);
  io("architecture", gpu.architecture);
  io("sm_count", gpu.sm_count);
}

template <class Io>
void describe(Io& io, Of<CounterFacts> auto& counters) {
  io("perf_event_paranoid", counters.perf_event_paranoid);
  io("nvidia_profiling_admin_only", counters.nvidia_profiling_admin_only);
}

template <class Io>
void describe(Io& io, Of<ClockFacts> auto& clocks) {
  io("governor", clocks.governor);
  io("clocksource", clocks.clocksource);
  io("load", clocks.load);
}

template <class Io>
void describe(Io& io, Of<DiskFacts> auto& disk) {
  io("directory", disk.directory);
  io("free_gb", disk.free_gb);
  io.if_any("writable", disk.writable);
}

template <class Io>
void describe(Io& io, Of<PackageFacts> auto& package) {
  io("installed", package.installed);
  if (package.installed) io("directory", package.directory);
  io.if_any("version", package.version);
  io.if_any("loads", package.loads);
  if (package.loads == false) {
    io("error", package.error);
    io("module", package.module);
    io("path", package.path);
  }
  io.if_any("file", package.file);
  io.if_any("functions", package.functions);
  io.if_any("cuda", package.cuda);
}

template <class Io>
void describe(Io& io, Of<PythonFacts> auto& python) {
  io.if_any("version", python.version);
  io.if_any("executable", python.executable);
  io.if_any("numpy", python.numpy);
  io.if_any("extension", python.extension);
  io.if_any("flashmoe_owners", python.flashmoe_owners);
  if (python.version) io("torch_version", python.torch_version);
  io.if_asked("torch", python.torch_asked, python.torch);
}

// A GPU is known by its id; a record also says what was known about it.
Json gpu_json(const std::string& id) {
  const auto gpu = find_gpu(id);
  return gpu ? to_json(*gpu) : Json{{"id", id}};
}

template <class Io>
void describe(Io& io, Of<EnvironmentFacts> auto& facts) {
  io.if_any("cpu", facts.cpu);
  io.if_any("compilers", facts.compilers);
  io.if_any("cuda", facts.cuda);
  if (facts.cuda) {
    io("gpus", facts.cuda->gpus);
    io("embedded_images", facts.cuda->embedded_images);
  }
  io.if_any("counters", facts.counters);
  io.if_any("clocks", facts.clocks);
  io.if_any("disk", facts.disk);
  io.if_asked("python", facts.python_asked, facts.python);
  if constexpr (Io::writes) {
    for (const std::string& id : facts.devices) io.json()["devices"].push_back(gpu_json(id));
  } else if (io.json().contains("devices")) {
    for (const Json& gpu : io.json()["devices"]) {
      if (std::string id; read(gpu.is_object() ? gpu.value("id", Json()) : Json(), id)) facts.devices.push_back(id);
    }
  }
  io.if_any("device", facts.device);
  io.if_any("device_from", facts.device_from);
}

// ---- build -------------------------------------------------------------------------------------------------------

template <class Io>
void describe(Io& io, Of<LibraryFacts> auto& built) {
  io("role", built.role);
  io("library", built.library);
  io("sha256", built.sha256);
  io("build_hash", built.build_hash);
  io("compiler", built.compiler);
  io("libraries", built.libraries);
  io("from_cache", built.from_cache);
  io("seconds", built.seconds);
}

template <class Io>
void describe(Io& io, Of<CubinFacts> auto& cubin) {
  io("source", cubin.source);
  io("architecture", cubin.architecture);
  io("sha256", cubin.sha256);
  io("from_cache", cubin.from_cache);
  io("seconds", cubin.seconds);
  io("kernels", cubin.kernels);
  io.if_any("failed", cubin.failed);
}

template <class Io>
void describe(Io& io, Of<LaunchFacts> auto& launch) {
  io("workload", launch.workload);
  io("grid", launch.grid);
  io("block", launch.block);
  io("dynamic_shared_bytes", launch.dynamic_shared_bytes);
  io("ctas_per_sm", launch.ctas_per_sm);
  io("occupancy", launch.occupancy);
  io("limiter", launch.limiter);
  io.if_any("waves", launch.waves);
}

template <class Io>
void describe(Io& io, Of<InstanceFacts> auto& instance) {
  io("instance", instance.instance);
  io("symbol", instance.symbol);
  io("architecture", instance.architecture);
  io("registers", instance.registers);
  io("static_shared_bytes", instance.static_shared_bytes);
  io("frame_bytes", instance.frame_bytes);
  io("spill_store_bytes", instance.spill_store_bytes);
  io("spill_load_bytes", instance.spill_load_bytes);
  io("max_threads", instance.max_threads);
  io("barriers", instance.barriers);
  io("code_bytes", instance.code_bytes);
  io("workloads", instance.workloads);
}

template <class Io>
void describe(Io& io, Of<CudaBuildFacts> auto& cuda) {
  io("cubins", cuda.cubins);
  io("instances", cuda.instances);
  if constexpr (Io::writes) {
    if (!cuda.device.empty()) io.json()["device"] = gpu_json(cuda.device);
  } else if (const auto gpu = io.json().find("device"); gpu != io.json().end() && gpu->is_object()) {
    static_cast<void>(read(gpu->value("id", Json()), cuda.device));
  }
}

template <class Io>
void describe(Io& io, Of<BuildFacts> auto& facts) {
  io.if_any("cpu", facts.cpu);
  io.if_any("cuda_toolkit", facts.cuda_toolkit);
  io.among("cubins", facts.cuda);
}

// ---- correctness -------------------------------------------------------------------------------------------------

template <class Io>
void describe(Io& io, Of<CaseFacts> auto& one) {
  io("name", one.name);
  io("values", one.values);
  io("max_diff", one.max_diff);
}

template <class Io>
void describe(Io& io, Of<WrongFacts> auto& wrong) {
  io("case", wrong.case_name);
  io("values", wrong.values);
  io("input_seed", wrong.input_seed);
  io("tensor", wrong.tensor);
  io("position", wrong.position);
  io("expected", wrong.expected);
  io("got", wrong.got);
  io("max_diff", wrong.max_diff);
  io("wrong", wrong.wrong);
  io("unwritten", wrong.unwritten);
  io("count", wrong.count);
  io.if_any("schedule", wrong.schedule);
}

template <class Io>
void describe(Io& io, Of<Diagnosis> auto& diagnosis) {
  io("kind", diagnosis.kind);
  io("name", diagnosis.name);
  io("cause", diagnosis.cause);
  io("fix", diagnosis.fix);
}

template <class Io>
void describe(Io& io, Of<CorrectnessFacts> auto& facts) {
  io("seed", facts.seed);
  io("cases", facts.cases);
  io.if_any("failure", facts.failure);
  io.if_any("wrong", facts.wrong);
  io.if_any("diagnosis", facts.diagnosis);
  io.if_any("schedules", facts.schedules);
  io.if_any("virtual_faults", facts.virtual_faults);
  if constexpr (Io::writes) {
    for (const std::string& finding : facts.virtual_findings) {
      io.json()["virtual_findings"].push_back(parse_json(finding));
    }
  } else if (io.json().contains("virtual_findings")) {
    for (const Json& finding : io.json()["virtual_findings"]) facts.virtual_findings.push_back(one_line(finding));
  }
}

// ---- performance -------------------------------------------------------------------------------------------------

template <class Io>
void describe(Io& io, Of<DriftFacts> auto& drift) {
  io("seconds", drift.seconds);
  io("record", drift.record);
  io("drift", drift.drift);
}

template <class Io>
void describe(Io& io, Of<RatioFacts> auto& ratio) {
  io("mean", ratio.mean);
  io("lower", ratio.lower);
  io("upper", ratio.upper);
  io("alpha", ratio.alpha);
}

template <class Io>
void describe(Io& io, Of<CardTimesFacts> auto& times) {
  io("baseline_cold_seconds", times.baseline_cold_seconds);
  io("kernel_cold_seconds", times.kernel_cold_seconds);
  io("baseline_call_seconds", times.baseline_call_seconds);
  io("kernel_call_seconds", times.kernel_call_seconds);
  io("warm", times.warm);
}

template <class Io>
void describe(Io& io, Of<SpeedFacts> auto& speed) {
  io("ratio", speed.ratio);
  io("rung", speed.rung);
  io("needed", speed.needed);
  io("baseline_seconds", speed.baseline_seconds);
  io("kernel_seconds", speed.kernel_seconds);
  io("log_ratios", speed.log_ratios);
  io("baseline_samples", speed.baseline_samples);
  io("kernel_samples", speed.kernel_samples);
  io("calls_per_block", speed.calls_per_block);
  io("outputs_compared", speed.outputs_compared);
  io.if_any("processor_clock_blocks", speed.processor_clock_blocks);
  io.if_any("card", speed.card);
}

template <class Io>
void describe(Io& io, Of<MeasuredWorkload> auto& workload) {
  io("values", workload.values);
  io.if_any("baseline_recorded", workload.baseline_recorded);
  io.if_any("baseline_differences", workload.baseline_differences);
  io.among("ratio", workload.speed);
}

template <class Io>
void describe(Io& io, Of<PredictedSpeedFacts> auto& speed) {
  io("workload", speed.workload);
  io("baseline_sha256", speed.baseline_sha256);
  io("kernel_sha256", speed.kernel_sha256);
  io("baseline_cycles", speed.baseline_cycles);
  io("kernel_cycles", speed.kernel_cycles);
  io("ratio", speed.ratio);
  io("doubts", speed.doubts);
}

template <class Io>
void describe(Io& io, Of<PerformanceFacts> auto& facts) {
  io("seed", facts.seed);
  io("baseline", facts.baseline);
  io("workloads", facts.workloads);
  io.if_any("baseline_version", facts.baseline_version);
  io.if_any("look", facts.look);
  io.if_any("predicted", facts.predicted);
  io.if_any("failure", facts.failure);
}

// ---- results and records -----------------------------------------------------------------------------------------

template <class Io>
void describe(Io& io, Of<Finding> auto& finding) {
  io("severity", finding.severity);
  io.if_any("code", finding.code);
  io("group", finding.group);
  io("what", finding.what);
  io.if_any("where", finding.where);
  io.if_any("fix", finding.fix);
}

void write_data(Json& to, const GateResult& result) {
  to = Json::object();
  const auto write_facts = [&](const auto& facts) {
    if constexpr (requires { facts.gate; }) write_fields(to, facts);
  };
  std::visit(write_facts, result.facts);
  if (result.not_run) to["not_run"] = true;
  if (!result.stopped.empty()) to["stopped"] = result.stopped;
}

// Whose facts they are is said by the gate's name.
template <class... Alternatives>
void read_facts(const Json& from, const std::string& gate, std::variant<std::monostate, Alternatives...>& facts) {
  const auto try_one = [&]<class Facts>(Facts read_into) {
    if (gate != Facts::gate) return;
    read_fields(from, read_into);
    facts = std::move(read_into);
  };
  (try_one(Alternatives{}), ...);
}

void read_data(const Json& from, GateResult& result) {
  if (!from.is_object()) return;
  Reader io(from);
  io("not_run", result.not_run);
  io("stopped", result.stopped);
  const bool has_facts = from.size() > static_cast<std::size_t>(result.not_run) + (result.stopped.empty() ? 0 : 1);
  if (has_facts) read_facts(from, result.gate, result.facts);
}

template <class Io>
void describe(Io& io, Of<GateResult> auto& result) {
  io("gate", result.gate);
  io("outcome", result.outcome);
  io.if_any("code", result.code);
  io("summary", result.summary);
  io("seconds", result.seconds);
  io("findings", result.findings);
  if constexpr (Io::writes) {
    write_data(io.json()["data"], result);
  } else if (io.json().contains("data")) {
    read_data(io.json()["data"], result);
  }
}

template <class Io>
void describe(Io& io, Of<BaselineFacts> auto& facts) {
  io.if_any("commit", facts.commit);
  io.if_any("baseline_file", facts.baseline_file);
  io.if_any("threads", facts.threads);
  io.if_any("host", facts.host);
  io.if_any("cpu", facts.cpu);
  io.if_any("cores", facts.cores);
  io.if_any("kernel", facts.kernel);
  io.if_any("compilers", facts.compilers);
  io.if_any("baseline_version", facts.baseline_version);
  io.if_any("values", facts.values);
}

template <class Io>
void describe(Io& io, Of<BaselineRecord> auto& baseline) {
  io("seconds", baseline.seconds);
  io("facts", baseline.facts);
}

template <class Io>
void describe(Io& io, Of<GateRecord> auto& record) {
  io("summary", record.summary);
  io.if_any("cost_per_hour", record.cost_per_hour);
  io.if_any("seed", record.seed);
  io.if_any("threads", record.threads);
  io.if_any("point", record.point);
  io.if_any("recipe", record.recipe);
  io("baselines", record.baselines);
  io("gates", record.gates);
}

void write_body(Json& to, const GateRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, GateRecord& body) {
  read_fields(from, body);
}

}  // namespace journal_json

Json to_json(const Finding& finding) {
  return journal_json::json_of(finding);
}

Json to_json(const GateResult& result) {
  return journal_json::json_of(result);
}

std::vector<std::string> differences(const BaselineFacts& then, const BaselineFacts& now) {
  Json before;
  Json after;
  journal_json::write(before, then);
  journal_json::write(after, now);
  std::vector<std::string> found;
  const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : one_line(value); };
  for (const auto& [key, value] : after.items()) {
    if (!before.contains(key) || before[key] == value) continue;
    found.push_back(key + ": " + text(before[key]) + " then, " + text(value) + " now");
  }
  return found;
}

}  // namespace flashmoe::workflow
