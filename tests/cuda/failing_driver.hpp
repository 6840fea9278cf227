// A CUDA driver that passes everything on to another one (FLASHMOE_TEST_DRIVER), and misbehaves where it is told to.
// Loaded as FLASHMOE_DRIVER; a program that loads it too gives the orders. Nobody links it: its names are those of the
// driver behind it.
#pragma once

#define FMS_FAILING_DRIVER_API extern "C" __attribute__((visibility("default")))

enum class Mischief : int {
  none,
  refuse,         // CUDA_ERROR_UNKNOWN, and nothing is done
  out_of_memory,  // likewise
  late,           // does what it should, a while later
  too_small,      // succeeds, and gives back 0, -1 or nothing
  too_large,      // succeeds, and gives back more than there can be
};

// An order: all calls of the function after the next `first` ones, `count` of them. At most four.
FMS_FAILING_DRIVER_API void failing_driver_misbehave(const char* function, Mischief mischief, int first, int count);
// The names of all functions that were called, in the order of their first calls.
FMS_FAILING_DRIVER_API int failing_driver_called(const char** names, int capacity);
// Forgets all orders.
FMS_FAILING_DRIVER_API void failing_driver_behave();
// How often the first order was followed.
FMS_FAILING_DRIVER_API int failing_driver_followed();

// From now on it says that it is of this version, 12040 for CUDA 12.4.
FMS_FAILING_DRIVER_API void failing_driver_pretend(int version);
// How many images with cubins it was offered.
FMS_FAILING_DRIVER_API int failing_driver_cubins();
