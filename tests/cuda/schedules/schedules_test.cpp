// Warps and CTAs run in any order on a GPU. The core set under many orders of the virtual one, natural and adversarial:
// every result right, no finding, and the same bits each time.
//
//   FMS_GPU_SCHEDULES=n   schedules in all
//   FMS_GPU_RUNS=n        runs of the same plan in one process
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <span>
#include <sstream>
#include <string>

#include "cuda/core_set.hpp"
#include "cuda/gpu_run.hpp"
#include "devices/device.hpp"
#include "support/environment.hpp"
#include "support/judge.hpp"
#include "support/sha256.hpp"

namespace flashmoe::testing {
namespace {

std::string digest_of(const AttentionCase& one) {
  const std::vector<uint8_t> bytes = one.output_bytes();
  return sha256_hex(std::as_bytes(std::span(bytes)));
}

// "name: digest" a line; "name! what is wrong" where it is.
std::string run_core_set(int runs) {
  const Gpu gpu;
  std::ostringstream lines;
  for (const CoreProblem& core : core_set()) {
    AttentionCase one = core.with_data();
    std::string first;
    for (int run = 0; run < runs; ++run) {
      one.reset_outputs();
      const RunResult result = gpu.run(one, &core.options);
      const auto findings = gpu.findings();
      const std::string digest = result.status == FMS_OK ? digest_of(one) : "";
      std::string wrong = result.status != FMS_OK ? to_string(result.error) : one.stray_write().value_or("");
      if (wrong.empty() && run == 0) wrong = judge(one, OracleAnswer(one)).complaint;
      if (wrong.empty() && !findings.empty()) wrong = findings.front().substr(0, 400);
      if (wrong.empty() && run > 0 && digest != first) wrong = "run " + std::to_string(run) + " gives other bits";
      if (!wrong.empty()) {
        lines << core.name << "! " << wrong << '\n';
        break;
      }
      if (run == 0) first = digest;
    }
    lines << core.name << ": " << first << '\n';
  }
  return lines.str();
}

// The virtual GPU reads its schedule when it is loaded, so each gets a process of its own.
std::string in_a_process(const std::string& device, const char* schedule, int seed, int runs) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe! no pipe\n";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    setenv("VGPU_DEVICE", device.c_str(), 1);
    setenv("VGPU_SCHEDULE", schedule, 1);
    setenv("VGPU_SEED", std::to_string(seed).c_str(), 1);
    setenv("VGPU_PTXAS", "off", 1);  // plans are forced: nobody needs the registers
    std::string said;
    try {
      said = run_core_set(runs);
    } catch (const std::exception& error) {
      said = std::string("the GPU! ") + error.what() + "\n";
    }
    std::size_t written = 0;
    while (written < said.size()) {
      const ssize_t now = write(ends[1], said.data() + written, said.size() - written);
      if (now <= 0) break;
      written += static_cast<std::size_t>(now);
    }
    _exit(written == said.size() ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t count = 0; (count = read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    said += "the process! ended with " + std::to_string(status) + "\n";
  return said;
}

void expect_one_answer(const std::string& device, int schedules, int runs) {
  std::map<std::string, std::string> digests;
  for (int i = 0; i < schedules; ++i) {
    const char* const schedule = i % 2 == 0 ? "natural" : "adversarial";
    const std::string where = device + ", " + schedule + " schedule, seed " + std::to_string(i) + ": ";
    std::istringstream lines(in_a_process(device, schedule, i, i == 0 ? runs : 1));
    std::size_t problems = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto colon = line.find(": "), mark = line.find("! ");
      if (mark < colon) {
        ADD_FAILURE() << where << line;
        continue;
      }
      ++problems;
      const auto [known, is_new] = digests.try_emplace(line.substr(0, colon), line.substr(colon + 2));
      if (!is_new) {
        EXPECT_EQ(known->second, line.substr(colon + 2)) << where << line;
      }
    }
    EXPECT_EQ(problems, core_set().size()) << where;
  }
}

TEST(Schedules, EveryOrderGivesTheSameBitsAndNoFinding) {
  expect_one_answer("l4", static_cast<int>(from_environment("FMS_GPU_SCHEDULES", 3)),
                    static_cast<int>(from_environment("FMS_GPU_RUNS", 2)));
}

TEST(Schedules, AlsoOnEveryOtherGpu) {
  for (const flashmoe::Gpu& other : all_gpus())
    if (other.id != "l4") expect_one_answer(std::string(other.id), other.id == "h100" ? 2 : 1, 1);
}

}  // namespace
}  // namespace flashmoe::testing
