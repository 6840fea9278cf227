#include "vgpu/oracle/machine.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

constexpr std::uint64_t slice = 64;  // instructions of a thread before another has its turn: spin-waits end

}  // namespace

void Machine::run() {
  for (block_.z = 0; block_.z < launch_.grid.z; ++block_.z)
    for (block_.y = 0; block_.y < launch_.grid.y; ++block_.y)
      for (block_.x = 0; block_.x < launch_.grid.x; ++block_.x) run_block();
}

void Machine::run_block() {
  const Program& entry = image_.functions.at(launch_.entry);
  const Dim3 size = launch_.block;
  shared_.assign(image_.shared_bytes + launch_.dynamic_shared_bytes, 0);
  barriers_ = {};
  threads_.clear();
  for (std::uint32_t z = 0; z < size.z; ++z)
    for (std::uint32_t y = 0; y < size.y; ++y)
      for (std::uint32_t x = 0; x < size.x; ++x) {
        Thread thread;
        const auto index = static_cast<int>(threads_.size());
        thread.id = {x, y, z};
        thread.lane = index % 32;
        thread.warp = index / 32;
        Frame frame;
        frame.program = &entry;
        frame.parameters = launch_.parameters;
        // Registers of call sequences live behind the kernel's own parameters.
        for (const auto& [name, place] : entry.variables)
          if (place.space == "param" && place.offset + place.bytes > frame.parameters.size())
            frame.parameters.resize(place.offset + place.bytes);
        thread.frames.push_back(frame);
        thread.local.assign(entry.local_bytes, 0);
        threads_.push_back(thread);
      }

  while (true) {
    bool progress = false, all_exited = true;
    for (Thread& thread : threads_) progress = run_thread(thread) || progress;
    for (Thread& thread : threads_) progress = run_collective(thread) || progress;
    for (const Thread& thread : threads_) all_exited = all_exited && thread.state == Thread::State::exited;
    if (all_exited) return;
    if (progress) continue;
    // A barrier without a count waits for every thread that has not ended.
    std::uint32_t live = 0;
    for (const Thread& thread : threads_) live += thread.state != Thread::State::exited;
    for (Barrier& barrier : barriers_)
      if (!barrier.waiting.empty() && barrier.expected == 0 && barrier.arrived >= live) {
        release(barrier);
        progress = true;
      }
    if (!progress) throw std::runtime_error("oracle: the threads of a block wait for each other for ever");
  }
}

bool Machine::run_thread(Thread& thread) {
  bool progress = false;
  for (std::uint64_t i = 0; i < slice && thread.state == Thread::State::running; ++i) {
    if (++executed_ > launch_.instruction_budget) throw std::runtime_error("oracle: the instruction budget is used up");
    const ptx::Instruction& instruction = thread.instruction();
    Step step(*this, thread, instruction);
    if (step.is_guarded_off()) {
      ++thread.frame().pc;
      progress = true;
      continue;
    }
    const auto [known, is_new] = known_.try_emplace(&instruction);
    if (is_new) known->second.is_collective = is_collective(instruction);
    if (known->second.is_collective) {
      thread.state = Thread::State::collective;
      return true;
    }
    progress = true;
    run_op(step, known->second.group);
  }
  return progress;
}

void Machine::run_op(Step& step, Group& group) {
  constexpr Group groups[] = {control_op, integer_op, logic_op,    float_op, compare_op,
                              convert_op, move_op,    mbarrier_op, memory_op};
  if (group != nullptr) {
    static_cast<void>(group(step));
  } else {
    const auto knows = [&](Group candidate) { return candidate(step); };
    const auto found = std::find_if(std::begin(groups), std::end(groups), knows);
    if (found == std::end(groups)) step.unknown("the oracle does not know it");
    group = *found;
  }
  if (group != control_op) ++step.thread.frame().pc;
}

std::array<Thread*, 32> Machine::warp_of(const Thread& thread) {
  std::array<Thread*, 32> lanes{};
  for (Thread& other : threads_)
    if (other.warp == thread.warp) lanes[static_cast<std::size_t>(other.lane)] = &other;
  return lanes;
}

bool Machine::run_collective(Thread& thread) {
  if (thread.state != Thread::State::collective) return false;
  const ptx::Instruction& instruction = thread.instruction();
  Step step(*this, thread, instruction);
  const std::uint32_t members = member_mask(step);
  std::array<Thread*, 32> lanes = warp_of(thread);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const bool named = (members >> lane & 1) != 0;
    if (!named || lanes[lane] == nullptr || lanes[lane]->state == Thread::State::exited) {
      lanes[lane] = nullptr;
      continue;
    }
    const Thread& other = *lanes[lane];
    const bool here = other.state == Thread::State::collective && other.frames.size() == thread.frames.size() &&
                      other.frames.back().program == thread.frames.back().program &&
                      other.frames.back().pc == thread.frames.back().pc;
    if (!here) return false;
  }
  collective_op(*this, lanes, instruction);
  for (Thread* lane : lanes)
    if (lane != nullptr) {
      lane->state = Thread::State::running;
      ++lane->frame().pc;
    }
  return true;
}

void Machine::arrive(Thread& thread, int number, std::uint32_t expected, bool waits, bool predicate) {
  Barrier& barrier = barriers_.at(static_cast<std::size_t>(number));
  if (expected != 0) barrier.expected = expected;
  ++barrier.arrived;
  barrier.popc += predicate ? 1 : 0;
  barrier.all = barrier.all && predicate;
  barrier.any = barrier.any || predicate;
  if (waits) {
    barrier.waiting.push_back(static_cast<std::size_t>(&thread - threads_.data()));
    thread.state = Thread::State::barrier;
    thread.barrier = number;
  } else {
    ++thread.frame().pc;
  }
  if (barrier.expected != 0 && barrier.arrived == barrier.expected) release(barrier);
}

void Machine::release(Barrier& barrier) {
  for (const std::size_t index : barrier.waiting) {
    Thread& thread = threads_[index];
    const ptx::Instruction& instruction = thread.instruction();
    Step step(*this, thread, instruction);
    if (step.has("red")) {
      if (step.has("popc"))
        step.write(0, barrier.popc);
      else
        step.write(0, step.has("and") ? barrier.all : barrier.any);
    }
    thread.state = Thread::State::running;
    ++thread.frame().pc;
  }
  barrier = {};
}

std::uint8_t* Machine::bytes_at(Thread& thread, std::uint64_t address, std::uint64_t count) {
  const auto within = [&](std::vector<std::uint8_t>& bytes, std::uint64_t base) -> std::uint8_t* {
    if (address < base || address - base > bytes.size() || count > bytes.size() - (address - base)) return nullptr;
    return bytes.data() + (address - base);
  };
  std::uint8_t* found = nullptr;
  if (address >= module_base && address < module_base + space_bytes)
    found = within(module_data_, module_base);
  else if (address >= parameter_base && address < parameter_base + space_bytes)
    found = within(thread.frame().parameters, parameter_base);
  else if (address >= local_base && address < local_base + space_bytes)
    found = within(thread.local, local_base);
  else if (address >= shared_base && address < shared_base + space_bytes)
    found = within(shared_, shared_base);
  else if (auto range = global_.ranges.upper_bound(address); range != global_.ranges.begin()) {
    --range;
    found = within(range->second, range->first);
  }
  if (found == nullptr)
    throw std::runtime_error("oracle: " + std::to_string(count) + " bytes at " + std::to_string(address) +
                             " are nobody's, line " + std::to_string(thread.instruction().at.line));
  if (count != 0 && (count & (count - 1)) == 0 && address % count != 0)
    throw std::runtime_error("oracle: misaligned address " + std::to_string(address));
  return found;
}

Bits Machine::load(Thread& thread, std::uint64_t address, int bytes) {
  Bits value = 0;
  std::memcpy(&value, bytes_at(thread, address, static_cast<std::uint64_t>(bytes)), static_cast<std::size_t>(bytes));
  return value;
}

void Machine::store(Thread& thread, std::uint64_t address, int bytes, Bits value) {
  std::memcpy(bytes_at(thread, address, static_cast<std::uint64_t>(bytes)), &value, static_cast<std::size_t>(bytes));
}

}  // namespace flashmoe::vgpu::oracle
