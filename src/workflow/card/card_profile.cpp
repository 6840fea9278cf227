#include "workflow/card/card_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "support/json_text.hpp"
#include "workflow/card/counters_map.hpp"

namespace flashmoe::workflow {
namespace {

// Who says a figure, in the word that virtual reports have for it.
struct Trust {
  static constexpr const char* counted = "counted";    // by the card
  static constexpr const char* driver = "driver";      // its answer
  static constexpr const char* derived = "derived";    // computed from those
  static constexpr const char* modelled = "modelled";  // what would do
  static constexpr const char* measured = "measured";  // a clock
};

class Report {
 public:
  void add(const std::string& name, double value, const char* unit, const char* trust) {
    metrics_.push_back({{"name", name}, {"value", number(value)}, {"unit", unit}, {"trust", trust}});
  }
  void add(const std::string& name, const CardCounter& counter) {
    Json metric = {
        {"name", name}, {"value", number(counter.value)}, {"unit", counter.metric->unit}, {"trust", Trust::counted}};
    Json& from = metric["from"] = Json::array();
    for (const char* card : counter.metric->card)
      if (card != nullptr) from.push_back(card);
    if (*counter.metric->differs != '\0') metric["differs"] = counter.metric->differs;
    metrics_.push_back(std::move(metric));
  }
  void lack(const std::string& name, const std::string& why) { missing_.push_back({{"name", name}, {"why", why}}); }

  [[nodiscard]] LaunchReport finished(Json fields, std::string summary) {
    fields["metrics"] = std::move(metrics_);
    fields["missing"] = std::move(missing_);
    fields["summary"] = std::move(summary);
    return read_launch(one_line(fields));
  }

 private:
  // Integers as integers: 12, not 12.0.
  static Json number(double value) {
    if (std::abs(value) < 9e15 && value == std::floor(value)) return static_cast<std::int64_t>(value);
    return value;
  }
  Json metrics_ = Json::array(), missing_ = Json::array();
};

std::int64_t product(const std::array<std::int64_t, 3>& size) {
  return size[0] * size[1] * size[2];
}

// The CTAs that an SM holds: the driver's word, with our own calculation beside it.
struct Held {
  int ctas_per_sm = 0;
  std::optional<Occupancy> ours{};
};

Held held_by(const runtime::DeviceFacts& card, const CardLaunch& launch) {
  Held held{.ctas_per_sm = launch.facts.ctas_per_sm};
  const auto architecture = find_architecture(fmt::format("sm_{}", card.sm));
  if (!architecture || launch.facts.registers == 0) return held;
  held.ours = occupancy(*architecture, {.registers = launch.facts.registers,
                                        .threads = static_cast<int>(product(launch.block)),
                                        .static_shared_bytes = launch.facts.static_shared_bytes,
                                        .dynamic_shared_bytes = launch.dynamic_shared_bytes});
  if (held.ctas_per_sm == 0) held.ctas_per_sm = held.ours->ctas_per_sm;
  return held;
}

double percent_of_warps(const runtime::DeviceFacts& card, const CardLaunch& launch, const Held& held) {
  const auto architecture = find_architecture(fmt::format("sm_{}", card.sm));
  if (!architecture) return 0;
  const auto warps = (product(launch.block) + architecture->threads_per_warp - 1) / architecture->threads_per_warp;
  return 100.0 * static_cast<double>(warps * held.ctas_per_sm) / architecture->max_warps_per_sm;
}

void add_sass(Report& report, const StaticSass& sass) {
  const std::pair<const char*, int> counts[] = {
      {"instructions", sass.instructions},     {"matrix_products", sass.matrix_products},
      {"multiply_adds", sass.multiply_adds},   {"global_loads", sass.global_loads},
      {"global_stores", sass.global_stores},   {"async_copies", sass.async_copies},
      {"shared_loads", sass.shared_loads},     {"shared_stores", sass.shared_stores},
      {"local_accesses", sass.local_accesses}, {"barriers", sass.barriers}};
  for (const auto& [name, count] : counts)
    report.add(fmt::format("static__sass_{}", name), count, "inst", Trust::derived);
}

std::string summary_of(const CardCall& call, const CardLaunch& launch, const Held& held, double waves,
                       double occupancy_percent, const CardCounters& counters) {
  std::string text = fmt::format("{} on {}\n", launch.name.empty() ? launch.kernel : launch.name, call.card.name);
  text += fmt::format("  grid        {} CTAs of {} threads on {} SMs: {:.3f} waves\n", product(launch.grid),
                      product(launch.block), call.card.sm_count, waves);
  text += fmt::format("  occupancy   {:.0f} %, {} CTAs an SM{}\n", occupancy_percent, held.ctas_per_sm,
                      held.ours ? ", limited by " + held.ours->limiter : "");
  if (held.ours && held.ours->ctas_per_sm != held.ctas_per_sm)
    text += fmt::format("              the driver says {} CTAs an SM, our table {}\n", held.ctas_per_sm,
                        held.ours->ctas_per_sm);
  text += fmt::format("  a thread    {} registers, {} bytes of local memory\n", launch.facts.registers,
                      launch.facts.local_bytes);
  const auto value = [&](const char* name) {
    const auto found = counters.counted.find(name);
    return found == counters.counted.end() ? std::optional<double>{} : found->second.value;
  };
  if (const auto instructions = value("vgpu__ptx_inst_executed.sum"))
    text += fmt::format("  executed    {:.4g} SASS instructions by warps\n", *instructions);
  const auto wavefronts = value("vgpu__shared_wavefronts.sum"), conflicts = value("vgpu__shared_bank_conflicts.sum");
  if (wavefronts && conflicts && *wavefronts > 0)
    text += fmt::format("  shared      {:.4g} wavefronts, {:.4g} of them bank conflicts\n", *wavefronts, *conflicts);
  if (const auto coalescing = value("vgpu__coalescing_efficiency.pct"))
    text += fmt::format("  global      {:.0f} % of the sectors' bytes are asked for\n", *coalescing);
  const auto read = value("vgpu__dram_bytes_read.sum"), written = value("vgpu__dram_bytes_written.sum");
  if (read && written) text += fmt::format("  DRAM        {:.4g} B read, {:.4g} B written\n", *read, *written);
  if (launch.sass)
    text += fmt::format(
        "  SASS        {} instructions as they stand: {} matrix products, {} multiply-adds, {} global, {} shared, {} "
        "local accesses\n",
        launch.sass->instructions, launch.sass->matrix_products, launch.sass->multiply_adds,
        launch.sass->global_loads + launch.sass->global_stores + launch.sass->async_copies,
        launch.sass->shared_loads + launch.sass->shared_stores, launch.sass->local_accesses);
  if (launch.event_seconds) text += fmt::format("  time        {:.2f} us by events\n", 1e6 * *launch.event_seconds);
  return text;
}

LaunchReport report_of(const CardCall& call, const CardLaunch& launch) {
  Report report;
  const CardCounters counters = card_counters(launch.counted, call.card.sm);
  for (const auto& [name, counter] : counters.counted) report.add(name, counter);
  for (const auto& [name, why] : counters.missing)
    report.lack(name, call.counted_by == CountedBy::nobody ? "nobody counted" : why);

  const Held held = held_by(call.card, launch);
  const auto ctas = product(launch.grid);
  const double at_once = static_cast<double>(held.ctas_per_sm) * call.card.sm_count;
  const double waves = at_once > 0 ? static_cast<double>(ctas) / at_once : 0;
  const double occupancy_percent = percent_of_warps(call.card, launch, held);
  if (at_once <= 0)
    for (const char* name : {"waves", "waves_of_grid", "ctas_per_sm"})
      report.lack(name, "neither the driver nor our table says how many CTAs an SM holds");
  if (occupancy_percent <= 0) report.lack("occupancy_percent", "the architecture is not in our table");

  report.add("launch__grid_size", static_cast<double>(ctas), "block", Trust::driver);
  report.add("launch__block_size", static_cast<double>(product(launch.block)), "thread", Trust::driver);
  report.add("launch__shared_mem_per_block",
             static_cast<double>(launch.facts.static_shared_bytes + launch.dynamic_shared_bytes), "byte",
             Trust::driver);
  report.add("device__attribute_multiprocessor_count", call.card.sm_count, "", Trust::driver);
  if (launch.facts.registers > 0) {
    report.add("launch__registers_per_thread", launch.facts.registers, "register", Trust::driver);
  } else {
    report.lack("launch__registers_per_thread", "the driver did not say");
  }
  report.add("static__local_bytes_per_thread", launch.facts.local_bytes, "byte", Trust::driver);
  report.add("static__max_threads_per_block", launch.facts.max_threads, "thread", Trust::driver);
  if (at_once > 0) report.add("launch__waves_per_multiprocessor", waves, "", Trust::derived);
  if (occupancy_percent > 0)
    report.add("sm__maximum_warps_per_active_cycle_pct", occupancy_percent, "%", Trust::derived);
  if (held.ours) report.add("static__ctas_per_sm_by_our_table", held.ours->ctas_per_sm, "block", Trust::derived);
  if (launch.sass) add_sass(report, *launch.sass);
  report.add("modelled__input_bytes", call.input_bytes, "byte", Trust::modelled);
  report.add("modelled__output_bytes", call.output_bytes, "byte", Trust::modelled);
  if (launch.event_seconds) report.add("event__time", 1e6 * *launch.event_seconds, "us", Trust::measured);

  // No card tells which CTAs did work. All of them are taken to: then the rules find a grid too small that would be too
  // small even so, and no other.
  const auto working_sms = std::min<std::int64_t>(ctas, call.card.sm_count);
  const Json fields = {{"kernel", launch.kernel},
                       {"name", launch.name.empty() ? launch.kernel : launch.name},
                       {"device", call.card.name},
                       {"counted_by", name_of(call.counted_by)},
                       {"grid", launch.grid},
                       {"block", launch.block},
                       {"sms", call.card.sm_count},
                       {"waves", waves},
                       {"waves_of_grid", waves},
                       {"working_ctas", ctas},
                       {"working_sms", working_sms},
                       {"working_ctas_are", "all of the grid: no card tells which did work"},
                       {"ctas_per_sm", held.ctas_per_sm},
                       {"occupancy_percent", occupancy_percent},
                       {"occupancy_limiter", held.ours ? std::string(name_of(held.ours->limited_by)) : ""}};
  return report.finished(fields, summary_of(call, launch, held, waves, occupancy_percent, counters));
}

// Where nobody counted instructions launches weigh by their time, and without a time all alike.
void weigh(const CardCall& call, std::vector<LaunchProfile>& launches) {
  double seconds = 0;
  bool all_timed = true;
  for (const CardLaunch& launch : call.launches) {
    all_timed = all_timed && launch.event_seconds.has_value();
    seconds += launch.event_seconds.value_or(0);
  }
  for (std::size_t i = 0; i < launches.size(); ++i)
    launches[i].share = all_timed && seconds > 0 ? *call.launches[i].event_seconds / seconds
                                                 : 1.0 / static_cast<double>(launches.size());
  weigh_by_instructions(launches);
}

}  // namespace

const char* name_of(CountedBy who) {
  switch (who) {
    case CountedBy::cupti:
      return "CUPTI";
    case CountedBy::ncu:
      return "ncu";
    case CountedBy::nobody:
      break;
  }
  return "nobody";
}

ProfileRun card_profile(const CardCall& call) {
  ProfileRun run{.project = call.project,
                 .device = call.device,
                 .workload = call.workload,
                 .image_hash = call.image_hash,
                 .counted_by = name_of(call.counted_by)};
  if (call.counted_by == CountedBy::nobody) {
    run.degraded = call.why_nobody.message.empty() ? "no counters were asked for" : call.why_nobody.message;
    run.degraded_fix = call.why_nobody.fix;
  }
  for (const CardLaunch& launch : call.launches) run.launches.push_back({.report = report_of(call, launch)});
  weigh(call, run.launches);
  if (call.event_seconds.value_or(0) > 0 && !run.launches.empty()) {
    const double bytes = call.input_bytes + call.output_bytes;
    run.launches.back().report.summary +=
        fmt::format("  the call    {:.2f} us by events; its tensors' {:.4g} B, each moved once, would be {:.4g} GB/s\n",
                    1e6 * *call.event_seconds, bytes, bytes / *call.event_seconds / 1e9);
  }
  return run;
}

}  // namespace flashmoe::workflow
