#include "vgpu/micro/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace flashmoe::vgpu::micro {

namespace {

constexpr std::uint32_t stride_unit = 64;

std::uint32_t align_up(std::uint32_t value, std::uint32_t align) {
  return (value + align - 1) / align * align;
}

}  // namespace

Writer::Writer(std::string form, std::uint32_t threads, Random& random) : random_(random), inputs_(threads) {
  kernel_.form = std::move(form);
  kernel_.threads = threads;
}

std::string Writer::fresh(int bits) {
  const std::string name = fmt::format("%v{}", registers_++);
  declarations_ += bits == 1 ? fmt::format("  .reg .pred {};\n", name) : fmt::format("  .reg .b{} {};\n", bits, name);
  return name;
}

std::string Writer::input(int bits, const std::function<std::uint64_t()>& value) {
  const std::uint32_t offset = reserve_input(8, value);
  const std::string reg = fresh(bits);
  line(fmt::format("ld.global.b{} {}, [%in+{}];", bits, reg, offset));
  return reg;
}

std::string Writer::input_predicate(const std::function<bool()>& value) {
  const std::string loaded = input(32, [&] { return std::uint64_t{value()}; });
  const std::string predicate = fresh(1);
  line(fmt::format("setp.ne.b32 {}, {}, 0;", predicate, loaded));
  return predicate;
}

std::uint32_t Writer::reserve_input(std::uint32_t bytes, const std::function<std::uint64_t()>& word) {
  input_end_ = align_up(input_end_, bytes);
  const std::uint32_t offset = input_end_;
  input_end_ += bytes;
  for (std::vector<std::uint8_t>& record : inputs_) {
    record.resize(input_end_);
    for (std::uint32_t at = 0; at < bytes; at += 8) {
      const std::uint64_t value = word();
      std::memcpy(record.data() + offset + at, &value, std::min<std::size_t>(8, bytes - at));
    }
  }
  return offset;
}

std::uint32_t Writer::reserve_output(std::uint32_t bytes, std::uint32_t align) {
  output_end_ = align_up(output_end_, align);
  const std::uint32_t offset = output_end_;
  output_end_ += bytes;
  return offset;
}

void Writer::output(const std::string& reg, int bits, Field field) {
  field.offset = reserve_output(8, 8);
  line(fmt::format("st.global.b{} [%out+{}], {};", bits, field.offset, reg));
  kernel_.fields.push_back(std::move(field));
}

void Writer::output_predicate(const std::string& predicate) {
  const std::string value = fresh(32);
  line(fmt::format("selp.b32 {}, 1, 0, {};", value, predicate));
  output(value, 32, {0, "b32", {}});
}

MicroKernel Writer::finish() {
  kernel_.input_stride = std::max(stride_unit, align_up(input_end_, stride_unit));
  kernel_.output_stride = std::max(stride_unit, align_up(output_end_, stride_unit));
  for (std::vector<std::uint8_t>& record : inputs_) {
    record.resize(kernel_.input_stride);
    kernel_.input.insert(kernel_.input.end(), record.begin(), record.end());
  }
  const std::string block = kernel_.block.empty() ? "" : ", .param .align 64 .b8 block[128]";
  kernel_.text = fmt::format(
      ".version 9.0\n.target sm_90\n.address_size 64\n{}.visible .entry k(.param .u64 inputs, .param .u64 "
      "results{}) {{\n"
      "  .reg .b64 %in, %out;\n  .reg .b32 %thread, %lane;\n{}"
      "  ld.param.u64 %in, [inputs];\n  ld.param.u64 %out, [results];\n"
      "  mov.u32 %thread, %tid.x;\n  mov.u32 %lane, %laneid;\n"
      "  mad.wide.u32 %in, %thread, {}, %in;\n  mad.wide.u32 %out, %thread, {}, %out;\n{}  ret;\n}}\n",
      module_, block, declarations_, kernel_.input_stride, kernel_.output_stride, body_);
  return kernel_;
}

}  // namespace flashmoe::vgpu::micro
