// What programs read: the --json of every command, as text that ends in a newline, whole or short as the answer says.
// Its shape is a promise (`cudadent schema --answers`); people's texts are made elsewhere.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/output/answer.hpp"

namespace flashmoe::workflow {

struct Advice;
struct Briefing;
struct BundleCheck;
struct CompareReport;
struct DoctorReport;
struct Explanation;
struct ExportedTraces;
struct FirstLightReport;
struct GateRun;
struct Heading;
struct JournalState;
struct MergeReport;
struct OptimizeReport;
struct PatternCount;
struct PatternTrial;
struct Practice;
struct Profile;
struct ProfileRun;
struct ProgramRun;
struct Record;
struct ReportedFile;
struct RunReport;
struct RunSummary;
struct ShardReport;
struct SideBySide;
struct StatusReport;
struct TrialReport;

// A command that could not do what it was asked: {"error": {"code", "message", "fix", its place}, "errors": all of
// them}.
[[nodiscard]] std::string error_json(const Answer& answer, const Diagnostic& problem);

[[nodiscard]] std::string doctor_json(const Answer& answer, const DoctorReport& report);
[[nodiscard]] std::string devices_json(const Answer& answer);
[[nodiscard]] std::string new_project_json(const Answer& answer, const std::string& name, const std::string& directory,
                                           const std::vector<std::string>& files);
[[nodiscard]] std::string gate_json(const Answer& answer, const GateRun& run);
[[nodiscard]] std::string profile_json(const Answer& answer, const Profile& profile);
[[nodiscard]] std::string program_json(const Answer& answer, const ProgramRun& run);
[[nodiscard]] std::string explanation_json(const Answer& answer, const Explanation& explanation);
[[nodiscard]] std::string compare_json(const Answer& answer, const CompareReport& report);
// The record of the trial, with the comparison's record, the gates and the patch.
[[nodiscard]] std::string trial_json(const Answer& answer, const TrialReport& report);
[[nodiscard]] std::string advice_json(const Answer& answer, const ProfileRun& run, const std::vector<Advice>& advice);
[[nodiscard]] std::string optimize_json(const Answer& answer, const OptimizeReport& report);
[[nodiscard]] std::string first_light_json(const Answer& answer, const FirstLightReport& report);
// Of --verify: {"bundle_sha256", "files", "problems"}
[[nodiscard]] std::string bundle_json(const Answer& answer, const BundleCheck& check);
[[nodiscard]] std::string selftest_json(const Answer& answer, const Record& record);
[[nodiscard]] std::string record_json(const Answer& answer, const Record& record);
[[nodiscard]] std::string records_json(const Answer& answer, const std::vector<Record>& records);
// {"holds", "records", "standing", "missing", "damaged", "problems", "notes"}
[[nodiscard]] std::string journal_state_json(const Answer& answer, const JournalState& state,
                                             const std::vector<Heading>& headings);
// {"holds", "journals", "records", "added", "duplicates", "conflicts", "refused", "problems", "notes"}
[[nodiscard]] std::string merge_json(const Answer& answer, const MergeReport& report);
[[nodiscard]] std::string shard_json(const Answer& answer, const ShardReport& report);
// {"format", "schema", "traces", "not_told"}
[[nodiscard]] std::string traces_json(const Answer& answer, const ExportedTraces& exported);
// {"format", "read", "added"}
[[nodiscard]] std::string imported_json(const Answer& answer, std::size_t read, std::size_t added);
[[nodiscard]] std::string side_by_side_json(const Answer& answer, const SideBySide& difference);
[[nodiscard]] std::string summary_json(const Answer& answer, const RunSummary& summary);
[[nodiscard]] std::string runs_json(const Answer& answer, const std::vector<RunSummary>& runs);
[[nodiscard]] std::string report_json(const Answer& answer, const RunReport& report,
                                      const std::vector<ReportedFile>& files);
[[nodiscard]] std::string completion_json(const Answer& answer, const std::string& shell, const std::string& script);
[[nodiscard]] std::string patterns_json(const Answer& answer, const std::vector<PatternTrial>& trials,
                                        const std::vector<PatternCount>& counts,
                                        const std::vector<Practice>& practices);
[[nodiscard]] std::string briefing_json(const Answer& answer, const Briefing& briefing);
[[nodiscard]] std::string status_json(const Answer& answer, const StatusReport& report);

// The JSON Schema of cudadent.toml, from the same table the reader uses.
[[nodiscard]] std::string schema_json();
// The JSON Schema of all answers above.
[[nodiscard]] std::string answers_schema_json();
// Of one command's short answers and its errors, small enough to be sent around: codes are texts there. `also` are
// fields, "name:type name?:type", that each of them has or may have besides.
[[nodiscard]] Json short_answers_schema(const std::string& command, const std::string& also);
// The table of codes.
[[nodiscard]] std::string codes_json(const Answer& answer);

}  // namespace flashmoe::workflow
