// Every function that flashmoe.h exports, called as a careful user would; any one of its pointers can be NULL instead.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "flashmoe/flashmoe.h"

namespace flashmoe::testing {

struct PointerParameter {
  const char* name;
  bool is_required;  // NULL is the caller's mistake; else it means something or nothing happens
};

// `null_at`: which pointer parameter is NULL, -1: none. Functions without a status answer FMS_OK when they return.
struct EveryCall {
  const char* function;
  std::vector<PointerParameter> pointers;
  std::function<fms_status(int null_at, fms_error* error)> call;
};

// What the calls work on. One problem small enough for any device, with a workspace.
struct CallSetting {
  fms_context_options options{};
  const fms_context* context = nullptr;
  fms_attention_problem problem{};
  fms_attention_plan plan{};
  fms_attention_args args{};
  void* workspace = nullptr;
};

std::vector<EveryCall> every_call(const CallSetting& setting);

// The functions that a header declares with FMS_API.
std::vector<std::string> exported_functions(const std::string& header);

}  // namespace flashmoe::testing
