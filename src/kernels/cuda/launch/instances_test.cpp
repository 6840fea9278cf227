// The list of kernels: what a new head size or tile class must keep true.
#include "kernels/cuda/launch/instances.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "devices/device.hpp"

namespace flashmoe::cuda {
namespace {

TEST(Instances, ANumberIsTheAxesAndBack) {
  for (int code = 0; code < instance_codes; ++code) EXPECT_EQ(code_of(axes_of(code)), code);
  std::set<std::string> names;
  for (int code = 0; code < instance_codes; ++code) EXPECT_TRUE(names.insert(axes_of(code).name()).second);
}

TEST(Instances, TheListHasNoneTwiceAndAtMost96) {
  EXPECT_LE(listed_instances().size(), 96U);
  std::set<int> codes;
  for (const InstanceAxes& axes : listed_instances()) {
    EXPECT_TRUE(codes.insert(code_of(axes)).second) << axes.name();
    EXPECT_TRUE(is_listed(axes));
  }
}

TEST(Instances, CommonHeadSizesAreThere) {
  for (const fms_dtype dtype : {FMS_F16, FMS_BF16}) {
    for (const int dim : {64, 128})
      for (const TileClass tile_class : {TileClass::large, TileClass::small, TileClass::decode})
        for (const bool is_paged : {false, true})
          for (const bool is_modified : {false, true}) {
            const InstanceAxes axes{dtype, dim, tile_class, is_paged, is_modified};
            EXPECT_TRUE(is_listed(axes)) << axes.name();
          }
    // No tile is followed by one of four times its rows: the planner offers at most twice what a problem has.
    for (const int dim : {32, 256}) {
      const InstanceAxes axes{dtype, dim, TileClass::small, false, false};
      EXPECT_TRUE(is_listed(axes)) << axes.name();
    }
    for (const int dim : {32, 80, 96, 192, 256})
      for (const TileClass tile_class : {TileClass::large, TileClass::decode}) {
        const InstanceAxes axes{dtype, dim, tile_class, false, false};
        EXPECT_TRUE(is_listed(axes)) << axes.name();
      }
    // With pages too, in the same tiles as without.
    for (const int dim : {96, 192, 256})
      for (int i = 0; i < tile_classes; ++i) {
        InstanceAxes axes{dtype, dim, static_cast<TileClass>(i), false, false};
        const bool is_there = is_listed(axes);
        axes.is_paged = true;
        EXPECT_EQ(is_listed(axes), is_there) << axes.name();
      }
    for (const TileClass tile_class : {TileClass::large, TileClass::decode}) {
      const InstanceAxes axes{dtype, 192, tile_class, false, false, 128};
      EXPECT_TRUE(is_listed(axes)) << axes.name();
    }
  }
}

// Every tile there can be, listed or compiled when it is needed.
TEST(Instances, TilesFitTheSharedMemoryOfTheGpusTheyAreFor) {
  const int of_an_l4 = find_architecture("sm_89")->shared_bytes_per_cta_optin;
  const int of_an_a100 = find_architecture("sm_80")->shared_bytes_per_cta_optin;
  for (int code = 0; code < instance_codes; ++code) {
    const InstanceAxes axes = axes_of(code);
    const Tile tile = axes.tile();
    const int bytes = axes.shared_bytes();
    EXPECT_EQ(tile.keys % (16 * tile.key_warps), 0) << axes.name();
    EXPECT_LE(tile.threads(), 1024);
    if (axes.tile_class != TileClass::wide) {
      EXPECT_LE(bytes, of_an_l4) << axes.name();
    } else if (is_listed(axes)) {
      EXPECT_LE(bytes, of_an_a100) << axes.name();
    }
  }
}

}  // namespace
}  // namespace flashmoe::cuda
