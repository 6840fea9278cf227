// JSON with the order of insertion kept, so that records and reports read the way they were written.
#pragma once

#include <nlohmann/json.hpp>

namespace flashmoe {

using Json = nlohmann::ordered_json;

}  // namespace flashmoe
