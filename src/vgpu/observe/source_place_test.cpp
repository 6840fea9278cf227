#include "vgpu/observe/source_place.hpp"

#include <gtest/gtest.h>

namespace flashmoe::vgpu::observe {
namespace {

SourcePlace place_in(const char* header) {
  ir::Kernel kernel;
  kernel.files = {"", header, "/home/me/kernel.cu"};
  ir::InstInfo info;
  info.source_file = 1;
  info.source_line = 112;
  info.inlined = "header:112 in add, inlined at kernel.cu:7";
  return source_place(kernel, info);
}

TEST(SourcePlace, WhatTheToolkitsHeadersInlinedIsTheCallersLine) {
  for (const char* const header :
       {"/usr/local/cuda/include/sm_60_atomic_functions.hpp", "/usr/local/cuda-13.0/include/cooperative_groups.h",
        "/usr/local/cuda-13.0/include/cccl/cuda/std/__atomic/functions.h", "/opt/cuda-12.9/include/mma.hpp",
        "/usr/local/cuda-13.0/targets/x86_64-linux/include/mma.hpp", "/venv/nvidia/cu13/include/mma.hpp"}) {
    const SourcePlace place = place_in(header);
    EXPECT_EQ(place.file, "/home/me/kernel.cu") << header;
    EXPECT_EQ(place.line, 7) << header;
    EXPECT_EQ(place.inlined, "") << header;
  }
}

TEST(SourcePlace, ThePersonsOwnHeadersStay) {
  for (const char* const header : {"/home/me/cuda-kernels/include/row.cuh", "/home/me/cuda-12.9/row.cuh", "row.cuh"}) {
    const SourcePlace place = place_in(header);
    EXPECT_EQ(place.file, header);
    EXPECT_EQ(place.line, 112);
    EXPECT_NE(place.inlined, "");
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
