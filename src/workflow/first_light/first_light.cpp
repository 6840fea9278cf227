#include "workflow/first_light/first_light.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <optional>
#include <sstream>

#include "support/clock.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/whole_file.hpp"
#include "workflow/device/capabilities.hpp"
#include "workflow/device/card.hpp"
#include "workflow/device/card_watch.hpp"
#include "workflow/first_light/bundle.hpp"
#include "workflow/first_light/steps.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* state_file = "state.json";
constexpr double least_step_seconds = 5;  // with less left nothing is begun
// A card that is too hot or draws too much gets a pause, once, before a step that is timed.
constexpr double pause_seconds = 20;

std::string now_text(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64] = {};
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

// Seconds and dollars from the first minute on, over all sessions of a run.
class Purse {
 public:
  Purse(const FirstLightRequest& request, double earlier_seconds)
      : price_per_hour_(request.price_per_hour), earlier_(earlier_seconds), most_seconds_(60 * request.minutes) {
    if (request.budget && price_per_hour_ > 0)
      most_seconds_ = std::min(most_seconds_, 3600 * *request.budget / price_per_hour_);
  }
  [[nodiscard]] double seconds() const { return earlier_ + seconds_since(begin_); }
  [[nodiscard]] double dollars() const { return seconds() / 3600 * price_per_hour_; }
  [[nodiscard]] double most_seconds() const { return most_seconds_; }
  [[nodiscard]] double seconds_left() const { return most_seconds_ - seconds(); }

 private:
  double price_per_hour_, earlier_, most_seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

bool is_wanted(const FirstLightRequest& request, const std::string& step) {
  return request.only.empty() || std::count(request.only.begin(), request.only.end(), step) > 0;
}

std::vector<Json> json_lines(const std::string& path) {
  std::vector<Json> found;
  std::istringstream lines(whole_file(path).value_or(""));
  for (std::string line; std::getline(lines, line);)
    if (Json json = parse_json(line); json.is_object()) found.push_back(std::move(json));
  return found;
}

StepState state_named(const std::string& name) {
  for (const StepState state :
       {StepState::open, StepState::done, StepState::degraded, StepState::failed, StepState::left_out})
    if (name == name_of(state)) return state;
  return StepState::open;
}

class FirstLight {
 public:
  FirstLight(const FirstLightRequest& request, const DeviceSelector& device, Bundle bundle, Progress& progress,
             double earlier_seconds)
      : request_(request),
        device_(device),
        bundle_(std::move(bundle)),
        progress_(progress),
        purse_(request, earlier_seconds) {
    report_.device = device.to_string();
    report_.rehearsal = device.kind == DeviceKind::rehearsal;
    report_.bundle = bundle_.directory();
    for (const StepRow& row : all_light_steps())
      report_.steps.push_back({.name = row.name, .about = row.about, .file = row.file});
  }

  // What an earlier session did is not done again; what it could not do is.
  void take_over(const Json& state) {
    for (const Json& stored : state.value("steps", Json::array())) {
      for (LightStep& step : report_.steps) {
        if (stored.value("name", "") != step.name) continue;
        const StepState was = state_named(stored.value("state", ""));
        if (was != StepState::done && was != StepState::degraded) continue;
        step.state = was;
        step.why = stored.value("why", "");
        step.seconds = stored.value("seconds", 0.0);
      }
    }
  }

  FirstLightReport run() {
    if (start_machine() && find_card()) {
      for (std::size_t i = 0; i < report_.steps.size() && goes_on(); ++i) {
        LightStep& step = report_.steps[i];
        if (!is_wanted(request_, step.name)) {
          step.state = StepState::left_out;
          step.why = "not asked for";
          continue;
        }
        progress_.step(step.name, expected_seconds(all_light_steps()[i]));
        if (step.state != StepState::open) continue;
        run_step(all_light_steps()[i], step);
        keep_state();
      }
    }
    finish();
    return std::move(report_);
  }

 private:
  // ---- the machine ----------------------------------------------------------------------------------------------

  bool end(const char* code, std::string summary) {
    if (report_.code.empty()) {
      report_.code = code;
      report_.summary = std::move(summary);
    }
    return false;
  }
  bool end(const Diagnostic& problem) { return end(row_of(problem.code).code, problem.to_string()); }

  bool is_running() {
    const auto answer = ask_machine(request_.machine, bundle_.directory());
    if (!answer) {
      report_.notes.push_back(answer.error().to_string() + "; the card itself is asked");
      return true;
    }
    return answer->state != MachineState::stopped;
  }

  // The machine's own card is a better witness than what somebody says of the machine: where it answers, it runs.
  bool start_machine() {
    if (interrupted()) return stopped_from_outside();
    if (is_running()) return true;
    if (!request_.machine.start.empty()) {
      progress_.note("starting the machine: " + request_.machine.start);
      if (const auto started = command_machine("machine.start", request_.machine.start, bundle_.directory()); !started)
        return end(started.error());
      if (is_running()) return true;
    }
    if (card_of(device_)) {
      report_.notes.push_back("the status command '" + request_.machine.status +
                              "' says that the machine does not run, and its card answers: the card is believed");
      return true;
    }
    return end(machine_is_stopped(request_.machine, {}));
  }

  bool find_card() {
    // Not card_of() alone: a driver that answers where no card is must not be timed as one.
    if (const auto available = device_available(device_); !available) return end(available.error());
    const auto card = card_of(device_);
    if (!card) return end(card.error());
    card_ = *card;
    report_.card = card->name;
    watch_.emplace(*card);
    facts_ = {{"name", card->name},
              {"architecture", card->architecture},
              {"sm_count", card->sm_count},
              {"l2_bytes", card->l2_bytes},
              {"driver", card->driver_version},
              {"pci", card->pci},
              {"state", parse_json(watch_->state_json())}};
    keep("card.json", facts_);
    if (const std::string others = watch_->other_users(); !others.empty())
      report_.notes.push_back("somebody else uses the card (" + others + "): times are not its own");
    return true;
  }

  bool stopped_from_outside() {
    return interrupt_signal() == SIGTERM
               ? end(codes::preempted, "the machine asked to stop: go on with --resume --bundle " + report_.bundle)
               : end(codes::interrupted, "interrupted: go on with --resume --bundle " + report_.bundle);
  }

  bool goes_on() {
    if (interrupted()) return stopped_from_outside();
    if (purse_.seconds_left() < least_step_seconds)
      return end(codes::machine_money, fmt::format("{:.0f} s and ${:.2f} are used up: what is left was not begun",
                                                   purse_.seconds(), purse_.dollars()));
    return true;
  }

  [[nodiscard]] double expected_seconds(const StepRow& row) const {
    return request_.quick ? row.quick_seconds : row.seconds;
  }

  // ---- a step ---------------------------------------------------------------------------------------------------

  void run_step(const StepRow& row, LightStep& step) {
    const double expected = expected_seconds(row);
    if (expected > ask_machine_above_seconds && !is_running()) {
      report_.notes.push_back(fmt::format("before {} the status command said that the machine does not run", row.name));
    }
    if (row.is_timed) pause_if_throttled(row);
    const StepPlace place{.request = request_, .device = report_.device, .work = work_.path().string()};
    const auto command = row.command(place);
    if (!command) {
      step.state = StepState::left_out;
      step.why = command.error().to_string();
      return;
    }
    const double limit = std::min(purse_.seconds_left(), 4 * expected + 30);
    const auto began = std::chrono::steady_clock::now();
    const auto ran = run_process({.argv = command->argv,
                                  .directory = command->directory,
                                  .environment = command->environment,
                                  .limit = std::chrono::milliseconds(static_cast<long>(1e3 * limit))});
    step.seconds = seconds_since(began);
    if (!ran) {
      step.state = StepState::left_out;
      step.why = ran.error().to_string();
      return;
    }
    if (ran->interrupted) return;  // open: it is begun anew when the machine is back
    judge(row, *ran, step);
    // A shared or throttled card gives no figure of its own.
    if (row.is_timed && watch_) {
      for (const std::string& doubt : watch_->doubts()) {
        if (step.state == StepState::done) step.state = StepState::degraded;
        step.why += (step.why.empty() ? "" : "; ") + doubt;
      }
    }
    if (const auto kept = bundle_.write(step.file, ran->out); !kept) {
      step.state = StepState::failed;
      step.why = kept.error().message;
    }
    if (!ran->err.empty()) keep_text(step.file + ".log", ran->err);
  }

  static void judge(const StepRow& row, const Finished& ran, LightStep& step) {
    if (ran.timed_out) {
      step.state = StepState::degraded;
      step.why = "stopped at the end of its time: what it had printed is kept";
      return;
    }
    Told told = row.told(ran);
    step.state = told.state;
    step.why = std::move(told.why);
    if (step.state != StepState::done && step.why.empty()) step.why = ran.describe();
  }

  void pause_if_throttled(const StepRow& row) {
    if (!watch_ || watch_->throttled_by().empty() || purse_.seconds_left() < 4 * pause_seconds) return;
    progress_.note(fmt::format("{}: the card is throttled ({}); a pause of {:.0f} s", row.name, watch_->throttled_by(),
                               pause_seconds));
    const auto began = std::chrono::steady_clock::now();
    while (seconds_since(began) < (request_.quick ? 1 : pause_seconds) && !interrupted()) ::usleep(100'000);
  }

  // ---- what stays -----------------------------------------------------------------------------------------------

  void keep_text(const std::string& name, const std::string& text) {
    if (const auto kept = bundle_.write(name, text); !kept) report_.notes.push_back(kept.error().to_string());
  }
  void keep(const std::string& name, const Json& json) { keep_text(name, indented(json)); }

  [[nodiscard]] Json steps_json() const {
    Json list = Json::array();
    for (const LightStep& step : report_.steps)
      list.push_back({{"name", step.name},
                      {"state", name_of(step.state)},
                      {"why", step.why},
                      {"file", step.file},
                      {"seconds", step.seconds}});
    return list;
  }

  void keep_state() {
    keep(state_file, {{"device", report_.device}, {"seconds", purse_.seconds()}, {"steps", steps_json()}});
  }

  void finish() {
    if (report_.code.empty() && interrupted()) stopped_from_outside();
    for (LightStep& step : report_.steps)
      if (step.state == StepState::open && step.why.empty()) step.why = "not begun";
    conclude();
    bundle_.use_reserve();
    keep_state();
    if (card_) report_.beside = beside_predictions(*card_, bundle_.directory(), report_.rehearsal, report_.notes);
    report_.seconds = purse_.seconds();
    report_.dollars = purse_.dollars();
    Json lines = Json::array();
    for (const char* file : {times_file, peers_file})
      for (const Json& line : json_lines(bundle_.path(file))) lines.push_back(line);
    keep(results_name, {{"rehearsal", report_.rehearsal},
                        {"label", label()},
                        {"time", now_text("%Y-%m-%dT%H:%M:%SZ")},
                        {"device", report_.device},
                        {"card", facts_},
                        {"outcome", name_of(report_.outcome)},
                        {"code", report_.code},
                        {"summary", report_.summary},
                        {"notes", report_.notes},
                        {"seconds", report_.seconds},
                        {"dollars", report_.dollars},
                        {"steps", steps_json()},
                        {"times", lines}});
    if (auto sealed = bundle_.seal())
      report_.bundle_sha256 = *sealed;
    else
      report_.notes.push_back("the bundle is not sealed: " + sealed.error().to_string());
    carry_away();
    stop_machine();
  }

  [[nodiscard]] const char* label() const {
    if (!card_) return "no card: nothing was run";
    return report_.rehearsal ? "rehearsal on a virtual GPU: never run on a card" : "measured";
  }

  void conclude() {
    const auto any = [&](StepState state) {
      return std::any_of(report_.steps.begin(), report_.steps.end(),
                         [&](const LightStep& step) { return step.state == state; });
    };
    if (any(StepState::failed)) {
      report_.outcome = Outcome::fails;
    } else if (!report_.code.empty()) {
      report_.outcome =
          row_of(report_.code).exit == ExitCode::inconclusive ? Outcome::inconclusive : Outcome::could_not_run;
      return;
    } else {
      const bool whole = !any(StepState::degraded) && !any(StepState::left_out) && !any(StepState::open);
      report_.outcome = whole && !report_.rehearsal ? Outcome::holds : Outcome::inconclusive;
      report_.code = report_.rehearsal                   ? codes::performance_rehearsal
                     : report_.outcome == Outcome::holds ? ""
                                                         : codes::environment_degraded;
    }
    const auto count = [&](StepState state) {
      return std::count_if(report_.steps.begin(), report_.steps.end(),
                           [&](const LightStep& step) { return step.state == state; });
    };
    std::string summary = fmt::format("{} of {} steps done", count(StepState::done), report_.steps.size());
    for (const StepState state : {StepState::degraded, StepState::failed, StepState::left_out})
      if (count(state) > 0) summary += fmt::format(", {} {}", count(state), name_of(state));
    if (report_.rehearsal) summary = "REHEARSAL, never run on a card: " + summary;
    report_.summary = report_.summary.empty() ? summary : report_.summary + "; " + summary;
    if (report_.outcome == Outcome::fails && report_.code.empty()) report_.code = codes::correctness_wrong_result;
  }

  void carry_away() {
    if (request_.send.empty() || interrupted()) return;
    const auto sent = run_process({.argv = {"/bin/sh", "-c", request_.send},
                                   .environment = {"FIRST_LIGHT_BUNDLE=" + report_.bundle},
                                   .limit = std::chrono::minutes(5)});
    if (!sent || !sent->ok())
      report_.notes.push_back("the bundle was not carried away: '" + request_.send + "' " +
                              (sent ? sent->describe() : sent.error().message));
  }

  // Once, whatever happened; but who goes away by itself, or is wanted by somebody who pressed a key, is left alone.
  void stop_machine() {
    if (request_.machine.stop.empty()) {
      report_.stopped = "no stop command was given: the machine runs on";
      if (request_.price_per_hour > 0) report_.stopped += fmt::format(" at ${:.2f} an hour", request_.price_per_hour);
      return;
    }
    if (interrupted()) {
      report_.stopped = interrupt_signal() == SIGTERM ? "it goes away by itself; it is stopped when --resume has ended"
                                                      : "left running; stop it with: " + request_.machine.stop;
      return;
    }
    const auto stopped = command_machine("machine.stop", request_.machine.stop, bundle_.directory());
    report_.stopped =
        stopped ? "stopped by " + request_.machine.stop : "NOT STOPPED, and it costs: " + stopped.error().to_string();
  }

  const FirstLightRequest& request_;
  DeviceSelector device_;
  Bundle bundle_;
  Progress& progress_;
  Purse purse_;
  TemporaryDirectory work_{};
  FirstLightReport report_{};
  std::optional<Card> card_{};
  Json facts_{};  // of it
  std::optional<CardWatch> watch_{};
};

}  // namespace

const char* name_of(StepState state) {
  switch (state) {
    case StepState::open:
      return "open";
    case StepState::done:
      return "done";
    case StepState::degraded:
      return "degraded";
    case StepState::failed:
      return "failed";
    case StepState::left_out:
      break;
  }
  return "left out";
}

int first_light_steps() {
  return static_cast<int>(all_light_steps().size());
}

Result<Done> check_first_light(const FirstLightRequest& request) {
  const auto wrong = [](std::string message, std::string fix) {
    return Diagnostic{.message = std::move(message), .fix = std::move(fix), .code = codes::usage_command_line};
  };
  for (const std::string& name : request.only) {
    const auto rows = all_light_steps();
    if (std::none_of(rows.begin(), rows.end(), [&](const StepRow& row) { return name == row.name; }))
      return wrong(fmt::format("no step is called {}", name), "cudadent first-light --plan lists them");
  }
  // A budget that bounds nothing is the dearest mistake here.
  if (request.budget && request.price_per_hour == 0)
    return wrong("--budget bounds nothing without a price", "--price with the dollars an hour of your machine");
  const auto device = parse_device(request.device);
  if (!device) return device.error();
  if (!capabilities_of(*device).is_card)
    return Diagnostic{.message = request.device + " is no card",
                      .fix = "--device cuda:<n>, or without a card --device rehearsal:cuda:0",
                      .code = codes::usage_device};
  return Done{};
}

namespace {

// What a resumed run seals again it vouches for: only what an earlier session left, on the same device.
Result<Done> check_resumed(const std::string& directory, const Json& state, const std::string& device) {
  const std::string earlier = state.value("device", "");
  if (earlier != device)
    return Diagnostic{.message = fmt::format("{} was begun on {}, not on {}", directory,
                                             earlier.empty() ? "another device" : earlier, device),
                      .fix = "give that --device, or begin anew with another --bundle",
                      .code = codes::usage_bundle};
  const std::string manifest = directory + "/" + manifest_name;
  if (!fs::exists(manifest)) return Done{};  // it was cut off before it could seal anything
  const auto check = verify_bundle(directory);
  if (!check) return check.error();
  if (!check->problems.empty())
    return Diagnostic{.message = fmt::format("{} is not as it was left: {}", directory, check->problems.front()),
                      .fix = "begin anew with another --bundle",
                      .code = codes::usage_bundle};
  // From here on files change again; were it cut off now, the old list would call that tampering.
  std::error_code ignored;
  fs::remove(manifest, ignored);
  return Done{};
}

}  // namespace

Result<FirstLightReport> run_first_light(const FirstLightRequest& request, Progress& progress) {
  if (const auto checked = check_first_light(request); !checked) return checked.error();
  const auto device = parse_device(request.device);
  if (!device) return device.error();
  const std::string directory = request.bundle.empty() ? "first-light-" + now_text("%Y%m%d-%H%M%S") : request.bundle;
  const Json state = parse_json_file(directory + "/" + state_file);
  if (request.resume && !state.is_object())
    return Diagnostic{.message = directory + " has no first light to go on with",
                      .fix = "--bundle with the directory of the one that was stopped",
                      .code = codes::usage_bundle};
  if (!request.resume && fs::exists(directory + "/" + state_file))
    return Diagnostic{.message = directory + " has a first light already",
                      .fix = "--resume goes on with it; else give another --bundle",
                      .code = codes::usage_bundle};
  if (request.resume)
    if (const auto checked = check_resumed(directory, state, device->to_string()); !checked) return checked.error();
  auto bundle = Bundle::open(directory);
  if (!bundle) return bundle.error();
  FirstLight light(request, *device, std::move(*bundle), progress,
                   state.is_object() ? state.value("seconds", 0.0) : 0.0);
  if (request.resume) light.take_over(state);
  auto report = light.run();
  progress.done();
  return report;
}

std::string first_light_plan(const FirstLightRequest& request) {
  std::string text = fmt::format("First light on {}, at most {:.0f} minutes", request.device, request.minutes);
  const double dollars = request.minutes / 60 * request.price_per_hour;
  if (request.price_per_hour > 0)
    text += fmt::format(" and ${:.2f} at ${:.2f} an hour", std::min(request.budget.value_or(dollars), dollars),
                        request.price_per_hour);
  text += "\n";
  double total = 0;
  for (const StepRow& row : all_light_steps()) {
    if (!is_wanted(request, row.name)) continue;
    const double seconds = request.quick ? row.quick_seconds : row.seconds;
    total += seconds;
    text += fmt::format("  {:<12} {:>4.0f} s  {}\n", row.name, seconds, row.about);
  }
  text += fmt::format("  {:<12} {:>4.0f} s expected", "together", total);
  if (request.price_per_hour > 0) text += fmt::format(", ${:.2f}", total / 3600 * request.price_per_hour);
  const double most = Purse(request, 0).most_seconds();
  if (total > most) text += fmt::format("; only {:.0f} s are allowed: what comes last is not begun", most);
  text += request.machine.stop.empty() ? "; the machine is not stopped (no --machine-stop)\n"
                                       : "; then the machine is stopped: " + request.machine.stop + "\n";
  return text;
}

std::string first_light_text(const FirstLightReport& report) {
  std::string text = fmt::format("{}{} on {}\n", report.rehearsal ? "REHEARSAL, never run on a card: " : "",
                                 report.card.empty() ? "no card" : report.card, report.device);
  for (const LightStep& step : report.steps)
    text += fmt::format("  {:<12} {:<9} {:>5.0f} s  {}\n", step.name, name_of(step.state), step.seconds, step.why);
  std::size_t stale = 0;
  for (const BesidePrediction& one : report.beside) {
    stale += one.stale ? 1 : 0;
    if (!one.stale)
      text +=
          fmt::format("  {}: predicted {:.4g} us, {} {:.4g} us ({:.2f})\n", one.problem, one.predicted_us,
                      report.rehearsal ? "rehearsal" : "measured", one.measured_us, one.measured_us / one.predicted_us);
  }
  if (stale > 0)
    text += fmt::format("  {} predictions are of other kernels than those that ran: not compared\n", stale);
  for (const std::string& note : report.notes) text += "  note: " + note + "\n";
  text += fmt::format("  machine: {}\n", report.stopped);
  text += fmt::format("  {:.0f} s, ${:.2f}; bundle {} (SHA-256 of its list {})\n", report.seconds, report.dollars,
                      report.bundle, report.bundle_sha256.empty() ? "missing" : report.bundle_sha256.substr(0, 16));
  return text;
}

}  // namespace flashmoe::workflow
