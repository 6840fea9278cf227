// A record as the journal keeps it: what every one says, and the body of its kind. How it is written is in *_json.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "workflow/journal/batch_record.hpp"
#include "workflow/journal/chain.hpp"
#include "workflow/journal/compare_record.hpp"
#include "workflow/journal/difference.hpp"
#include "workflow/journal/gate_record.hpp"
#include "workflow/journal/iteration_record.hpp"
#include "workflow/journal/prices.hpp"
#include "workflow/journal/profile_record.hpp"
#include "workflow/journal/run_record.hpp"
#include "workflow/journal/selftest_record.hpp"
#include "workflow/journal/trace_record.hpp"
#include "workflow/verdict/evidence.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

// A commit to come back to: what held, where, and the command that showed it.
struct KnownGoodRecord {
  static constexpr const char* kind = "known_good";
  std::string of{};  // the record it was made of
  std::string summary{};
  std::optional<Recipe> recipe{};
  bool operator==(const KnownGoodRecord&) const = default;
};

struct ReproduceRecord {
  static constexpr const char* kind = "reproduce";
  std::optional<Prices> cost_per_hour{};
  std::string of{};
  bool exact = false;
  std::vector<std::string> argv{};
  std::string verdict_then{}, verdict_now{};
  std::string what_then{}, what_now{};
  std::vector<Difference> differs{};
  std::string summary{};
  bool operator==(const ReproduceRecord&) const = default;
};

// Of a kind this version does not know.
struct OtherRecord {
  std::string summary{}, note{};
  bool operator==(const OtherRecord&) const = default;
};

// A kind of record is one alternative, which names itself (`kind`), and its list of fields in a *_json.cpp.
using AnyRecordBody =
    std::variant<OtherRecord, GateRecord, CompareRecord, IterationRecord, ProfileRecord, RunRecord, SelftestRecord,
                 KnownGoodRecord, ReproduceRecord, BatchRecord, CountRecord, TraceRecord>;

// Copied and destroyed in record.cpp alone, as GateFacts are; a whole Record too.
struct RecordBody : AnyRecordBody {
  using AnyRecordBody::AnyRecordBody;
  RecordBody();
  RecordBody(const RecordBody& other);
  RecordBody(RecordBody&& other) noexcept;
  RecordBody& operator=(const RecordBody& other);
  RecordBody& operator=(RecordBody&& other) noexcept;
  ~RecordBody();
};

struct Record {
  Record();
  Record(const Record& other);
  Record(Record&& other) noexcept;
  Record& operator=(const Record& other);
  Record& operator=(Record&& other) noexcept;
  ~Record();

  std::string id{};              // content hash, 12 hex digits; empty: it was not written
  std::optional<Chain> chain{};  // unset: from before there were chains
  std::string kind{};            // the body's, or what the file says
  std::string time{};            // UTC, ISO 8601
  // What a writer leaves out of these the journal learns by itself.
  std::string run{};                    // CUDADENT_RUN, else the UTC day
  std::string project{};                // else the name of the directory
  std::optional<std::string> commit{};  // unset: git is asked; empty: there is none. Written: unset where there is none
  std::optional<bool> dirty{};
  std::string device = "cpu";
  std::string verdict = "none";
  std::optional<Evidence> evidence{};  // what the verdict stands on; else from the device
  double seconds = 0;
  Spent cost{};  // computed from the seconds and the body's prices
  Named<std::string> hashes{};
  std::optional<MachineFacts> environment{};
  int process = 0;  // who wrote it
  RecordBody body{};
  Standing standing = Standing::chained;  // as the journal found it
  std::string standing_why{};             // when it is not in this writer's chain
  std::string line{};                     // the whole record as JSON, with fields that only other versions know

  template <class Body>
  [[nodiscard]] const Body* as() const {
    return std::get_if<Body>(&body);
  }
};

// The kinds there are, for people to choose from.
[[nodiscard]] std::vector<std::string> record_kinds();

}  // namespace flashmoe::workflow
