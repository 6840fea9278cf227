// What programs read: the --json of every command, as text that ends in a newline. Its shape is a promise; people's
// texts are made elsewhere.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct Advice;
struct CompareReport;
struct DoctorReport;
struct GateRun;
struct JournalState;
struct OptimizeReport;
struct ProfileRun;
struct ProgramRun;
struct Record;
struct RunSummary;
struct SideBySide;
struct TrialReport;

// A command that could not run: {"<key>": "<word>", "problem", "fix"}; no word when `key` is empty.
[[nodiscard]] std::string problem_json(const std::string& key, const std::string& word, const Diagnostic& problem);

[[nodiscard]] std::string doctor_json(const DoctorReport& report);
[[nodiscard]] std::string devices_json();
[[nodiscard]] std::string new_project_json(const std::string& name, const std::string& directory,
                                           const std::vector<std::string>& files);
[[nodiscard]] std::string gate_json(const GateRun& run);
[[nodiscard]] std::string profile_json(const ProfileRun& run);
[[nodiscard]] std::string program_json(const ProgramRun& run);
[[nodiscard]] std::string compare_json(const CompareReport& report);
// The record of the trial, with "comparison" (its record), "gates", "patch" and "next".
[[nodiscard]] std::string trial_json(const TrialReport& report);
[[nodiscard]] std::string advice_json(const ProfileRun& run, const std::vector<Advice>& advice);
[[nodiscard]] std::string optimize_json(const OptimizeReport& report);
[[nodiscard]] std::string selftest_json(const Record& record);
[[nodiscard]] std::string record_json(const Record& record);
[[nodiscard]] std::string records_json(const std::vector<Record>& records);
// {"holds", "records", "standing", "missing", "damaged", "problems", "notes"}
[[nodiscard]] std::string journal_state_json(const JournalState& state, const std::vector<Record>& records);
[[nodiscard]] std::string side_by_side_json(const SideBySide& difference);
[[nodiscard]] std::string summary_json(const RunSummary& summary);
[[nodiscard]] std::string runs_json(const std::vector<RunSummary>& runs);
// The JSON Schema of cudadent.toml, from the same table the reader uses.
[[nodiscard]] std::string schema_json();

}  // namespace flashmoe::workflow
