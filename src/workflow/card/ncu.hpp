// Counters of a card by NVIDIA's Nsight Compute: ncu runs the program that makes the call, and what it counted is read
// from its report by the package `ncu-report`, never from its text. Never run on a card: no ncu was there to take its
// command line; two sample reports that NVIDIA publishes (NVIDIA/nsight-training) were read.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/card/card_profile.hpp"

namespace flashmoe::workflow {

// On PATH, in CUDA_HOME and CUDA_PATH, in /usr/local/cuda, where NVIDIA's packages put it.
[[nodiscard]] Result<std::string> find_ncu();

struct NcuRequest {
  std::vector<std::string> command{};      // the program that makes one call; its children are looked at, too
  std::vector<std::string> environment{};  // "NAME=value"
  int sm = 0;                              // of the card: 89
  std::size_t launches = 1;                // so many are counted
  std::chrono::milliseconds limit{120'000};
};

// What is run: only the metrics that the rules and the report want, each launch repeated until all are counted, caches
// emptied before every repetition, clocks left as they are.
[[nodiscard]] std::vector<std::string> ncu_command(const std::string& ncu, const NcuRequest& request,
                                                   const std::string& report);

struct NcuReport {
  runtime::DeviceFacts card{};
  std::vector<CardLaunch> launches{};  // in their order
};

// `module_folders`: where else the package is looked for; ncu brings one of its own.
[[nodiscard]] Result<NcuReport> read_ncu_report(const std::string& report,
                                                const std::vector<std::string>& module_folders = {});

// Runs it and reads what it wrote. Locked counters are recognised, and say what the administrator must do.
[[nodiscard]] Result<NcuReport> run_ncu(const std::string& ncu, const NcuRequest& request, Progress& progress,
                                        const std::vector<std::string>& module_folders = {});

// The counters of a report for the launches of a call, which must be the same ones.
[[nodiscard]] Result<Done> take_counters(CardCall& call, const NcuReport& report);

}  // namespace flashmoe::workflow
