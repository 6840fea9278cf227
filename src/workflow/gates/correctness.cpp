#include "workflow/gates/correctness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/sha256.hpp"
#include "workflow/card/sanitizer.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/gates/context.hpp"
#include "workflow/gates/diagnose.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/gates/stopped.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/schedules.hpp"
#include "workflow/runner/blind_spot.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/judge.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// References are written to be readable, not fast.
constexpr milliseconds reference_limit{120'000};

class Checker {
 public:
  Checker(const Project& project, const CorrectnessOptions& options, GateResult& result)
      : project_(project), options_(options), result_(result), facts_(result.facts_as<CorrectnessFacts>()) {
    facts_.seed = options.seed;
  }

  bool start(const Runnable& kernel, const Runnable& reference) {
    kernel_runnable_ = kernel;
    reference_runnable_ = reference;
    // The reference first: it never runs beside a kernel that has started.
    return ready(reference_.start(project_, reference, true), "reference", true) &&
           ready(kernel_.start(project_, kernel, false), "kernel", false);
  }

  // False when the gate is decided.
  bool check(const CorrectnessCase& one) {
    if (!ready(reference_.bind(project_, one.values, one.name, 1, true), one.name, true)) return false;
    if (!ready(kernel_.bind(project_, one.values, one.name, 1, true), one.name, false)) return false;
    std::vector<Expectation> expectations(static_cast<std::size_t>(one.repeats));
    for (Expectation& expectation : expectations) {
      expectation.seed = mix_seed(mix_seed(options_.seed, ++calls_), 5);
      if (!ask_reference(one, expectation)) return false;
    }
    if (one.hard.empty() && !tolerance_sees(one, expectations)) return false;
    double max_diff = 0;
    for (const Expectation& expectation : expectations) {
      if (!check_call(one, expectation, max_diff)) return false;
    }
    if (one.repeats > 1 && !report_nondeterminism(one)) return false;
    result_.findings.push_back(
        {.severity = Severity::ok, .group = one.name, .what = fmt::format("right, max_diff {:.3g}", max_diff)});
    facts_.cases.push_back({.name = one.name, .values = one.values, .max_diff = max_diff});
    return true;
  }

  // Where a call repeats itself other schedules stand in the place of repeats.
  bool check_schedules(const std::vector<CorrectnessCase>& cases) {
    if (!options_.schedules) return true;
    std::vector<Scheduled> scheduled;
    for (const CorrectnessCase& one : smaller_cases(project_, cases)) {
      scheduled.push_back(
          {.one = one, .expectation = {mix_seed(mix_seed(options_.seed, ++calls_), 5), {}}, .bits = {}});
      Scheduled& made = scheduled.back();
      if (!ready(reference_.bind(project_, one.values, one.name, 1, true), one.name, true)) return false;
      if (!ask_reference(one, made.expectation) || !run_call(kernel_, one, made.expectation, made.bits)) return false;
    }
    for (const VirtualSchedule& schedule : virtual_schedules(options_.seed)) {
      schedule_ = schedule.name;
      Session session;
      if (!ready(session.start(project_, under_schedule(kernel_runnable_, schedule), false), "kernel", false))
        return false;
      for (const Scheduled& made : scheduled) {
        Tensors got;
        double max_diff = 0;
        if (!ready(reference_.bind(project_, made.one.values, made.one.name, 1, true), made.one.name, true))
          return false;
        if (!run_call(session, made.one, made.expectation, got)) return false;
        if (!judge_call(made.one, made.expectation, got, max_diff)) return false;
        report_differing_bits(made.one, made.bits, got, "under schedule " + schedule.name);
      }
      facts_.schedules.push_back(schedule.name);
    }
    schedule_.clear();
    return true;
  }

  // The files that say what is right must be the ones from before the kernel ran.
  bool check_files() {
    for (const Runnable* runnable : {&reference_runnable_, &kernel_runnable_}) {
      const auto hash = sha256_of_file(runnable->library);
      if (hash && *hash == runnable->content_hash) continue;
      fail(Outcome::fails, codes::kernel_changed_files, runnable->label,
           fmt::format("{} changed while the kernel ran: SHA-256 was {}", runnable->library, runnable->content_hash),
           "a kernel writes to its outputs and to nothing else; build again from clean sources");
      return false;
    }
    return true;
  }

 private:
  struct Expectation {
    std::uint64_t seed = 0;
    Tensors outputs;
  };

  struct Scheduled {
    CorrectnessCase one;
    Expectation expectation;
    Tensors bits;  // under the gate's own schedule
  };

  void fail(Outcome outcome, const char* code, const std::string& group, const std::string& what,
            const std::string& fix, const std::string& where = {}) {
    result_.outcome = outcome;
    result_.code = code;
    result_.summary = fmt::format("{}: {}", group, what);
    result_.findings.push_back(
        {.severity = Severity::error, .group = group, .what = what, .where = where, .fix = fix, .code = code});
  }

  // A reference that cannot run is no verdict on the kernel.
  bool ready(const RunError& error, const std::string& group, bool of_reference) {
    if (error.failure == Failure::none) return true;
    if (interrupted()) {
      mark_stopped(result_);
      return false;
    }
    const char* code = of_reference ? codes::reference_failed : kernel_code(error.failure);
    const bool judged = row_of(code).exit == ExitCode::fails;
    fail(judged ? Outcome::fails : Outcome::could_not_run, code, group, error.diagnostic.message, error.diagnostic.fix);
    facts_.failure = name_of(error.failure);
    return false;
  }

  bool ask_reference(const CorrectnessCase& one, Expectation& expectation) {
    reference_.fill(0, expectation.seed, one.hard);
    reference_.seal_inputs_and_poison();
    if (!ready(reference_.run(0, 1, reference_limit).error, one.name, true)) return false;
    expectation.outputs = copy_outputs(reference_, 0);
    return reference_wrote_all(one, expectation.outputs);
  }

  // Before the kernel is judged: a tolerance that accepts what is plainly wrong says nothing.
  bool tolerance_sees(const CorrectnessCase& one, const std::vector<Expectation>& expectations) {
    const auto& tensors = reference_.layout().tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].role != TensorRole::output) continue;
      const Tensors* other = expectations.size() > 1 ? &expectations.back().outputs : nullptr;
      const auto blind = find_blind_spot(tensors[i], expectations.front().outputs[i],
                                         other ? std::span<const std::byte>((*other)[i]) : std::span<const std::byte>(),
                                         project_.tensors[i].tolerance);
      if (!blind) continue;
      fail(Outcome::could_not_run, codes::correctness_blind_tolerance, one.name,
           fmt::format("the tolerance of '{}' (absolute {:.3g}, relative {:.3g}) accepts {} in workload {}: it cannot "
                       "tell right from wrong",
                       tensors[i].name, blind->accepted.absolute, blind->accepted.relative, blind->accepts, one.name),
           fmt::format("write absolute = {:.2g}, relative = {:.2g} for '{}' in cudadent.toml, or leave both out: they "
                       "then follow from the type and the size of the results",
                       blind->needed.absolute, blind->needed.relative, tensors[i].name),
           fmt::format("{}:{}", project_.file, project_.tensors[i].line));
      facts_.failure = "blind tolerance";
      return false;
    }
    return true;
  }

  // Binds and calls.
  bool run_call(Session& session, const CorrectnessCase& one, const Expectation& expectation, Tensors& got) {
    const std::string group = schedule_.empty() ? one.name : fmt::format("{} under schedule {}", one.name, schedule_);
    if (!ready(session.bind(project_, one.values, one.name, 1, true), group, false)) return false;
    session.fill(0, expectation.seed, one.hard);
    session.seal_inputs_and_poison();
    if (!ready(session.run(0, 1, kernel_limit()).error, group, false)) return false;
    got = copy_outputs(session, 0);
    return ready(session.audit(), group, false);
  }

  bool check_call(const CorrectnessCase& one, const Expectation& expectation, double& max_diff) {
    kernel_.fill(0, expectation.seed, one.hard);
    kernel_.seal_inputs_and_poison();
    if (!ready(kernel_.run(0, 1, kernel_limit()).error, one.name, false)) return false;
    const Tensors got = copy_outputs(kernel_, 0);
    if (!ready(kernel_.audit(), one.name, false)) return false;
    return judge_call(one, expectation, got, max_diff);
  }

  // The same inputs once more. Sums in another order are honest; whoever bisects by bits wants to know of them.
  bool report_nondeterminism(const CorrectnessCase& one) {
    if (options_.schedules) return true;  // it would repeat itself
    const Tensors first = copy_outputs(kernel_, 0);
    kernel_.seal_inputs_and_poison();
    if (!ready(kernel_.run(0, 1, kernel_limit()).error, one.name, false)) return false;
    report_differing_bits(one, first, copy_outputs(kernel_, 0), "between two calls with the same inputs");
    return true;
  }

  void report_differing_bits(const CorrectnessCase& one, const Tensors& first, const Tensors& second,
                             const std::string& when) {
    const auto& tensors = reference_.layout().tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].role != TensorRole::output) continue;
      const Judgement same = judge(tensors[i], first[i], second[i], {});
      if (same.ok()) continue;
      result_.findings.push_back(
          {.severity = Severity::warning,
           .group = one.name,
           .what = fmt::format("not the same bits twice: {} of {} elements of '{}' differ {}, by at most {:.3g}",
                               same.wrong, same.count, same.tensor, when, same.max_diff),
           .fix = "fix the order of sums and atomics if results must be reproducible; else nothing",
           .code = codes::correctness_not_same_bits});
    }
  }

  milliseconds kernel_limit() const {
    return milliseconds(static_cast<long>(project_.call_limit_seconds * kernel_runnable_.limit_factor * 1e3));
  }

  bool reference_wrote_all(const CorrectnessCase& one, const Tensors& expected) {
    const auto& tensors = reference_.layout().tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].role != TensorRole::output) continue;
      const auto position = find_unwritten(tensors[i], expected[i]);
      if (!position) continue;
      fail(Outcome::could_not_run, codes::correctness_reference_incomplete, one.name,
           fmt::format("the reference left {}{} unwritten in workload {}", tensors[i].name, coordinates_text(*position),
                       one.name),
           "write every output in the reference (Python: in place, or return a dict)");
      return false;
    }
    return true;
  }

  std::string place_of(const CorrectnessCase& one, const Judgement& wrong) const {
    std::string place = fmt::format("workload {}, {}{}", one.name, wrong.tensor, coordinates_text(wrong.first_wrong));
    if (!schedule_.empty()) place += fmt::format(", under schedule {}", schedule_);
    if (options_.repeat_with != 0)
      place += fmt::format("; the same inputs{} again: --seed {}", schedule_.empty() ? "" : " and schedules",
                           options_.repeat_with);
    return place;
  }

  bool judge_call(const CorrectnessCase& one, const Expectation& expectation, const Tensors& got, double& max_diff) {
    const auto& tensors = reference_.layout().tensors;
    WrongResult wrong{reference_.layout(), expectation.outputs, got, {}, one.hard == "huge" || one.hard == "large"};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].role != TensorRole::output) continue;
      Judgement judgement =
          judge(tensors[i], expectation.outputs[i], got[i], project_.tensors[i].tolerance, wrong.magnitude_matters);
      max_diff = larger_difference(max_diff, judgement.max_diff);
      if (!judgement.ok()) wrong.judgements.push_back(std::move(judgement));
    }
    if (wrong.judgements.empty()) return true;
    const Judgement& first = wrong.judgements.front();
    reference_.fill(0, expectation.seed, one.hard);  // hypotheses are tried on the same inputs
    const Diagnosis diagnosis = diagnose(project_, wrong, reference_);
    result_.outcome = Outcome::fails;
    result_.code = codes::correctness_wrong_result;
    result_.summary = fmt::format("wrong in workload {}{}: {}", one.name,
                                  schedule_.empty() ? "" : " under schedule " + schedule_, diagnosis.cause);
    result_.findings.push_back({.severity = Severity::error,
                                .group = one.name,
                                .what = describe(first),
                                .where = place_of(one, first),
                                .fix = fmt::format("{}: {}", diagnosis.cause, diagnosis.fix),
                                .code = result_.code});
    facts_.failure = "wrong";
    facts_.wrong = WrongFacts{.case_name = one.name,
                              .values = one.values,
                              .input_seed = expectation.seed,
                              .tensor = first.tensor,
                              .position = first.first_wrong,
                              .expected = first.expected,
                              .got = first.got,
                              .max_diff = first.max_diff,
                              .wrong = first.wrong,
                              .unwritten = first.unwritten,
                              .count = first.count,
                              .schedule = schedule_};
    facts_.diagnosis = diagnosis;
    return false;
  }

  const Project& project_;
  const CorrectnessOptions& options_;
  GateResult& result_;
  CorrectnessFacts& facts_;  // of the result
  Runnable kernel_runnable_;
  Runnable reference_runnable_;
  Session kernel_;
  Session reference_;
  std::uint64_t calls_ = 0;
  std::string schedule_;  // other than the gate's own, while it is tried
};

// What the checks of a virtual GPU found is a failure, also where the numbers came out right.
void add_virtual_findings(VirtualFindings found, GateResult& result) {
  for (const auto* const some : {&found.findings, &found.warnings})
    result.findings.insert(result.findings.end(), some->begin(), some->end());
  auto& facts = result.facts_as<CorrectnessFacts>();
  facts.virtual_faults = std::move(found.faults);
  facts.virtual_findings = std::move(found.as_reported);
  if (found.first.empty()) return;
  // A wrong result or a fault came first and said so; the finding says why.
  const bool failed_before = result.outcome == Outcome::fails;
  result.summary = failed_before ? fmt::format("{} ({})", found.first, result.summary) : found.first;
  result.code = check_code(std::string_view(found.first).substr(0, found.first.find(':')));
  result.outcome = Outcome::fails;
}

}  // namespace

GateResult run_correctness_gate(const Project& project, const Runnable& kernel, const Runnable& reference,
                                const CorrectnessOptions& options, Progress& progress) {
  const auto start = Clock::now();
  GateResult result;
  result.gate = CorrectnessFacts::gate;
  const auto cases = correctness_cases(project, options.seed);
  Checker checker(project, options, result);
  bool going = checker.start(kernel, reference);
  std::size_t done = 0;
  for (; going && done < cases.size(); ++done) {
    if (interrupted()) {
      mark_stopped(result);
      going = false;
      break;
    }
    if (seconds_since(start) > options.limit_seconds) {
      result.outcome = Outcome::inconclusive;
      result.code = codes::correctness_out_of_time;
      result.summary = fmt::format("{} of {} cases right, then the limit of {:.0f} s passed", done, cases.size(),
                                   options.limit_seconds);
      result.findings.push_back({.severity = Severity::warning,
                                 .group = "time",
                                 .what = result.summary,
                                 .fix = "use smaller workloads or a faster reference",
                                 .code = result.code});
      going = false;
      break;
    }
    progress.update(cases[done].name, static_cast<double>(done) / static_cast<double>(cases.size()));
    going = checker.check(cases[done]);
  }
  if (going) progress.update("other schedules", 1);
  if (going) going = checker.check_schedules(cases);
  if (going) going = checker.check_files();
  if (going) {
    result.outcome = Outcome::holds;
    result.summary =
        fmt::format("{} cases right: {} workloads, random shapes, hard values", cases.size(), project.workloads.size());
    if (const auto& schedules = result.facts_as<CorrectnessFacts>().schedules; !schedules.empty())
      result.summary += fmt::format(", {} further schedules", schedules.size());
  }
  if (!options.report.empty())
    add_virtual_findings(virtual_findings(read_launches(options.report), kernel.argument_names), result);
  result.seconds = seconds_since(start);
  return result;
}

namespace {

// A card looks at no access by itself.
void look_with_sanitizer(const GateContext& context, std::uint64_t seed, GateResult& result) {
  const std::string sanitizer = find_sanitizer();
  const std::string twin = "virtual:" + context.project.cuda_device;
  if (sanitizer.empty()) {
    result.findings.push_back(
        {.severity = Severity::ok,
         .group = "checks",
         .what =
             fmt::format("no compute-sanitizer is installed: accesses were not looked at; --device {} does", twin)});
    return;
  }
  const auto looked = run_sanitizer(sanitizer, context.project, context.kernel, seed, context.progress);
  if (!looked) {
    result.findings.push_back({.severity = Severity::warning,
                               .group = "checks",
                               .what = "compute-sanitizer could not look: " + looked.error().message,
                               .fix = "run it by hand, or check the accesses with --device " + twin,
                               .code = codes::environment_degraded});
    return;
  }
  if (looked->findings.empty()) {
    result.summary += fmt::format(", nothing found by compute-sanitizer ({})", fmt::join(looked->tools, ", "));
    return;
  }
  result.outcome = Outcome::fails;
  result.code = looked->findings.front().code;
  result.summary = looked->findings.front().what.substr(0, looked->findings.front().what.find('\n'));
  result.findings.insert(result.findings.end(), looked->findings.begin(), looked->findings.end());
}

}  // namespace

const Gate correctness_gate{
    .name = CorrectnessFacts::gate,
    .about =
        "tiny first, then all workloads, random shapes and hard values, against the reference; a wrong\n"
        "result comes with the first wrong element and the mistake that explains it",
    .needs = GateNeeds::runnables,
    .expected_seconds = [](const Project&) { return 20.0; },
    .run =
        [](GateContext& context) {
          const Capabilities can = capabilities_of(context.device);
          const CorrectnessOptions options{.seed = mix_seed(context.seed, 1),
                                           .repeat_with = context.seed,
                                           .schedules = can.schedules,
                                           .report = can.checks ? context.report.path() : ""};
          GateResult result =
              run_correctness_gate(context.project, context.kernel, context.reference, options, context.progress);
          if (can.is_card && result.outcome == Outcome::holds) look_with_sanitizer(context, options.seed, result);
          return result;
        },
    .judges_kernel = true};

}  // namespace flashmoe::workflow
