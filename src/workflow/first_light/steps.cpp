#include "workflow/first_light/steps.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <sstream>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/text.hpp"
#include "support/whole_file.hpp"
#include "workflow/project/scaffold.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

fs::path self() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

// In the tree this program was built in, or beside where it is installed.
std::string found_beside(const std::string& in_tree, const std::string& installed) {
  std::error_code ignored;
  for (fs::path at = self().parent_path(); !at.empty(); at = at.parent_path()) {
    for (const std::string& place : {in_tree, installed})
      if (fs::exists(at / place, ignored)) return (at / place).string();
    if (at == at.root_path()) break;
  }
  return "";
}

// In its place: it reads headers around it.
Result<std::string> attention_project(const StepPlace& place) {
  const std::string& asked = place.request.attention;
  const std::string from =
      asked.empty() ? found_beside("examples/attention_journey", "share/flashmoe/examples/attention_journey") : asked;
  if (from.empty())
    return Diagnostic{.message = "no attention project is beside this program",
                      .fix = "name one: --attention <directory with cudadent.toml>",
                      .code = codes::project_not_found};
  return from;
}

Result<std::string> example_project(const StepPlace& place, const std::string& name) {
  const std::string directory = (fs::path(place.work) / name).string();
  std::error_code ignored;
  if (fs::exists(directory, ignored)) return directory;
  if (const auto made = make_project(directory, name, name); !made) return made.error();
  return directory;
}

Result<StepCommand> doctor(const StepPlace& /*place*/) {
  return StepCommand{.argv = {self().string(), "doctor", "--json"}};
}

Result<StepCommand> gates_of(const StepPlace& place, const Result<std::string>& project) {
  if (!project) return project.error();
  return StepCommand{.argv = {self().string(), "gate", *project, "--device", place.device, "--json"}};
}

Result<StepCommand> gate_matmul(const StepPlace& place) {
  return gates_of(place, example_project(place, "matmul"));
}
Result<StepCommand> gate_softmax(const StepPlace& place) {
  return gates_of(place, example_project(place, "softmax"));
}
Result<StepCommand> gate_attention(const StepPlace& place) {
  return gates_of(place, attention_project(place));
}

Result<StepCommand> profile_attention(const StepPlace& place) {
  const auto project = attention_project(place);
  if (!project) return project.error();
  return StepCommand{.argv = {self().string(), "profile", *project, "--device", place.device, "--json"}};
}

Result<StepCommand> flashmoe_card(const StepPlace& place, const char* what) {
  const std::string program = (self().parent_path() / "flashmoe_card").string();
  std::error_code ignored;
  if (!fs::exists(program, ignored))
    return Diagnostic{.message = program + " is not there",
                      .fix = "build the target flashmoe_card, or install the library",
                      .code = codes::environment_no_library};
  const auto device = parse_device(place.device);
  if (!device) return device.error();
  const auto driver = driver_of(*device);
  if (!driver) return driver.error();
  StepCommand command{.argv = {program, what}, .environment = {"FLASHMOE_DRIVER=" + *driver}};
  if (place.request.quick) command.argv.insert(command.argv.end(), {"--problems", "quick"});
  return command;
}

Result<StepCommand> check_kernels(const StepPlace& place) {
  return flashmoe_card(place, "--check");
}
Result<StepCommand> time_kernels(const StepPlace& place) {
  return flashmoe_card(place, "--time");
}

Result<StepCommand> time_peers(const StepPlace& place) {
  StepCommand command{.argv = {python_program(), "-m", "flashmoe_science.card"}};
  if (place.request.quick) command.argv.insert(command.argv.end(), {"--problems", "quick"});
  return command;
}

Told not_run(const Finished& ran) {
  const std::string why = last_line(ran.err);
  return {.state = StepState::left_out, .why = why.empty() ? ran.describe() : why};
}

// Of a command's answer: that a kernel is slow is a result like any other; that one is wrong is not.
Told told_by_answer(const Finished& ran) {
  const Json answer = parse_json(ran.out);
  if (!answer.is_object()) return not_run(ran);
  const std::string code = text_in(answer, "code");  // none where the command did what it was asked
  std::string why = text_in(answer, "summary");
  if (why.empty() && answer.contains("error")) why = text_in(answer.at("error"), "message");
  if (why.empty()) why = code;
  const auto exit = static_cast<ExitCode>(ran.exit_code);
  const bool is_wrong = code.starts_with("correctness.") || code.starts_with("kernel.") || code.starts_with("build.");
  if (exit == ExitCode::fails && is_wrong) return {StepState::failed, std::move(why)};
  if (exit == ExitCode::could_not_run || exit == ExitCode::usage) return {StepState::left_out, std::move(why)};
  const bool is_whole = exit != ExitCode::inconclusive || code == codes::performance_rehearsal;
  return {is_whole ? StepState::done : StepState::degraded, std::move(why)};
}

// Of lines: of those that are wrong the first, else the last that says what was left out.
Told told_by_lines(const Finished& ran) {
  Told told{.state = ran.exit_code == 0 ? StepState::done : StepState::degraded};
  std::size_t count = 0;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    const Json json = parse_json(line);
    if (!json.is_object()) continue;
    ++count;
    if (json.contains("ok") && json.at("ok") == false) return {StepState::failed, "wrong: " + line.substr(0, 300)};
    for (const char* key : {"not_run", "left_out"})
      if (json.contains(key))
        told.why = json.at(key).is_string() ? json.at(key).get<std::string>() : one_line(json.at(key));
  }
  if (count == 0) return not_run(ran);
  if (count == 1 && !told.why.empty()) told.state = StepState::left_out;
  return told;
}

// Python's own words for a package that is missing name no remedy.
Told told_by_peers(const Finished& ran) {
  if (ran.out.empty() && ran.err.find("No module named 'flashmoe_science") != std::string::npos)
    return {.state = StepState::left_out,
            .why = fmt::format("flashmoe_science is not installed for {} (fix: {} -m pip install "
                               "--no-build-isolation . in the source tree, or name a Python that has it and torch: "
                               "CUDADENT_PYTHON)",
                               python_program(), python_program())};
  return told_by_lines(ran);
}

constexpr std::array rows{
    StepRow{"doctor", "compilers, driver, card, Python", "doctor.json", 10, 10, false, doctor, told_by_answer},
    StepRow{"checks", "every shipped attention kernel against fp64", "checks.jsonl", 60, 60, false, check_kernels,
            told_by_lines},
    StepRow{"matmul", "the gates of an example project", "gate-matmul.json", 60, 60, true, gate_matmul, told_by_answer},
    StepRow{"softmax", "the gates of another", "gate-softmax.json", 60, 60, true, gate_softmax, told_by_answer},
    StepRow{"attention", "the gates of an attention kernel, against torch", "gate-attention.json", 90, 60, true,
            gate_attention, told_by_answer},
    StepRow{"times", "our kernels: kernel time, cold, whole calls", times_file, 150, 60, true, time_kernels,
            told_by_lines},
    StepRow{"peers", "torch SDPA, FlashAttention-2, FlashInfer where they are installed", peers_file, 150, 20, true,
            time_peers, told_by_peers},
    StepRow{"profile", "counters where the card lets us read them", "profile-attention.json", 90, 60, false,
            profile_attention, told_by_answer},
};

}  // namespace

std::span<const StepRow> all_light_steps() {
  return rows;
}

std::vector<BesidePrediction> beside_predictions(const Card& card, const std::string& bundle, bool rehearsal,
                                                 std::vector<std::string>& notes) {
  if (card.gpu.empty()) {
    notes.push_back(card.name + " is not in our table of cards: nothing was predicted for it");
    return {};
  }
  const std::string file = "docs/predictions/" + card.gpu + ".json";
  const std::string path = found_beside(file, "share/flashmoe/predictions/" + card.gpu + ".json");
  const Json predicted = path.empty() ? Json() : parse_json_file(path);
  if (!predicted.is_object()) {
    notes.push_back("no predictions for the " + card.name + " (" + file + ") are beside this program");
    return {};
  }
  std::vector<BesidePrediction> beside;
  std::istringstream lines(whole_file(bundle + "/" + times_file).value_or(""));
  for (std::string text; std::getline(lines, text);) {
    const Json line = parse_json(text);
    if (!line.is_object() || !line.contains("problem") || !line.contains("kernel_us")) continue;
    for (const Json& row : predicted.value("rows", Json::array())) {
      if (row.value("problem", "") != line.at("problem") || !row.contains("predicted_us")) continue;
      beside.push_back({.problem = line.at("problem"),
                        .predicted_us = row.at("predicted_us"),
                        .measured_us = line.at("kernel_us"),
                        .stale = row.value("image_sha256", "") != line.value("image_sha256", "")});
    }
  }
  // What a virtual GPU needs for a kernel is no time of a card, and stands beside no prediction.
  if (rehearsal) {
    notes.push_back(
        fmt::format("{} problems have a prediction to stand beside, once a card has run them", beside.size()));
    std::erase_if(beside, [](const BesidePrediction& one) { return !one.stale; });
  }
  return beside;
}

}  // namespace flashmoe::workflow
