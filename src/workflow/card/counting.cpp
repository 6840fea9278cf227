#include "workflow/card/counting.hpp"

#include <fmt/format.h>

#include "runtime/counter_access.hpp"

namespace flashmoe::workflow {
namespace {

Result<Done> take_counters(CardCall& call, const std::vector<std::map<std::string, double>>& launches) {
  if (launches.size() != call.launches.size())
    return Diagnostic{.message = fmt::format("CUPTI counted {} launches where the call makes {}", launches.size(),
                                             call.launches.size())};
  for (std::size_t i = 0; i < launches.size(); ++i) call.launches[i].counted = launches[i];
  call.counted_by = CountedBy::cupti;
  return Done{};
}

template <class Counted>
Result<Done> ask(CardCall& call, const std::function<Result<Counted>()>& count) {
  const auto counted = count();
  if (!counted) return counted.error();
  return take_counters(call, *counted);
}

}  // namespace

ProfileRun profile_on_card(CardCall call, const Counting& counting) {
  call.counted_by = CountedBy::nobody;
  call.why_nobody = {};
  const auto refused = [&](const Diagnostic& why) {
    call.why_nobody.message += (call.why_nobody.message.empty() ? "" : "; ") + why.message;
    if (call.why_nobody.fix.empty()) call.why_nobody.fix = why.fix;
  };
  if (counting.by_cupti) {
    const auto counted = ask(call, counting.by_cupti);
    if (counted) return card_profile(call);
    refused(counted.error());
    // What is locked for one is locked for both, and ncu takes its time to say so.
    if (runtime::says_that_counters_are_locked(counted.error().message)) return card_profile(call);
  }
  if (counting.by_ncu) {
    const auto counted = ask(call, counting.by_ncu);
    if (counted) return card_profile(call);
    refused(counted.error());
  }
  return card_profile(call);
}

}  // namespace flashmoe::workflow
