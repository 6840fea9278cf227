#include "kernels/cpu/team.hpp"

#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace flashmoe::cpu {
namespace {

std::atomic<bool> parent_had_threads{false};
std::atomic<bool> is_child_without_them{false};

// Field 20 of /proc/self/stat, the 18th behind the name in parentheses; 0: not known.
int threads_of_this_process() {
  char text[1024];
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  const char* at = std::strrchr(text, ')');
  for (int field = 0; at != nullptr && field < 18; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr ? std::atoi(at) : 0;
}

void before_fork() {
  parent_had_threads = threads_of_this_process() != 1;
}

void in_child() {
  if (parent_had_threads) is_child_without_them = true;
}

// When the library is loaded: OpenMP's threads may be somebody else's, and older than our first call.
[[maybe_unused]] const int is_watching_forks = pthread_atfork(before_fork, nullptr, in_child);

// Threads that wait for each other's creation and do nothing.
class Trial {
 public:
  // Whether `count` more threads can be there at once.
  static bool succeeds(int count) {
    Trial trial;
    const int before = threads_of_this_process();
    int made = 0;
    for (; made < count && made < max_threads; ++made) {
      if (pthread_create(&trial.threads_[made], nullptr, wait, &trial) != 0) break;
    }
    trial.end();
    for (int i = 0; i < made; ++i) pthread_join(trial.threads_[i], nullptr);
    if (made > 0) wait_until_gone(before);
    return made == count;
  }

 private:
  static constexpr int max_threads = 4096;  // of a plan

  static void* wait(void* self) {
    auto* trial = static_cast<Trial*>(self);
    pthread_mutex_lock(&trial->mutex_);
    while (!trial->is_over_) pthread_cond_wait(&trial->over_, &trial->mutex_);
    pthread_mutex_unlock(&trial->mutex_);
    return nullptr;
  }
  void end() {
    pthread_mutex_lock(&mutex_);
    is_over_ = true;
    pthread_cond_broadcast(&over_);
    pthread_mutex_unlock(&mutex_);
  }

  // A joined thread counts against limits until the kernel has let go of it, a few microseconds later: the runtime's
  // threads would be refused in the place of ours. Others may come and go meanwhile, so not forever.
  static void wait_until_gone(int before) {
    for (int attempt = 0; attempt < 1000 && threads_of_this_process() > before; ++attempt) sched_yield();
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t over_ = PTHREAD_COND_INITIALIZER;
  bool is_over_ = false;
  pthread_t threads_[max_threads];
};

}  // namespace

int max_team() {
  return is_child_without_them.load(std::memory_order_relaxed) ? 1 : omp_get_max_threads();
}

int team_size(int wanted) {
  if (wanted <= 1 || is_child_without_them.load(std::memory_order_relaxed)) return 1;
  if (omp_get_active_level() >= omp_get_max_active_levels()) return 1;  // a region here has one thread in any case
  // Each thread that opens regions has a pool of its own.
  static thread_local int proven = 1;
  if (wanted > proven && Trial::succeeds(wanted - proven)) proven = wanted;
  return std::min(wanted, proven);
}

}  // namespace flashmoe::cpu
