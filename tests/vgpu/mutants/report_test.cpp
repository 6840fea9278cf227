// The report of a launch: what is counted, how it is tagged, how it reads.
#include "vgpu/observe/counters/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "vgpu/mutants/bench.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::corpus {
namespace {

constexpr const char* text = R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry halves(.param .u64 in, .param .u64 out, .param .u64 work, .param .u32 n)
{
  .shared .align 16 .b8 tile[16384];
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .loc 1 3 1
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 48;
  @%p1 bra $skip;
  .loc 1 4 1
  mul.lo.u32 %r2, %r1, 128;
  mov.u32 %r3, tile;
  add.u32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
  .loc 1 5 1
  ld.param.u64 %rd1, [in];
  mul.wide.u32 %rd2, %r1, 8;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [%rd3];
$skip:
  .loc 1 6 1
  ret;
}
.file 1 "/src/halves.cu"
)";

constexpr const char* source =
    "__global__ void halves(...)\n{\n  if (threadIdx.x < 48) {\n    tile[threadIdx.x * 32] = x;\n    y = in[2 * "
    "threadIdx.x];\n  }\n}\n";

class ReportOf : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto module = ptx::parse(text, "halves.ptx");
    ASSERT_TRUE(module) << module.error().to_string();
    auto program = Program::load(*module, "halves");
    ASSERT_TRUE(program) << program.error().to_string();
    program_ = std::move(*program);
    Case how;
    how.name = "halves";
    how.grid = {2, 1, 1};
    how.block = {64, 1, 1};
    how.in_count = 512;
    how.out_count = 1;
    const auto seen = program_->run(how, {});
    ASSERT_TRUE(seen) << seen.error().to_string();
    ASSERT_EQ(seen->fault.kind, exec::Fault::Kind::none) << seen->fault.message;
    report_ = observe::make_report(program_->kernel(), seen->counts, observe::l4_shape(), image_);
  }
  [[nodiscard]] double value(const char* name) const {
    const observe::Metric* const metric = report_.find(name);
    EXPECT_NE(metric, nullptr) << name;
    return metric == nullptr ? -1 : metric->value;
  }
  [[nodiscard]] observe::Trust trust(const char* name) const {
    const observe::Metric* const metric = report_.find(name);
    return metric == nullptr ? observe::Trust::modelled : metric->trust;
  }

  observe::ImageFacts image_{};
  std::unique_ptr<Program> program_{};
  observe::Report report_{};
};

// Two blocks of two warps; the second warp of each loses 16 lanes at the branch.
TEST_F(ReportOf, CountsAreThoseOfThePtx) {
  // 3 instructions before the branch's target for all 4 warps, 8 for the lanes below 48 (all 4 warps have some), ret.
  EXPECT_EQ(value("vgpu__ptx_inst_executed.sum"), 4 * 3 + 4 * 8 + 4);
  EXPECT_EQ(value("vgpu__ptx_divergent_branches.sum"), 2);
  EXPECT_EQ(value("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"), 2 * (32 + 16));
  EXPECT_EQ(value("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"), 2 * (31 + 15));
  EXPECT_EQ(value("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"), 4);
  EXPECT_EQ(value("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"), 2 * (8 + 4));
  // Both blocks read the same 12 sectors; the second finds them in L2.
  EXPECT_EQ(value("vgpu__dram_bytes_read.sum"), 12 * 32);
}

TEST_F(ReportOf, EveryMetricSaysHowItCameAbout) {
  EXPECT_EQ(trust("vgpu__ptx_inst_executed.sum"), observe::Trust::exact);
  EXPECT_EQ(trust("vgpu__dram_bytes_read.sum"), observe::Trust::modelled);
  EXPECT_EQ(trust("vgpu__least_waves_per_multiprocessor"), observe::Trust::derived);
  EXPECT_EQ(report_.find("launch__waves_per_multiprocessor"), nullptr) << "registers are unknown, so it is a bound";
  const auto json = report_.to_json();
  for (const auto& metric : json["metrics"]) EXPECT_TRUE(metric.contains("trust"));
}

TEST_F(ReportOf, EdgesAddUp) {
  std::uint64_t taken = 0, fallen = 0;
  for (const observe::EdgeRow& edge : report_.edges) (edge.is_taken ? taken : fallen) += edge.counts.threads;
  EXPECT_EQ(taken, 2u * 16);
  EXPECT_EQ(fallen, 2u * 48);
}

TEST_F(ReportOf, JsonHasAllTables) {
  const auto json = report_.to_json();
  EXPECT_EQ(json["kernel"], "halves");
  EXPECT_EQ(json["registers"], "unknown");
  EXPECT_EQ(json["ptx_lines"].size(), 12u);
  ASSERT_EQ(json["source_lines"].size(), 4u);
  EXPECT_EQ(json["source_lines"][1]["line"], 4);
  EXPECT_EQ(json["source_lines"][1]["shared_bank_conflicts"], 92);
  EXPECT_EQ(json["edges"].size(), 2u);
}

TEST_F(ReportOf, TheSourceCarriesItsCounts) {
  const std::string view = observe::annotated_source(report_, "/src/halves.cu", source);
  EXPECT_NE(view.find("tile[threadIdx.x * 32] = x;  ◀ 92 bank conflicts (24.0x the wavefronts)"), std::string::npos)
      << view;
  EXPECT_NE(view.find("y = in[2 * threadIdx.x];  ◀ 2.0x the sectors"), std::string::npos) << view;
  EXPECT_NE(view.find("if (threadIdx.x < 48) {  ◀ 2 divergent"), std::string::npos) << view;
  const std::string brief = observe::summary(report_);
  EXPECT_NE(brief.find("2 CTAs of 64 threads on 58 SMs"), std::string::npos) << brief;
}

}  // namespace
}  // namespace flashmoe::vgpu::corpus
