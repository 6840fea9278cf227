#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

GateFacts::GateFacts() = default;
GateFacts::GateFacts(const GateFacts& other) = default;
GateFacts::GateFacts(GateFacts&& other) noexcept = default;
GateFacts& GateFacts::operator=(const GateFacts& other) = default;
GateFacts& GateFacts::operator=(GateFacts&& other) noexcept = default;
GateFacts::~GateFacts() = default;

}  // namespace flashmoe::workflow
