// What a virtual GPU leaves behind for its controller: a file with one JSON object per launch, findings and counters.
// Launches that were counted on a card have the same form (workflow/card).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

// A name for such a file; the file is removed with it.
class ReportFile {
 public:
  ReportFile();
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// An instruction that took part in a finding, and the thread that ran it.
struct ReportedParty {
  std::string what{};         // "write of 4 bytes"
  std::string source_file{};  // empty: the image has no line information
  int source_line = 0;
  int ptx_line = 0;
  std::string instruction{};
  std::string block = "?", thread = "?";     // "[0,0,0]"
  [[nodiscard]] std::string place() const;   // "kernel.cu:41", or the PTX line
  [[nodiscard]] std::string runner() const;  // "block [0,0,0] thread [3,0,0]"
};

// The memory that a finding is about.
struct ReportedBuffer {
  std::string what{};  // "cuMemAlloc #3"
  std::int64_t offset = 0;
  std::optional<std::size_t> argument{};  // of the kernel, that points into it
};

struct ReportedFinding {
  std::string check{};  // "memcheck"
  std::string cause{};  // "access", "order", "lanes", "value", "standstill": the earlier explains the later
  std::string kernel{};
  std::string message{};
  std::string advice{};
  std::optional<ReportedParty> at{}, other{};
  std::optional<ReportedBuffer> buffer{};
  std::string json{};  // as reported
};

struct ReportedLine {
  std::string file{};
  int line = 0;
  double instructions = 0;  // PTX, executed by warps
  double shared_bank_conflicts = 0;
  double global_sectors = 0, global_sectors_ideal = 0;
};

struct LaunchReport {
  std::string kernel{};    // its symbol; empty: what the context says at its end
  std::string name{};      // as it stands in the source
  std::string fault{};     // why the launch did not end
  std::string refused{};   // why there was none; nothing else is known then
  std::string schedule{};  // "natural", "adversarial"
  std::uint64_t seed = 0;  // of it
  std::vector<std::int64_t> grid{};
  double sms = 0;
  double waves = 0;                  // of CTAs that did work
  double waves_of_grid = 0;          // of all CTAs, whatever they do
  double working_ctas = 0;           // what that is: vgpu/observe/counters/work_spread.hpp
  double working_sms = 0;            // that ran one of them
  double largest_cta_over_mean = 0;  // instructions
  double occupancy_percent = 0, ctas_per_sm = 0;
  std::string occupancy_limiter{};
  std::map<std::string, double> metrics{};
  // Metrics and fields of this that nobody counted, and why: never to be taken for 0. A virtual GPU counts everything.
  std::map<std::string, std::string> missing{};
  std::vector<ReportedLine> source_lines{};
  std::string summary{};
  std::vector<std::string> annotated_sources{};
  std::vector<ReportedFinding> findings{};
  std::string json{};  // as reported, with everything that is not read here

  [[nodiscard]] std::int64_t ctas() const;
  [[nodiscard]] double instructions() const;  // PTX, executed by warps
};

// One launch, from its JSON; what is none is a launch without a kernel.
[[nodiscard]] LaunchReport read_launch(const std::string& json);
// The launches in the order they were made; lines that do not read are left out.
[[nodiscard]] std::vector<LaunchReport> read_launches(const std::string& path);
// Behind the last of those that are there, for the next call: a report goes on where an earlier run ended.
[[nodiscard]] std::uint64_t end_of_report(const std::string& path);
// Those behind `from`, which is moved behind the last.
[[nodiscard]] std::vector<LaunchReport> read_launches(const std::string& path, std::uint64_t& from);

}  // namespace flashmoe::workflow
