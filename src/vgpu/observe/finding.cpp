#include "vgpu/observe/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "vgpu/ir/readable_name.hpp"
#include "vgpu/observe/source_place.hpp"

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::size_t dropped_index = std::numeric_limits<std::size_t>::max();

std::string coordinates(const exec::Dim3& at) {
  return fmt::format("({},{},{})", at.x, at.y, at.z);
}

// Files below the directory where the program was started, as one types them there.
std::string shown_file(const std::string& file) {
  std::error_code nowhere;
  const std::string here = std::filesystem::current_path(nowhere).string() + "/";
  return file.starts_with(here) ? file.substr(here.size()) : file;
}

}  // namespace

std::string_view name_of(Check check) {
  switch (check) {
    case Check::memcheck:
      return "memcheck";
    case Check::initcheck:
      return "initcheck";
    case Check::racecheck:
      return "racecheck";
    case Check::synccheck:
      return "synccheck";
  }
  return "?";
}

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::access:
      return "access";
    case Cause::order:
      return "order";
    case Cause::lanes:
      return "lanes";
    case Cause::value:
      return "value";
    case Cause::standstill:
      return "standstill";
  }
  return "?";
}

std::string Party::place() const {
  const std::string shown = instruction.empty() ? "" : ": " + instruction;
  if (source_line == 0) return fmt::format("PTX line {}{}", ptx_line, shown);
  std::string text = fmt::format("{}:{} (PTX line {}{})", shown_file(source_file), source_line, ptx_line, shown);
  if (!inlined.empty()) text += fmt::format(" [{}]", inlined);
  return text;
}

nlohmann::ordered_json Party::to_json() const {
  nlohmann::ordered_json json = {{"what", what}};
  if (source_line != 0) {
    json["source_file"] = source_file;
    json["source_line"] = source_line;
  }
  if (!inlined.empty()) json["inlined"] = inlined;
  json["ptx_line"] = ptx_line;
  json["instruction"] = instruction;
  json["block"] = {block.x, block.y, block.z};
  json["thread"] = {thread.x, thread.y, thread.z};
  return json;
}

std::string Finding::to_text() const {
  std::string text = fmt::format("{}: {}", name_of(check), message);
  if (address) text += fmt::format(" at {} address 0x{:x}", space, *address);
  if (buffer) {
    text += fmt::format(", {} {} {} bytes", buffer->what, buffer->offset < 0 ? '-' : '+', std::abs(buffer->offset));
    if (buffer->argument) text += fmt::format(" (argument {})", *buffer->argument + 1);
  }
  if (kernel.empty()) {
    if (!advice.empty()) text += fmt::format("\n  {}\n", advice);
    return text;
  }
  text += fmt::format("\n  in {} at {}, block {} thread {}", ir::readable_name(kernel), at.place(),
                      coordinates(at.block), coordinates(at.thread));
  if (other) {
    text += fmt::format("\n  against {} at {}, block {} thread {}", other->what, other->place(),
                        coordinates(other->block), coordinates(other->thread));
  }
  if (!advice.empty()) text += fmt::format("\n  {}", advice);
  if (times > 1) text += fmt::format("\n  seen {} times", times);
  return text + "\n";
}

nlohmann::ordered_json Finding::to_json() const {
  nlohmann::ordered_json json = {{"check", name_of(check)}, {"cause", name_of(cause)}, {"message", message}};
  if (!kernel.empty()) {
    json["kernel"] = ir::readable_name(kernel);
    json["at"] = at.to_json();
  }
  if (address) {
    json["space"] = space;
    json["address"] = fmt::format("0x{:x}", *address);
  }
  if (buffer) {
    json["buffer"] = {{"what", buffer->what}, {"bytes", buffer->bytes}, {"offset", buffer->offset}};
    if (buffer->argument) json["buffer"]["argument"] = *buffer->argument;
  }
  if (other) json["other"] = other->to_json();
  if (!advice.empty()) json["advice"] = advice;
  json["times"] = times;
  return json;
}

exec::Dim3 thread_of(const exec::Dim3& block, std::uint32_t number) {
  return {number % block.x, number / block.x % block.y, number / block.x / block.y};
}

exec::Dim3 block_of(const exec::Dim3& grid, std::uint64_t linear) {
  return {static_cast<std::uint32_t>(linear % grid.x), static_cast<std::uint32_t>(linear / grid.x % grid.y),
          static_cast<std::uint32_t>(linear / grid.x / grid.y)};
}

Party party(const ir::Kernel& kernel, std::uint32_t pc, const exec::Dim3& block, const exec::Dim3& thread) {
  Party party;
  party.pc = pc;
  party.block = block;
  party.thread = thread;
  if (pc >= kernel.info.size()) return party;
  const ir::InstInfo& info = kernel.info[pc];
  party.what = info.form.text();
  party.ptx_line = info.at.line;
  party.instruction = info.text;
  SourcePlace place = source_place(kernel, info);
  party.source_file = std::move(place.file);
  party.source_line = place.line;
  party.inlined = std::move(place.inlined);
  return party;
}

std::uint32_t FindingLog::first_at_place(std::uint32_t pc) {
  if (kernel_ == nullptr || pc >= kernel_->info.size()) return pc;
  const auto [known, is_new] = place_of_.try_emplace(pc, pc);
  if (is_new) {
    SourcePlace place = source_place(*kernel_, kernel_->info[pc]);
    if (place.line != 0) {
      known->second =
          first_at_.try_emplace({std::move(place.file), place.line, std::move(place.inlined)}, pc).first->second;
    }
  }
  return known->second;
}

bool FindingLog::is_new(Check check, std::uint32_t pc, std::uint32_t other_pc, std::uint32_t detail,
                        std::uint64_t times) {
  if (catch_up_) catch_up_();
  const Key key{check, first_at_place(pc), first_at_place(other_pc), detail};
  const auto [place, inserted] = known_.try_emplace(key, dropped_index);
  if (!inserted) {
    if (place->second != dropped_index) {
      findings_[place->second].times += times;
    } else {
      dropped_ += times;
    }
    return false;
  }
  if (findings_.size() >= most_) {
    dropped_ += times;
    return false;
  }
  place->second = findings_.size();
  return true;
}

void FindingLog::add(Finding finding) {
  findings_.push_back(std::move(finding));
}

std::vector<const Finding*> FindingLog::by_cause() const {
  std::vector<const Finding*> sorted;
  for (const Finding& finding : findings_) sorted.push_back(&finding);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->cause < b->cause; });
  return sorted;
}

void FindingLog::locate(const std::function<std::optional<BufferPlace>(std::uint64_t address)>& place_of) {
  for (Finding& finding : findings_) {
    const bool is_global = finding.space == "global" || finding.space == "generic";
    if (finding.address && is_global && !finding.buffer) finding.buffer = place_of(*finding.address);
  }
}

void FindingLog::next_kernel(const ir::Kernel* kernel) {
  kernel_ = kernel;
  known_.clear();
  first_at_.clear();
  place_of_.clear();
}

std::string FindingLog::to_text() const {
  std::string text;
  for (const Finding* finding : by_cause()) text += finding->to_text() + "\n";
  if (dropped_ > 0) text += fmt::format("{} further findings are not shown\n", dropped_);
  return text;
}

nlohmann::ordered_json FindingLog::to_json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding* finding : by_cause()) list.push_back(finding->to_json());
  return {{"findings", std::move(list)}, {"not_shown", dropped_}};
}

void FindingLog::clear() {
  findings_.clear();
  next_kernel(nullptr);
  dropped_ = 0;
}

}  // namespace flashmoe::vgpu::observe
