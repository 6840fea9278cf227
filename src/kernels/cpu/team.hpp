// How many threads a parallel region may ask OpenMP for. An OpenMP runtime ends the process when a thread cannot be
// made, and GNU's waits forever in a forked child for threads that stayed with the parent.
#pragma once

namespace flashmoe::cpu {

// OpenMP's maximum; 1 in a child forked from a process that had threads.
[[nodiscard]] int max_team();

// At most `wanted`, at least 1. The first time that the calling thread wants so many, they are made and ended once, all
// at the same time; if that fails, the team stays as large as it was. What a runtime cannot make later, because limits
// have become tighter meanwhile, still ends the process.
[[nodiscard]] int team_size(int wanted);

}  // namespace flashmoe::cpu
