#include "workflow/card/call_on_card.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/cupti.hpp"
#include "workflow/card/counters_map.hpp"
#include "workflow/card/counting.hpp"
#include "workflow/runner/call_count.hpp"
#include "workflow/runner/judge_call.hpp"
#include "workflow/runner/session.hpp"

namespace flashmoe::workflow {
namespace {

using std::chrono::milliseconds;

// Set for the process that ncu runs: it only makes the call.
constexpr const char* no_counters_variable = "CUDADENT_NO_COUNTERS";
constexpr milliseconds cupti_limit{120'000};

// ncu runs this very program once more, over the same call.
Result<NcuReport> count_by_ncu(const Project& project, const DeviceSelector& device, const CountedCall& call,
                               const CardCall& card, Progress& progress) {
  const auto ncu = find_ncu();
  if (!ncu) return ncu.error();
  std::vector<std::string> command = worker_command();
  command.pop_back();
  command.insert(command.end(),
                 {"profile", project.directory, "--device", device.to_string(), "--workload", call.workload.name,
                  "--seed", std::to_string(call.seed), "--debug", "--no-record", "--quiet"});
  return run_ncu(*ncu,
                 {.command = std::move(command),
                  .environment = {fmt::format("{}=1", no_counters_variable)},
                  .sm = card.card.sm,
                  .launches = card.launches.size()},
                 progress);
}

Result<std::vector<std::map<std::string, double>>> count_by_cupti(Session& session, int sm) {
  const auto cupti = runtime::Cupti::find();
  if (!cupti) return cupti.error();
  const auto counted = session.count(wanted_card_metrics(sm), (*cupti)->library(), cupti_limit);
  if (!counted) return counted.error();
  if (!counted->not_counted.message.empty()) return counted->not_counted;
  std::vector<std::map<std::string, double>> launches;
  for (const LaunchCount& launch : counted->launches) launches.push_back(launch.counted);
  return launches;
}

}  // namespace

Result<ProfileRun> profile_call_on_card(const Project& project, const DeviceSelector& device, const CountedCall& call,
                                        Progress& progress) {
  const bool rehearsal = device.kind == DeviceKind::rehearsal;
  Session session;
  if (const RunError error = session.start(project, call.kernel, true); error.failure != Failure::none)
    return could_not_profile(error);
  if (const RunError error = session.bind(project, call.workload.values, call.workload.name, 1);
      error.failure != Failure::none)
    return could_not_profile(error);
  session.fill(0, call.seed);
  session.seal_inputs_and_poison();
  const milliseconds limit(static_cast<long>(project.call_limit_seconds * call.kernel.limit_factor * 1e3));
  if (const Block block = session.run(0, 1, limit); !block.ok()) return could_not_profile(block.error);
  std::vector<Finding> findings;
  if (call.reference != nullptr) {
    auto wrong = wrong_output(project, call.workload, session, *call.reference);
    if (!wrong) return wrong.error();
    if (*wrong) findings.push_back(std::move(**wrong));
  }

  const auto known = session.count({}, "", limit);
  if (!known) return known.error();
  const auto launches = call.kernel.launches(call.workload.values);
  if (!launches) return launches.error();
  CardCall card{.project = project.name,
                .device = device.to_string(),
                .workload = call.workload.name,
                .image_hash = call.kernel.content_hash,
                .card = known->card,
                .input_bytes = static_cast<double>(session.layout().input_bytes),
                .output_bytes = static_cast<double>(session.layout().output_bytes)};
  for (std::size_t i = 0; i < launches->size(); ++i) {
    const Launch& launch = (*launches)[i];
    CardLaunch made{.kernel = launch.kernel,
                    .grid = launch.grid,
                    .block = launch.block,
                    .dynamic_shared_bytes = launch.shared_bytes};
    if (i < known->launches.size()) made.facts = known->launches[i].facts;
    const std::string cubin =
        std::filesystem::path(call.kernel.images[launch.image].path).replace_extension("cubin").string();
    if (const auto sass = static_sass_of(cubin, launch.kernel)) made.sass = *sass;
    card.launches.push_back(std::move(made));
  }
  if (!rehearsal) {
    session.seal_inputs_and_poison();
    if (const Block timed = session.time(1, Timing::kernel, limit); timed.ok()) card.event_seconds = timed.card_seconds;
  }
  Counting counting;
  if (rehearsal) {
    counting.by_cupti = [] {
      return Result<std::vector<std::map<std::string, double>>>(
          Diagnostic{.message = "a rehearsal has no card whose counters could be read"});
    };
  } else if (std::getenv(no_counters_variable) == nullptr) {
    counting.by_cupti = [&] { return count_by_cupti(session, card.card.sm); };
    counting.by_ncu = [&] {
      session.stop();
      return count_by_ncu(project, device, call, card, progress);
    };
  }
  ProfileRun run = profile_on_card(card, counting);
  run.findings = std::move(findings);
  return run;
}

}  // namespace flashmoe::workflow
