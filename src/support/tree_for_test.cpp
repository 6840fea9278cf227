#include "support/tree_for_test.hpp"

namespace flashmoe {

std::string in_sources(const std::string& path) {
  return std::string(FLASHMOE_SOURCE_TREE "/") + path;
}

std::string in_build(const std::string& path) {
  return std::string(FLASHMOE_BUILD_TREE "/") + path;
}

}  // namespace flashmoe
