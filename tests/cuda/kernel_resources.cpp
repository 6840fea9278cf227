// What ptxas made of every kernel in the library, for every architecture it was built for.
//
//   kernel_resources [--json | --markdown]
//   kernel_resources LIBRARY        the same, and how large the library is
//
// Exit code 1 when a kernel spills or uses local memory, or when an instance of the list has no image: nothing that is
// shipped may. And when the library is too large for what it is.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "image_entries.hpp"
#include "images/cubin.hpp"
#include "kernels/cuda/attention/merge_params.hpp"
#include "kernels/cuda/launch/instances.hpp"

namespace flashmoe {
namespace {

// A kernel of the library, and how it is launched. The merge has no tile of rows and keys.
struct Shipped {
  std::string name;
  int threads, rows, keys;
  std::int64_t shared_bytes;
};

std::vector<Shipped> all_shipped() {
  std::vector<Shipped> all;
  for (const cuda::InstanceAxes& axes : cuda::listed_instances()) {
    const cuda::Tile tile = axes.tile();
    all.push_back({axes.name(), tile.threads(), tile.rows(), tile.keys, axes.shared_bytes()});
  }
  all.push_back({cuda::merge_name, cuda::merge_threads, 0, 0, 0});
  return all;
}

struct Row {
  std::string kernel;
  int architecture, threads, rows, keys, registers;
  std::int64_t shared_bytes, local_bytes, spill_bytes, code_bytes;
  int ctas_per_sm;
};

Result<Row> row_of(const Shipped& shipped, const FatbinEntry& image) {
  const auto cubin = read_cubin(image.bytes);
  if (!cubin) return cubin.error();
  const CubinKernel& kernel = cubin->kernels.at(0);
  const auto limits = find_architecture(fmt::format("sm_{}", image.sm));
  if (!limits) return limits.error();
  const int ctas = occupancy(*limits, {kernel.registers, shipped.threads, kernel.static_shared_bytes,
                                       shipped.shared_bytes, std::max(kernel.barriers, 1)})
                       .ctas_per_sm;
  return Row{shipped.name,
             image.sm,
             shipped.threads,
             shipped.rows,
             shipped.keys,
             kernel.registers,
             shipped.shared_bytes,
             kernel.frame_bytes,
             kernel.spill_store_bytes + kernel.spill_load_bytes,
             kernel.code_bytes,
             ctas};
}

void print_markdown(const std::vector<Row>& rows) {
  std::cout << "| kernel | sm | tile | threads | registers | spills, bytes | local, bytes | shared, bytes | CTAs per "
               "SM | code, "
               "bytes |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Row& r : rows) {
    const std::string tile = r.rows > 0 ? fmt::format("{} x {}", r.rows, r.keys) : "rows";
    std::cout << fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", r.kernel, r.architecture, tile,
                             r.threads, r.registers, r.spill_bytes, r.local_bytes, r.shared_bytes, r.ctas_per_sm,
                             r.code_bytes);
  }
}

void print_json(const std::vector<Row>& rows) {
  auto all = nlohmann::ordered_json::array();
  for (const Row& r : rows) {
    all.push_back({{"kernel", r.kernel},
                   {"architecture", r.architecture},
                   {"rows", r.rows},
                   {"keys", r.keys},
                   {"threads", r.threads},
                   {"registers", r.registers},
                   {"spill_bytes", r.spill_bytes},
                   {"local_bytes", r.local_bytes},
                   {"shared_bytes", r.shared_bytes},
                   {"ctas_per_sm", r.ctas_per_sm},
                   {"code_bytes", r.code_bytes}});
  }
  std::cout << all.dump(1) << '\n';
}

constexpr std::uintmax_t most_library_bytes = 25'000'000;

int run(const std::string& what) {
  std::vector<Row> rows;
  int complaints = 0;
  const auto complain = [&](const std::string& text) {
    std::cerr << text << '\n';
    ++complaints;
  };
  for (const Shipped& shipped : all_shipped()) {
    bool has_ptx = false;
    for (const FatbinEntry& image : testing::image_entries(shipped.name)) {
      has_ptx |= image.kind == FatbinEntry::Kind::ptx;
      if (image.kind != FatbinEntry::Kind::cubin) continue;
      const auto row = row_of(shipped, image);
      if (!row) {
        complain(fmt::format("{} for sm_{}: {}", shipped.name, image.sm, row.error().to_string()));
        continue;
      }
      if (row->spill_bytes != 0 || row->local_bytes != 0) {
        complain(fmt::format("{} for sm_{}: {} bytes of spills, {} of local memory; allowed: 0", row->kernel,
                             row->architecture, row->spill_bytes, row->local_bytes));
      }
      rows.push_back(*row);
    }
    if (!has_ptx) complain(shipped.name + ": the library should have it, and has no PTX of it");
  }
  if (rows.empty()) complain("the library has no cubin: it was built with no architecture or without a CUDA toolkit");
  if (!what.starts_with("--")) {
    const std::uintmax_t bytes = std::filesystem::file_size(what);
    std::cerr << fmt::format("{} bytes: {}\n", bytes, what);
    if (bytes > most_library_bytes) complain(fmt::format("the library is larger than {} bytes", most_library_bytes));
  }
  if (what == "--json") {
    print_json(rows);
  } else {
    print_markdown(rows);
  }
  std::set<int> architectures;
  for (const Row& row : rows) architectures.insert(row.architecture);
  std::cerr << fmt::format("{} kernels for {} architectures, {} complaints\n", rows.size(), architectures.size(),
                           complaints);
  return complaints == 0 ? 0 : 1;
}

}  // namespace
}  // namespace flashmoe

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "--markdown";
  if (argc > 2 || (what.starts_with("--") && what != "--json" && what != "--markdown")) {
    std::cerr << "usage: kernel_resources [--json | --markdown | LIBRARY]\n";
    return 2;
  }
  return flashmoe::run(what);
}
