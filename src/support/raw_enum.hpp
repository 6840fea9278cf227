// Reading an enum that a C caller filled: it may hold any int, and looking at it as an enum would then be undefined.
#pragma once

#include <cstring>

namespace flashmoe {

template <class Enum>
int raw_value(const Enum& stored) {
  static_assert(sizeof(Enum) == sizeof(int));
  int raw = 0;
  std::memcpy(&raw, &stored, sizeof raw);
  return raw;
}

}  // namespace flashmoe
