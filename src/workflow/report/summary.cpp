#include "workflow/report/summary.hpp"

#include <fmt/format.h>

#include <cmath>

#include "workflow/journal/fields.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/machine/machine.hpp"

namespace flashmoe::workflow {
namespace {

// A cell of a Markdown table.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

const Json* gate_named(const Json& record, const std::string& name) {
  if (!record.contains("gates")) return nullptr;
  for (const Json& gate : record["gates"]) {
    if (text_of(field(gate, "gate")) == name) return &gate;
  }
  return nullptr;
}

// {"<workload>": {"speedup", "lower"}} of a gate run that measured.
Json speeds_of(const Json& record) {
  Json speeds = Json::object();
  const Json* gate = gate_named(record, "performance");
  if (gate == nullptr) return speeds;
  const Json workloads = field(field(*gate, "data"), "workloads");
  if (!workloads.is_object()) return speeds;
  for (const auto& [name, workload] : workloads.items()) {
    const Json ratio = field(workload, "ratio");
    if (!field(ratio, "mean").is_number()) continue;
    speeds[name] = {{"speedup", field(ratio, "mean")}, {"lower", field(ratio, "lower")}};
  }
  return speeds;
}

Json change_of(const Json& record) {
  const Json gain = field(record, "gain");
  const std::string note = text_of(field(record, "note"));
  return {{"id", field(record, "id")},
          {"change", note.empty() ? text_of(field(field(record, "candidate"), "name")) : note},
          {"commit", field(record, "commit")},
          {"phase", field(record, "phase")},
          {"workload", field(record, "workload")},
          {"verdict", field(record, "verdict")},
          {"gain", gain},
          {"pairs", field(record, "pairs_used")},
          {"minimum_detectable_gain", field(field(record, "calibration"), "minimum_detectable_gain")},
          {"problem", field(record, "problem")},
          {"fix", field(record, "fix")},
          {"seconds", field(record, "seconds")}};
}

Json gate_run_of(const Json& record) {
  Json run = {{"id", field(record, "id")},
              {"commit", field(record, "commit")},
              {"verdict", field(record, "verdict")},
              {"what", detail_of(record)},
              {"seconds", field(record, "seconds")}};
  return run;
}

// The first thing that is wrong in the last gate run, and the next rung of the ladder.
void add_gate_goals(const Json& last_gate, const std::optional<Project>& project, Json& goals) {
  for (const Json& gate : field(last_gate, "gates")) {
    const std::string outcome = text_of(field(gate, "outcome"));
    if (outcome == "holds") continue;
    std::string goal = "gate " + text_of(field(gate, "gate")) + " " + outcome + ": " + text_of(field(gate, "summary"));
    for (const Json& finding : field(gate, "findings")) {
      if (text_of(field(finding, "severity")) != "error") continue;
      goal += " Fix: " + text_of(field(finding, "fix"));
      break;
    }
    goals.push_back(goal);
    break;
  }
  if (!project) return;
  const Json speeds = speeds_of(last_gate);
  const std::string target = project->thresholds.target_workload;
  if (!speeds.contains(target)) return;
  const Json lower = field(speeds[target], "lower");
  const double reached = lower.is_number() ? number_of(lower) : number_of(field(speeds[target], "speedup"));
  for (const double rung : project->thresholds.ladder) {
    if (reached >= rung) continue;
    goals.push_back(fmt::format("{:.2f}x on {}: the lower bound is at {:.3f}x", rung, target, reached));
    return;
  }
  goals.push_back(fmt::format("the ladder is climbed on {}: {:.3f}x", target, reached));
}

void add_change_goals(const Json& changes, Json& goals) {
  for (const Json& change : changes) {
    const std::string verdict = text_of(change["verdict"]);
    const std::string name = text_of(change["change"]);
    if (verdict == "INCONCLUSIVE") {
      goals.push_back("'" + name + "' stayed open: a quieter machine or a larger change would decide it");
    } else if (verdict == "PREEMPTED" || verdict == "INTERRUPTED" || verdict == "OUT OF TIME") {
      goals.push_back("'" + name + "' was stopped: cudadent compare --resume goes on");
    } else if (verdict == "THRESHOLD REFUSED" || verdict == "MACHINE BIASED") {
      goals.push_back("'" + name + "' could not be judged: " + text_of(change["fix"]));
    }
  }
}

// A comparison that was stopped and went on later has two records; its last one counts.
void add_change(const Json& record, Json& changes) {
  Json change = change_of(record);
  change["comparison"] = field(record, "key").dump() + field(record, "seed").dump();
  for (Json& earlier : changes) {
    if (!field(record, "key").is_null() && earlier["comparison"] == change["comparison"]) {
      earlier = std::move(change);
      return;
    }
  }
  changes.push_back(std::move(change));
}

std::string gain_text(const Json& gain) {
  if (!gain.is_object()) return "not measured";
  return fmt::format("{} [{}, {}]", gain_text(field(gain, "mean")), gain_text(field(gain, "lower")),
                     gain_text(field(gain, "upper")));
}

std::string changes_markdown(const Json& changes) {
  if (changes.empty()) return "No comparison in this run.\n";
  std::string text = "| change | verdict | effect (measured) | pairs | workload | seconds | record |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Json& change : changes) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {:.0f} | {} |\n", escaped(text_of(change["change"])),
                    text_of(change["verdict"]), gain_text(change["gain"]), static_cast<int>(number_of(change["pairs"])),
                    escaped(text_of(change["workload"])), number_of(change["seconds"]), text_of(change["id"]));
  }
  return text;
}

std::string speeds_markdown(const Json& summary) {
  const Json& before = summary["before"];
  const Json& after = summary["after"];
  std::string text;
  if (after.empty()) {
    text = "No gate run of this run measured a speed.\n";
  } else {
    text = "| workload | before | after | lower bound |\n| --- | --- | --- | --- |\n";
    for (const auto& [workload, speed] : after.items()) {
      const Json earlier = before.contains(workload) ? field(before[workload], "speedup") : Json();
      text += fmt::format(
          "| {} | {} | {:.3f}x | {} |\n", escaped(workload),
          earlier.is_number() ? fmt::format("{:.3f}x", number_of(earlier)) : "-", number_of(field(speed, "speedup")),
          field(speed, "lower").is_number() ? fmt::format("{:.3f}x", number_of(field(speed, "lower"))) : "-");
    }
    text += "\nSpeed against the project's baseline, measured.\n";
  }
  text += fmt::format("\nKept changes together: {}.\n", gain_text(summary["kept_gain"]));
  return text;
}

}  // namespace

Result<std::string> find_run(const std::vector<Json>& records, const std::string& name) {
  for (const Json& record : records) {
    if (text_of(record, "run") == name) return name;
  }
  for (const Json& record : records) {
    if (!name.empty() && text_of(record, "id").starts_with(name)) return text_of(record, "run");
  }
  std::string known;
  std::string last;
  for (const Json& record : records) {
    const std::string run = text_of(record, "run");
    if (run != last && known.find(run) == std::string::npos) known += (known.empty() ? "" : ", ") + run;
    last = run;
  }
  return Diagnostic{.message = "no run and no record '" + name + "'" + (known.empty() ? "" : "; runs are " + known),
                    .fix = "cudadent journal lists the records with their runs"};
}

Json run_summary(const std::vector<Json>& records, const std::string& run, const std::optional<Project>& project) {
  Json summary = {{"run", run}, {"project", Json()}, {"device", Json()}, {"first", Json()}, {"last", Json()}};
  Json changes = Json::array();
  Json gates = Json::array();
  Json before = Json::object();
  Json after = Json::object();
  Json last_gate;
  double seconds = 0;
  double machine = 0;
  double agent = 0;
  double kept_log_gain = 0;
  int count = 0;
  for (const Json& record : records) {
    if (text_of(field(record, "run")) != run) continue;
    ++count;
    for (const char* key : {"project", "device"}) {
      if (!field(record, key).is_null()) summary[key] = record[key];
    }
    if (summary["first"].is_null()) summary["first"] = field(record, "time");
    summary["last"] = field(record, "time");
    summary["environment"] = field(record, "environment");
    seconds += number_of(field(record, "seconds"));
    machine += number_of(field(field(record, "cost"), "machine"));
    agent += number_of(field(field(record, "cost"), "agent"));
    if (record["kind"] == "compare") {
      add_change(record, changes);
      const Json mean = field(field(record, "gain"), "mean");
      if (text_of(field(record, "verdict")) == "KEEP" && mean.is_number()) kept_log_gain += std::log1p(number_of(mean));
    } else if (record["kind"] == "gate") {
      gates.push_back(gate_run_of(record));
      last_gate = record;
      const Json speeds = speeds_of(record);
      if (before.empty()) before = speeds;
      if (!speeds.empty()) after = speeds;
    }
  }
  Json goals = Json::array();
  add_gate_goals(last_gate, project, goals);
  add_change_goals(changes, goals);
  summary["records"] = count;
  summary["before"] = before;
  summary["after"] = after;
  summary["kept_gain"] = std::expm1(kept_log_gain);
  summary["changes"] = changes;
  summary["gates"] = gates;
  summary["time"] = {{"seconds", seconds},
                     {"planned_minutes", project ? Json(project->thresholds.max_minutes) : Json()},
                     {"comparisons", changes.size()},
                     {"planned_iterations", project ? Json(project->thresholds.max_iterations) : Json()}};
  summary["cost"] = {{"machine", machine}, {"agent", agent}, {"total", machine + agent}};
  summary["next_goals"] = goals;
  if (project && project->cost.machine_per_hour > 0) {
    summary["machine_advice"] = advice_text({}, project->cost, project->machine);
  }
  return summary;
}

std::string markdown_of(const Json& summary) {
  std::string text = fmt::format("# Run {} of {}\n\n", text_of(summary["run"]), text_of(summary["project"]));
  text += fmt::format("Device {}, {} records from {} to {}", text_of(summary["device"]), summary["records"].get<int>(),
                      text_of(summary["first"]).substr(0, 19), text_of(summary["last"]).substr(0, 19));
  const Json environment = field(summary, "environment");
  if (!text_of(field(environment, "cpu")).empty()) text += ", on " + text_of(environment["cpu"]);
  text += ".\n\n## Before and after\n\n" + speeds_markdown(summary);
  text += "\n## Changes\n\n" + changes_markdown(summary["changes"]);
  text += "\n## Gates\n\n";
  if (summary["gates"].empty()) text += "No gate run in this run.\n";
  for (const Json& gate : summary["gates"]) {
    text += fmt::format("- {} {}: {} ({:.0f} s)\n", text_of(gate["id"]), text_of(gate["verdict"]),
                        text_of(gate["what"]), number_of(gate["seconds"]));
  }
  const Json& time = summary["time"];
  text += fmt::format("\n## Time and cost\n\n{:.1f} min", number_of(time["seconds"]) / 60);
  if (time["planned_minutes"].is_number())
    text += fmt::format(" of {:.0f} min planned", number_of(time["planned_minutes"]));
  text += fmt::format("; {} comparisons", time["comparisons"].get<int>());
  if (time["planned_iterations"].is_number()) {
    text += fmt::format(" of {} iterations planned", static_cast<int>(number_of(time["planned_iterations"])));
  }
  const Json& cost = summary["cost"];
  text += fmt::format(". ${:.4f}: machine ${:.4f}, agent ${:.4f}.\n", number_of(cost["total"]),
                      number_of(cost["machine"]), number_of(cost["agent"]));
  if (summary.contains("machine_advice")) text += text_of(summary["machine_advice"]) + "\n";
  text += "\n## Next goals\n\n";
  if (summary["next_goals"].empty()) text += "Nothing is open.\n";
  for (const Json& goal : summary["next_goals"]) text += "- " + text_of(goal) + "\n";
  return text;
}

}  // namespace flashmoe::workflow
