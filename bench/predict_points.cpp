// Many simulations in one process, for validation and for the oracle of the simulator: a JSON request a line on stdin,
// a JSON answer a line on stdout, in order; {"error": ...} for a request that cannot be answered.
//
//   {"sass": FILE of `nvdisasm -c -hex`, "kernel": NAME (may be left out if the file has one),
//    "gpu": "a100", or {"like": "a10", "sm_count": 84, ...}: facts of a GPU of src/devices replaced,
//    "threads": 128, "resident": 2, "steady": true,
//    "paths": [CTA, ...]    a kind of CTA: [[times, [[first, last], ...]], ...], inclusive ranges of instructions, all
//    warps alike;
//                           or {"warps": [[index, ...], ...]}, each warp's own
//    "grid": {"pattern": [kind, ...], "times": n}     optional: kinds of CTA in grid order, the pattern n times
//    "kinds": [[alone, shared], ...]                  instead of "sass" and "paths": the cycles of kinds of CTA, for
//    "grid" "run": {"ctas": 4, "offset": 61}}                optional: one simulation of all paths in turn instead,
//    cycle for cycle
//
//   {"report": FILE of VGPU_REPORT with paths, of one launch, "sass": FILE of `nvdisasm -c -hex -gp`, "gpu": as above,
//    "grid": [x, y, z]}: the whole pipeline from the virtual GPU on. Answer: "launch_cycles", "unmatched_weight",
//    "doubts", "refusals".
//
// Answer: "ctas": [{"alone", "shared"}] and "use" (of the last path, R resident); with "steady" the same in the middle
// of its loop; with "grid" "launch_cycles"; with "run" "cycles", "ends" and "busy". Of many kinds of CTA some are
// simulated, and the others lie between them by their number of instructions. A request of a "gpu" alone: its "facts";
// of a "sass" alone: its "kernels" as they were read.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>

#include "predict/cta_cost.hpp"
#include "predict/device.hpp"
#include "predict/sass.hpp"
#include "support/json.hpp"
#include "workflow/predict/prediction.hpp"

namespace {

using namespace flashmoe;
using namespace flashmoe::predict;

Diagnostic problem(std::string message) {
  return {.message = std::move(message)};
}

Result<SassKernel> read_kernel(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  if (!in) return problem("cannot read " + file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto kernels = parse_sass(text, file);
  if (!kernels) return kernels.error();
  if (name.empty() && kernels->size() == 1) return kernels->front();
  for (SassKernel& kernel : *kernels)
    if (kernel.name == name) return std::move(kernel);
  return problem(file + " has " + std::to_string(kernels->size()) + " kernels, and none of the name \"" + name + "\"");
}

Result<Gpu> read_gpu(const Json& request) {
  if (request.is_string()) return find_gpu(request.get<std::string>());
  auto gpu = find_gpu(request.value("like", ""));
  if (!gpu) return gpu;
  for (const auto& entry : request.items()) {
    const std::string& key = entry.key();
    if (key == "like") continue;
    const auto facts = gpu_facts();
    const auto fact = std::find_if(facts.begin(), facts.end(), [&](const GpuFact& one) { return one.name == key; });
    if (fact == facts.end()) return problem("no fact of a GPU is called " + key);
    (*gpu).*(fact->fact) = {entry.value().get<double>(), "the request"};
  }
  return gpu;
}

CtaPath read_path(const Json& request, std::size_t warps) {
  CtaPath path;
  if (request.is_object()) {
    for (const Json& warp : request.at("warps")) path.warps.push_back({warp.get<std::vector<std::uint32_t>>()});
    return path;
  }
  WarpPath warp;
  for (const Json& group : request)
    for (int i = group.at(0).get<int>(); i > 0; --i)
      for (const Json& range : group.at(1))
        for (auto k = range.at(0).get<std::uint32_t>(); k <= range.at(1).get<std::uint32_t>(); ++k)
          warp.instructions.push_back(k);
  path.warps.assign(warps, warp);
  return path;
}

Json uses(const CtaCost& cost) {
  Json all{{"issue", cost.issue_use()}};
  for (std::size_t i = 0; i < pipes; ++i)
    all[std::string(name_of(static_cast<Pipe>(i)))] = cost.use(static_cast<Pipe>(i));
  return all;
}

Json facts(const Gpu& gpu) {
  Json all{{"name", gpu.name}, {"architecture", gpu.architecture}};
  for (const GpuFact& fact : gpu_facts()) all[std::string(fact.name)] = (gpu.*(fact.fact)).value;
  return {{"facts", all}};
}

// The control bits as they stand in the instruction, from the stall count on; and what the table of kinds does not
// know.
Json described(const SassKernel& kernel) {
  Json all{{"name", kernel.name}, {"architecture", kernel.architecture}, {"control", Json::array()}};
  all["targets"] = all["lines"] = Json::array();
  all["unknown"] = Json::object();
  for (const SassInstruction& one : kernel.instructions) {
    const Control& bits = one.control;
    all["control"].push_back(bits.stall | (bits.yield ? 0 : 1) << 4 | bits.write_barrier << 5 | bits.read_barrier << 8 |
                             bits.wait_mask << 11 | bits.reuse << 17);
    all["targets"].push_back(one.target ? static_cast<int>(*one.target) : -1);
    all["lines"].push_back(one.ptx_line);
    if (kind_of(one) == Kind::unknown) all["unknown"][std::string(one.base())] = one.opcode;
  }
  return all;
}

Json described_file(const std::string& file) {
  std::ifstream in(file);
  const auto kernels = parse_sass(std::string{std::istreambuf_iterator<char>(in), {}}, file);
  if (!kernels) return {{"error", kernels.error().to_string()}};
  Json answer;
  for (const SassKernel& kernel : *kernels) answer["kernels"].push_back(described(kernel));
  return answer;
}

Json through_the_pipeline(const Json& request, const Gpu& gpu) {
  const auto file = request.at("sass").get<std::string>();
  std::ifstream in(file);
  const auto sass = parse_sass(std::string{std::istreambuf_iterator<char>(in), {}}, file);
  if (!sass) return {{"error", sass.error().to_string()}};
  const auto launches = workflow::read_launches(request.at("report").get<std::string>());
  if (launches.size() != 1) return {{"error", "not the report of one launch"}};
  const auto found = workflow::predict_launch(launches[0], *sass, gpu, request.at("grid").get<Grid>());
  if (!found) return {{"error", found.error().to_string()}};
  return {{"launch_cycles", found->prediction.cycles},
          {"unmatched_weight", found->unmatched_weight},
          {"doubts", found->prediction.doubts},
          {"refusals", found->prediction.refusals}};
}

// Which of so many kinds are simulated: the first few, where a loop has not yet its rhythm, then fewer and fewer.
std::vector<std::size_t> simulated_of(std::size_t kinds) {
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < kinds; i += i < 4 ? 1 : i / 2) some.push_back(i);
  if (some.back() + 1 != kinds) some.push_back(kinds - 1);
  return some;
}

Json one_run(const Program& program, const std::vector<CtaPath>& paths, int resident, const Json& request) {
  const auto run = simulate(program, paths,
                            {.resident = resident,
                             .ctas = request.value("ctas", resident),
                             .offset = request.value("offset", std::uint32_t{0}),
                             .gap = static_cast<std::uint32_t>(program.machine.parameters.cta_gap.value)});
  if (!run) return {{"error", run.error().to_string()}};
  Json answer{{"cycles", run->cycles}, {"instructions", run->instructions}, {"forced_barriers", run->forced_barriers}};
  for (const CtaTime& cta : run->ctas) answer["ends"].push_back(cta.end);
  for (std::size_t i = 0; i < pipes; ++i) answer["busy"][std::string(name_of(static_cast<Pipe>(i)))] = run->busy[i];
  return answer;
}

// What was simulated before is not simulated again: grids of many sizes share their CTAs.
class Points {
 public:
  Json answer(const Json& request) {
    if (!request.contains("gpu")) return described_file(request.at("sass").get<std::string>());
    const auto gpu = read_gpu(request.at("gpu"));
    if (!gpu) return {{"error", gpu.error().to_string()}};
    if (request.contains("report")) return through_the_pipeline(request, *gpu);
    if (request.contains("kinds")) return launch_of_kinds(request, *gpu);
    if (!request.contains("sass")) return facts(*gpu);
    const std::string key = request.at("sass").get<std::string>() + '\n' + request.value("kernel", "");
    if (!kernels_.contains(key)) {
      auto kernel = read_kernel(request.at("sass").get<std::string>(), request.value("kernel", ""));
      if (!kernel) return {{"error", kernel.error().to_string()}};
      kernels_.emplace(key, std::move(*kernel));
    }
    const std::string program_key = key + '\n' + request.at("gpu").dump();
    const auto machine = machine_of(*gpu);
    if (!machine) return {{"error", machine.error().to_string()}};
    if (!programs_.contains(program_key)) programs_.emplace(program_key, make_program(kernels_.at(key), {}, *machine));
    const Program& program = programs_.at(program_key);

    const int resident = request.value("resident", 1);
    const auto warps = static_cast<std::size_t>((request.value("threads", 32) + 31) / 32);
    std::vector<CtaPath> paths;
    for (const Json& path : request.at("paths")) paths.push_back(read_path(path, warps));
    if (request.contains("run")) return one_run(program, paths, resident, request.at("run"));

    Json answer{{"ctas", Json::array()}};
    std::vector<CurvePoint> curve;
    for (const std::size_t i : simulated_of(paths.size())) {
      const std::string path_key = program_key + '\n' + std::to_string(warps) + request.at("paths").at(i).dump();
      const auto* alone = cost(program, paths[i], 1, path_key);
      const auto* shared = alone == nullptr ? nullptr : cost(program, paths[i], resident, path_key);
      if (shared == nullptr) return {{"error", error_}};
      curve.push_back({static_cast<double>(paths[i].instructions()), {alone->cycles, shared->cycles}});
      answer["use"] = uses(*shared);
    }
    std::vector<CtaCycles> kinds;
    for (const CtaPath& path : paths) {
      kinds.push_back(cycles_at(curve, static_cast<double>(path.instructions())));
      answer["ctas"].push_back({{"alone", kinds.back().alone}, {"shared", kinds.back().resident}});
    }
    if (request.value("steady", false)) {
      const auto steady = iteration_cost(program, paths.back(), resident);
      answer["steady"] = steady ? uses(*steady) : Json{{"error", steady.error().to_string()}};
      if (steady) answer["steady"]["not_affine"] = steady->not_affine;
    }
    if (request.contains("grid")) answer["launch_cycles"] = launch(request.at("grid"), kinds, *gpu, *machine, resident);
    return answer;
  }

 private:
  const CtaCost* cost(const Program& program, const CtaPath& path, int resident, const std::string& path_key) {
    const std::string key = path_key + '\n' + std::to_string(resident);
    if (const auto known = costs_.find(key); known != costs_.end()) return &known->second;
    auto made = cta_cost(program, path, resident);
    if (!made) {
      error_ = made.error().to_string();
      return nullptr;
    }
    made->stalled.clear();
    return &costs_.emplace(key, std::move(*made)).first->second;
  }

  static Json launch_of_kinds(const Json& request, const Gpu& gpu) {
    const auto machine = machine_of(gpu);
    if (!machine) return {{"error", machine.error().to_string()}};
    std::vector<CtaCycles> kinds;
    for (const Json& kind : request.at("kinds")) kinds.push_back({kind.at(0).get<double>(), kind.at(1).get<double>()});
    return {{"launch_cycles", launch(request.at("grid"), kinds, gpu, *machine, request.value("resident", 1))}};
  }

  static double launch(const Json& grid, const std::vector<CtaCycles>& kinds, const Gpu& gpu, const Machine& machine,
                       int resident) {
    std::vector<CtaCycles> ctas;
    for (int i = grid.value("times", 1); i > 0; --i)
      for (const Json& kind : grid.at("pattern")) ctas.push_back(kinds.at(kind.get<std::size_t>()));
    return grid_cycles(ctas, static_cast<int>(gpu.sm_count.value), resident, machine.parameters.cta_gap.value);
  }

  std::map<std::string, SassKernel> kernels_{};
  std::map<std::string, Program> programs_{};
  std::map<std::string, CtaCost> costs_{};
  std::string error_{};
};

}  // namespace

int main() {
  Points points;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = points.answer(Json::parse(line));
    } catch (const std::exception& error) {  // what the JSON library throws at a request of another form
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << '\n' << std::flush;
  }
}
