// The JSON of records and of what they are made of; here and nowhere else.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace flashmoe {
using Json = nlohmann::ordered_json;
}  // namespace flashmoe

namespace flashmoe::workflow {

struct Difference;
struct Evidence;
struct Finding;
struct Gain;
struct GateResult;
struct MachineFacts;
struct PairSample;
struct Record;
struct SelftestRecord;

[[nodiscard]] Json to_json(const Evidence& evidence);
[[nodiscard]] Json to_json(const Finding& finding);
[[nodiscard]] Json to_json(const GateResult& result);
[[nodiscard]] Json to_json(const Gain& gain);
[[nodiscard]] Json to_json(const MachineFacts& facts);
[[nodiscard]] Json to_json(const PairSample& sample);
[[nodiscard]] Json to_json(const Difference& difference);
[[nodiscard]] Json to_json(const SelftestRecord& record);
// What the writer knows, without what the journal adds.
[[nodiscard]] Json to_json(const Record& record);

// False when there is no log-ratio in it: then it is no pair.
[[nodiscard]] bool pair_from(const Json& json, PairSample& sample);

}  // namespace flashmoe::workflow
