#include "workflow/optimize/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/text.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/trial/snapshot.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Diagnostic wrong_shard(const std::string& message) {
  return {.message = message,
          .fix = "--shard 0/8 decides, --shard 1/8 to 8/8 count: docs/scale.md",
          .code = codes::usage_shard};
}

bool read_number(std::string_view text, int& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

// Usable records of this run and kind, oldest first.
Result<std::vector<Record>> records_of_run(const Journal& journal, const std::string& run, const std::string& kind) {
  const auto headings = journal.headings();
  if (!headings) return headings.error();
  std::vector<Record> records;
  for (const Heading& heading : *headings) {
    if (heading.run != run || heading.kind != kind || !is_usable(heading)) continue;
    auto record = journal.load(heading);
    if (!record) return record.error();
    records.push_back(std::move(*record));
  }
  return records;
}

bool knows(const Project& project, const std::string& commit) {
  return static_cast<bool>(run_git(project.directory, {"cat-file", "-e", commit + "^{commit}"}));
}

// Makes commits that another clone made first: each follows from its parent and its files.
class Commits {
 public:
  Commits(const Project& project, const std::vector<Record>& batches) : project_(project) {
    for (const Record& record : batches) {
      const auto* batch = record.as<BatchRecord>();
      if (batch == nullptr) continue;
      for (const BatchCandidate& candidate : batch->candidates)
        origins_[candidate.commit] = {batch->parent, &candidate};
    }
  }

  Result<Done> make(const std::string& commit) {
    if (knows(project_, commit)) return Done{};
    const auto origin = origins_.find(commit);
    if (origin == origins_.end()) {
      return Diagnostic{.message = fmt::format("commit {} is not here, and no batch tells how to make it", commit),
                        .fix = "clone the repository that the run started in, at the commit it started from",
                        .code = codes::usage_version};
    }
    const Origin from = origin->second;
    origins_.erase(origin);  // a circle ends
    if (const auto parent = make(from.parent); !parent) return parent.error();
    const auto made = snapshot_of(project_, from.parent, from.candidate->files);
    if (!made) return made.error();
    if (made->commit == commit) return Done{};
    return Diagnostic{.message = fmt::format("commit {} comes out as {} here", commit, made->commit),
                      .fix = "the journal's batch is not as shard 0 wrote it: cudadent journal --check",
                      .code = codes::journal_changed};
  }

 private:
  struct Origin {
    std::string parent;
    const BatchCandidate* candidate;
  };
  const Project& project_;
  std::map<std::string, Origin> origins_{};
};

Record record_of(const Candidate& candidate, const Counted& counted, std::uint64_t seed, Record head) {
  head.commit = candidate.change.commit;
  head.verdict = counted.cycles > 0 ? "counted" : "not counted";
  head.body = CountRecord{
      .candidate = candidate.change.commit,
      .hypothesis = candidate.proposal.hypothesis,
      .seed = seed,
      .cycles = counted.cycles,
      .predicted = counted.predicted,
      .counters = counted.counters,
      .summary = counted.cycles > 0
                     ? fmt::format("{}: {:.6g} cycles at least", candidate.proposal.hypothesis, counted.cycles)
                     : candidate.proposal.hypothesis + ": does not build, run or hold"};
  return head;
}

// As many at a time as there are cores, each group on record before the next.
Result<std::size_t> count_and_record(const Counting& counting, Journal& journal, const Record& head,
                                     const std::vector<Candidate>& share) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::size_t done = 0;
  while (done < share.size() && !interrupted()) {
    const auto began = std::chrono::steady_clock::now();
    const auto first = share.begin() + static_cast<std::ptrdiff_t>(done);
    const std::vector<Candidate> group(first,
                                       first + static_cast<std::ptrdiff_t>(std::min(cores, share.size() - done)));
    CountedVersions counted;
    count_candidates(counting, group, counted);
    const double seconds = seconds_since(began) / static_cast<double>(group.size());
    for (const Candidate& candidate : group) {
      const auto found = counted.find(candidate.change.commit);
      if (found == counted.end() || interrupted()) return done;
      Record record = record_of(candidate, found->second, counting.seed, head);
      record.seconds = seconds;
      if (const auto written = journal.append(std::move(record)); !written) return written.error();
      ++done;
    }
  }
  return done;
}

}  // namespace

Result<Shard> parse_shard(const std::string& text) {
  Shard shard;
  const std::size_t slash = text.find('/');
  const std::string_view all = text;
  const bool reads = slash != std::string::npos && read_number(all.substr(0, slash), shard.index) &&
                     read_number(all.substr(slash + 1), shard.count);
  if (!reads || shard.count < 1 || shard.index < 0 || shard.index > shard.count)
    return wrong_shard(fmt::format("'{}' is no shard", text));
  return shard;
}

Result<Done> check_shared(const OptimizeRequest& request, const DeviceSelector& device) {
  if (has_clock(device)) {
    return wrong_shard(
        fmt::format("{} is timed, and times of several machines decide nothing together: "
                    "only what a virtual device counts can be shared",
                    device.to_string()));
  }
  if (request.run.empty() || request.seed == 0)
    return wrong_shard("all shards have to agree on the run and its inputs: give --run and --seed");
  if (request.propose) return wrong_shard("only the rules and the search draw batches: no --agent and no --ask");
  return Done{};
}

Result<CountedVersions> recorded_counts(const Journal& journal, const OptimizeRequest& request,
                                        const std::string& device) {
  const auto records = records_of_run(journal, request.run, CountRecord::kind);
  if (!records) return records.error();
  CountedVersions counted;
  for (const Record& record : *records) {
    const auto* count = record.as<CountRecord>();
    if (count == nullptr || record.device != device || count->seed != request.seed) continue;
    counted.emplace(count->candidate, Counted{.cycles = count->cycles,
                                              .predicted = count->predicted,
                                              .counters = {count->counters.begin(), count->counters.end()}});
  }
  return counted;
}

Result<Done> record_batch(Journal& journal, Record head, const std::vector<Candidate>& candidates,
                          const std::string& parent, std::uint64_t seed) {
  BatchRecord batch{
      .parent = parent, .seed = seed, .summary = fmt::format("{} candidates wait to be counted", candidates.size())};
  for (const Candidate& candidate : candidates) {
    batch.candidates.push_back({.commit = candidate.change.commit,
                                .hypothesis = candidate.proposal.hypothesis,
                                .files = candidate.proposal.files});
  }
  const auto earlier = records_of_run(journal, head.run, BatchRecord::kind);
  if (!earlier) return earlier.error();
  if (!earlier->empty() && *earlier->back().as<BatchRecord>() == batch) return Done{};
  head.body = std::move(batch);
  const auto written = journal.append(std::move(head));
  if (!written) return written.error();
  return Done{};
}

Result<ShardReport> count_share(const OptimizeRequest& request) {
  const auto began = std::chrono::steady_clock::now();
  const auto project = load_project(request.project);
  if (!project) return project.error();
  const auto device = select_device(request.device);
  if (!device) return device.error();
  if (const auto available = device_available(*device); !available) return available.error();
  if (const auto shared = check_shared(request, *device); !shared) return shared.error();
  const auto rules = rules_for(*project);
  if (!rules) return rules.error();
  Journal journal(project->directory);
  ShardReport report{.run = request.run, .device = device->to_string(), .shard = *request.shard};
  const auto batches = records_of_run(journal, request.run, BatchRecord::kind);
  if (!batches) return batches.error();
  const auto known = recorded_counts(journal, request, report.device);
  if (!known) return known.error();
  report.next = fmt::format("cudadent optimize --shard 0/{} --run {} --seed {} --device {}", report.shard.count,
                            shell_word(request.run), request.seed, report.device);
  if (batches->empty()) return report;
  const BatchRecord& batch = *batches->back().as<BatchRecord>();
  report.batch = batch.candidates.size();
  Commits commits(*project, *batches);
  std::vector<Candidate> share;
  for (std::size_t i = 0; i < batch.candidates.size(); ++i) {
    const BatchCandidate& one = batch.candidates[i];
    if (known->contains(one.commit)) continue;
    ++report.open;
    if (i % static_cast<std::size_t>(report.shard.count) + 1 != static_cast<std::size_t>(report.shard.index)) continue;
    if (const auto made = commits.make(one.commit); !made) return made.error();
    share.push_back({.proposal = {.hypothesis = one.hypothesis}, .change = {.commit = one.commit}});
  }
  Record head;
  head.run = request.run;
  head.project = project->name;
  head.dirty = false;
  head.device = report.device;
  const auto counted = count_and_record({*project, *device, *rules, request.seed, request.quiet}, journal, head, share);
  if (!counted) return counted.error();
  report.counted = *counted;
  report.open -= *counted;
  report.seconds = seconds_since(began);
  return report;
}

}  // namespace flashmoe::workflow
