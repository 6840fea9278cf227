// Fast runs: host threads take CTAs from one queue. A CTA that only waits for others goes back to the queue, so that
// grid barriers, locks and "the last CTA reduces" make progress whatever the number of host threads.
#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "vgpu/exec/cta.hpp"
#include "vgpu/exec/schedule.hpp"
#include "vgpu/exec/touched.hpp"

namespace flashmoe::vgpu::exec {

namespace {

// Long, because a warp's registers fill the first-level cache; loops that poll leave early of their own accord.
constexpr std::uint64_t default_slice = 1u << 16;
// Turns of all warps before another CTA gets the host thread although this one could go on.
constexpr int turns_per_stay = 16;

class Crew {
 public:
  Crew(Grid& grid, std::uint64_t resident)
      : grid_(grid), resident_(resident), total_(grid.launch->grid.count()), budget_(grid.launch->instruction_budget) {}

  std::uint64_t work() {
    std::uint64_t executed = 0;
    std::unique_ptr<Cta> cta;
    while (take(cta)) {
      const bool finished = stay(*cta, executed);
      give_back(std::move(cta), finished);
    }
    return executed;
  }

 private:
  // A new CTA as long as more may be resident, else one that waits for its turn. False: the grid is done.
  bool take(std::unique_ptr<Cta>& cta) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (grid_.stopped.load(std::memory_order_acquire)) {
        changed_.notify_all();
        return false;
      }
      if (next_ < total_ && live_ < resident_) {
        const std::uint64_t linear = next_++;
        ++live_;
        std::unique_ptr<Cta> used;
        if (!free_.empty()) {
          used = std::move(free_.back());
          free_.pop_back();
        }
        lock.unlock();
        cta = begin_cta(grid_, linear, static_cast<std::uint32_t>(linear % grid_.launch->sm_count), std::move(used));
        return true;
      }
      if (!waiting_.empty()) {
        cta = std::move(waiting_.front());
        waiting_.pop_front();
        return true;
      }
      if (live_ == 0) {
        changed_.notify_all();
        return false;
      }
      changed_.wait(lock);
    }
  }

  void give_back(std::unique_ptr<Cta> cta, bool finished) {
    const std::lock_guard lock(mutex_);
    if (finished) {
      --live_;
      free_.push_back(std::move(cta));
    } else {
      waiting_.push_back(std::move(cta));
    }
    changed_.notify_one();
  }

  // True: the CTA has ended.
  bool stay(Cta& cta, std::uint64_t& executed) {
    const std::uint64_t slice = grid_.launch->schedule.slice != 0 ? grid_.launch->schedule.slice : default_slice;
    for (int turn = 0; turn < turns_per_stay; ++turn) {
      bool anyone_ran = false, anyone_got_on = false;
      for (Warp& warp : cta.warps) {
        if (warp.state != WarpState::running) {
          continue;
        }
        anyone_ran = true;
        const Ran ran = run_warp(warp, slice);
        executed += ran.instructions;
        anyone_got_on = anyone_got_on || !warp.yielded;
        if (spend(ran.steps)) {
          raise_timeout(warp);
        }
        if (grid_.stopped.load(std::memory_order_relaxed)) {
          return true;
        }
      }
      if (cta.live_warps == 0) {
        return true;
      }
      if (!anyone_ran) {
        raise_deadlock(cta);
        return true;
      }
      if (!anyone_got_on) {
        return false;
      }
    }
    return false;
  }

  // True: nothing is left.
  bool spend(std::uint64_t steps) { return spent_.fetch_add(steps, std::memory_order_relaxed) + steps > budget_; }

  Grid& grid_;
  const std::uint64_t resident_, total_, budget_;
  std::atomic<std::uint64_t> spent_{0};
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::uint64_t next_ = 0, live_ = 0;
  std::deque<std::unique_ptr<Cta>> waiting_{};
  std::vector<std::unique_ptr<Cta>> free_{};
};

}  // namespace

std::uint64_t run_fast(Grid& grid, std::uint64_t resident, int host_threads) {
  Crew crew(grid, resident);
  const auto wanted = static_cast<std::uint64_t>(host_threads > 0 ? host_threads : std::thread::hardware_concurrency());
  const std::uint64_t threads = std::clamp<std::uint64_t>(wanted, 1, resident);
  std::atomic<std::uint64_t> executed{0}, dram_sectors{0};
  std::vector<std::thread> others;
  for (std::uint64_t i = 1; i < threads; ++i) {
    others.emplace_back([&, footprint = touched.footprint] {
      touched = {footprint, 0};
      executed += crew.work();
      dram_sectors += touched.dram_sectors;
    });
  }
  executed += crew.work();
  for (std::thread& other : others) {
    other.join();
  }
  touched.dram_sectors += dram_sectors;
  return executed;
}

}  // namespace flashmoe::vgpu::exec
