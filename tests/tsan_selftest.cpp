// Does the thread sanitizer see what it must, and only that? `barrier` is right and must pass: threads read what others
// wrote before an OpenMP barrier. `race` leaves the barrier out and must be reported. Built in the tsan preset only.
#include <array>
#include <cstdio>
#include <cstring>

#include <omp.h>

int main(int argc, char** argv) {
  const bool race = argc == 2 && std::strcmp(argv[1], "race") == 0;
  constexpr int threads = 4;
  std::array<long, threads> written{};
  std::array<long, threads> seen{};
  for (int round = 1; round <= 100; ++round) {
#pragma omp parallel num_threads(threads)
    {
      const auto self = static_cast<std::size_t>(omp_get_thread_num());
      written[self] = round;
      if (!race) {
#pragma omp barrier
      }
      seen[self] = written[(self + 1) % threads];
    }
  }
  std::printf("%ld\n", seen[0]);
}
