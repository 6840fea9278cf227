// A prediction as people read it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "workflow/predict/prediction.hpp"

namespace flashmoe::workflow {
namespace {

std::string time_text(const predict::Time& time) {
  const int decimals = time.most_us < 100 ? 2 : time.most_us < 1000 ? 1 : 0;
  return fmt::format("{:.{}f} us ({:.{}f} to {:.{}f})", time.us, decimals, time.least_us, decimals, time.most_us,
                     decimals);
}

std::string uses_text(const predict::Prediction& prediction) {
  std::string text;
  for (const predict::PipeUse& one : prediction.uses) {
    if (one.use < 0.01) continue;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", one.name, 100 * one.use);
  }
  return text;
}

std::string waits_text(const LaunchPrediction& launch) {
  const auto waits = launch.waits();
  double total = 0;
  for (const double cycles : waits) total += cycles;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < waits.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return waits[a] > waits[b]; });
  std::string text;
  for (const std::size_t i : order) {
    if (total == 0 || waits[i] / total < 0.01) break;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name_of(static_cast<predict::Stall>(i)),
                        100 * waits[i] / total);
  }
  return text;
}

std::string launch_text(const LaunchPrediction& launch) {
  const predict::Prediction& one = launch.prediction;
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<14}{}\n", name, value);
  };
  for (const std::string& refusal : one.refusals) row("not predicted", refusal);
  row("cycles", fmt::format("{:.0f} of the SM clock; a CTA alone {:.0f}, with {} on an SM {:.0f}", one.cycles,
                            one.cta_alone, one.occupancy.ctas_per_sm, one.cta_resident));
  row("grid", fmt::format("{} CTAs, {:.2f} waves; {}", launch.report.ctas(), one.waves, one.occupancy.limiter));
  row("limited by", one.limiter);
  row("in use", uses_text(one));
  row("warps wait", waits_text(launch));
  // No time that somebody might quote.
  if (launch.is_predicted()) row("at boost", time_text(one.boost));
  if (launch.is_predicted() && one.sustained.us > 0) row("sustained", time_text(one.sustained));
  if (one.launch.stream_us.known())
    row("launch adds", fmt::format("{} us in a stream, {} us in a graph ({})", one.launch.stream_us.value,
                                   one.launch.graph_us.value, one.launch.stream_us.standing()));
  row("path", fmt::format("{:.1f} % of the executed instructions unmatched", 100 * launch.unmatched_weight));
  for (const std::string& doubt : one.doubts) row("doubt", doubt);
  return text;
}

// Ten per cent of the cycles are one full block.
std::string bar(double share) {
  const auto halves = static_cast<int>(std::lround(20 * share));
  std::string text;
  for (int i = 0; i < halves / 2; ++i) text += "█";
  return halves % 2 != 0 ? text + "▌" : text;
}

std::size_t shown_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string line_text(const LinePressure* pressure, int number, const std::string& source) {
  if (pressure == nullptr || pressure->share < 0.0005) return fmt::format("{:>6} {:<36}| {}\n", number, "", source);
  const std::string shown = bar(pressure->share);
  const std::string blanks(6 - std::min<std::size_t>(6, shown_width(shown)), ' ');
  return fmt::format("{:>6} {:>5.1f} % {}{} {:<20}| {}\n", number, 100 * pressure->share, shown, blanks,
                     name_of(pressure->mostly()), source);
}

// Sources that are still where the compiler saw them; of others the lines that count.
std::string pressure_text(const LaunchPrediction& launch) {
  std::map<std::string, std::vector<const LinePressure*>> by_file;
  for (const LinePressure& line : launch.lines) by_file[line.file].push_back(&line);
  std::string text = "Cycles of warps by source line, and what they mostly wait for (predicted)\n";
  for (const auto& [file, lines] : by_file) {
    double share = 0;
    for (const LinePressure* line : lines) share += line->share;
    if (file.empty()) {
      text += fmt::format("  {:.1f} % of the cycles belong to no line\n", 100 * share);
      continue;
    }
    if (share < 0.05) {  // the toolkit's own headers would bury the kernel
      text += fmt::format("  {:.1f} % in {}\n", 100 * share, file);
      continue;
    }
    text += fmt::format("\n{}\n", file);
    std::ifstream source(file);
    int number = 0;
    auto next = lines.begin();
    for (std::string line; std::getline(source, line);) {
      ++number;
      while (next != lines.end() && (*next)->line < number) ++next;
      text += line_text(next != lines.end() && (*next)->line == number ? *next : nullptr, number, line);
    }
    if (number == 0)
      for (const LinePressure* line : lines) text += line_text(line, line->line, "");
  }
  return text;
}

}  // namespace

std::string prediction_summary(const PredictionRun& run) {
  for (const LaunchPrediction& launch : run.launches)
    if (!launch.is_predicted()) return "not predicted: " + launch.prediction.refusals.front();
  const LaunchPrediction* const longest = run.longest();
  return fmt::format("predicted {} at boost, limited by {}", time_text(run.boost()),
                     longest == nullptr ? "nothing" : longest->prediction.limiter);
}

std::string prediction_text(const PredictionRun& run, const PredictionView& view) {
  const std::string workload = run.workload.empty() ? "" : ", workload " + run.workload;
  std::string text = fmt::format("{}{}, on {}\n\n", run.project, workload, run.device);
  for (const LaunchPrediction& launch : run.launches) {
    text += run.launches.size() > 1 ? fmt::format("Launch {} of {}: {}\n", &launch - run.launches.data() + 1,
                                                  run.launches.size(), launch.report.name)
                                    : launch.report.name + "\n";
    text += launch_text(launch) + "\n";
    if (view.lines) text += pressure_text(launch) + "\n";
  }
  if (run.launches.size() > 1 && run.is_predicted())
    text += fmt::format("All launches: {:.0f} cycles, {} at boost{}\n", run.cycles(), time_text(run.boost()),
                        run.sustained().us > 0 ? ", " + time_text(run.sustained()) + " at the sustained clock" : "");
  text += "Predicted from the SASS and the path of a virtual run; nothing was measured, and no GPU has run it.\n";
  return text;
}

}  // namespace flashmoe::workflow
