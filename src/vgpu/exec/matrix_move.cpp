// ldmatrix and stmatrix (PTX ISA 9.7.14.5.15, .16): 8x8 matrices of 16-bit elements between rows of 16 bytes in shared
// memory and one register per matrix. Lane l of a register holds elements (l / 4, 2 (l % 4)) and the one beside it, so
// the 32 lanes of a register, in order, are the matrix row by row.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "vgpu/exec/addresses.hpp"
#include "vgpu/exec/host_access.hpp"
#include "vgpu/exec/lane_loop.hpp"
#include "vgpu/exec/memory_parts.hpp"

namespace flashmoe::vgpu::exec {

namespace {

constexpr std::uint32_t rows_per_matrix = 8;
constexpr std::uint32_t row_bytes = 16;

// Rows of eight elements as the compiler's own vectors.
using Row = std::uint16_t __attribute__((vector_size(16)));
struct Matrix {
  Row row[rows_per_matrix];
};

[[nodiscard]] inline Row low_halves(Row x, Row y) {
  return __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
}
[[nodiscard]] inline Row high_halves(Row x, Row y) {
  return __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
}

// In three rounds of interleaving.
[[nodiscard]] inline Matrix transposed(Matrix from) {
  for (int round = 0; round < 3; ++round) {
    Matrix step;
    for (int i = 0; i < 4; ++i) {
      step.row[2 * i] = low_halves(from.row[i], from.row[i + 4]);
      step.row[2 * i + 1] = high_halves(from.row[i], from.row[i + 4]);
    }
    from = step;
  }
  return from;
}

[[nodiscard]] inline std::uint32_t element(const Warp& warp, const ir::Inst& inst, std::uint32_t single, int index) {
  return inst.list == ir::no_slot ? single : warp.kernel->lists[inst.list + static_cast<std::uint32_t>(index)];
}

// The usual case, all lanes and 32-bit addresses of whole rows, in one pass; false: something needs a closer look.
template <int matrices, bool transpose>
[[nodiscard]] bool load_whole_warp(const Warp& warp, const ir::Inst& inst) {
  if (warp.exec != all_lanes || inst.wide_address || inst.a == ir::no_slot) {
    return false;
  }
  const std::uint32_t* const base = warp.slot(inst.a);
  const auto add = static_cast<std::uint32_t>(inst.imm);
  const std::uint32_t last = warp.shared_bytes - row_bytes;
  std::uint32_t offsets[rows_per_matrix * matrices];  // apart from a, which may be one of d
  std::uint32_t outside = last, misaligned = 0;
  for (std::uint32_t lane = 0; lane < rows_per_matrix * matrices; ++lane) {
    offsets[lane] = base[lane] + add;
    outside |= offsets[lane] | (last - offsets[lane]);  // the top bit: beyond the end
    misaligned |= offsets[lane];
  }
  if ((outside >> 31) != 0 || misaligned % row_bytes != 0) {
    return false;
  }
  for (int m = 0; m < matrices; ++m) {
    Matrix matrix;
    for (std::uint32_t i = 0; i < rows_per_matrix; ++i) {
      std::memcpy(&matrix.row[i], warp.shared + offsets[static_cast<std::uint32_t>(m) * rows_per_matrix + i],
                  row_bytes);
    }
    if constexpr (transpose) {
      matrix = transposed(matrix);
    }
    std::memcpy(warp.slot(element(warp, inst, inst.d, m)), &matrix, sizeof(matrix));
  }
  return true;
}

// Lanes 8 i to 8 i + 7 hold the row addresses of matrix i; the addresses of other lanes are not used.
template <Mode mode, int matrices>
[[nodiscard]] std::uint32_t resolve_rows(Warp& warp, const ir::Inst& inst, AccessKind kind, Targets& rows) {
  const std::uint32_t row_lanes = matrices == 4 ? all_lanes : (1u << (rows_per_matrix * matrices)) - 1;
  std::uint64_t addresses[lanes_per_warp];
  operand_addresses(warp, inst.a, inst.wide_address, inst.imm, addresses);
  // A generic address (ldmatrix without a space) must lie in the shared window; its offset is the low half.
  for (std::uint64_t& address : addresses) {
    address = address >> 56 == memory::shared_window >> 56 ? address - memory::shared_window : address;
  }
  const Request request{warp.exec & row_lanes, row_bytes, kind, true, {}, 0};
  return resolve_in<mode>(warp, inst, ir::Space::shared, request, addresses, rows);
}

template <Mode mode, int matrices, bool transpose>
void load_matrices(Warp& warp, const ir::Inst& inst) {
  if (mode == Mode::fast && load_whole_warp<matrices, transpose>(warp, inst)) {
    return;
  }
  Targets rows;
  const std::uint32_t lanes = resolve_rows<mode, matrices>(warp, inst, AccessKind::load, rows);
  if (lanes == 0) {
    return;
  }
  for (int m = 0; m < matrices; ++m) {
    Matrix matrix{};
    for (std::uint32_t row = 0; row < rows_per_matrix; ++row) {
      const std::uint32_t lane = static_cast<std::uint32_t>(m) * rows_per_matrix + row;
      if (((lanes >> lane) & 1) != 0) {
        std::memcpy(&matrix.row[row], reinterpret_cast<const void*>(rows.host[lane]), row_bytes);
      }
    }
    if constexpr (transpose) {
      matrix = transposed(matrix);
    }
    std::uint32_t* const to = warp.slot(element(warp, inst, inst.d, m));
    if (warp.exec == all_lanes) {
      std::memcpy(to, &matrix, sizeof(matrix));
    } else {
      std::uint32_t words[lanes_per_warp];
      std::memcpy(words, &matrix, sizeof(matrix));
      for_each_lane(warp.exec, [&](int lane) { to[lane] = words[lane]; });
    }
  }
}

template <Mode mode, int matrices, bool transpose>
void store_matrices(Warp& warp, const ir::Inst& inst) {
  Targets rows;
  const std::uint32_t lanes = resolve_rows<mode, matrices>(warp, inst, AccessKind::store, rows);
  for (int m = 0; m < matrices && lanes != 0; ++m) {
    Matrix matrix;
    std::memcpy(&matrix, warp.slot(element(warp, inst, inst.b, m)), sizeof(matrix));
    if constexpr (transpose) {
      matrix = transposed(matrix);
    }
    for (std::uint32_t row = 0; row < rows_per_matrix; ++row) {
      const std::uint32_t lane = static_cast<std::uint32_t>(m) * rows_per_matrix + row;
      if (((lanes >> lane) & 1) != 0) {
        std::memcpy(reinterpret_cast<void*>(rows.host[lane]), &matrix.row[row], row_bytes);
      }
    }
  }
}

template <Mode mode, bool transpose>
ir::Handler pick(bool loads, int matrices) {
  switch (matrices) {
    case 1:
      return loads ? &load_matrices<mode, 1, transpose> : &store_matrices<mode, 1, transpose>;
    case 2:
      return loads ? &load_matrices<mode, 2, transpose> : &store_matrices<mode, 2, transpose>;
    case 4:
      return loads ? &load_matrices<mode, 4, transpose> : &store_matrices<mode, 4, transpose>;
    default:
      return nullptr;
  }
}

}  // namespace

ir::Handler matrix_handler(const ir::Form& form, Mode mode) {
  const bool loads = form.opcode == "ldmatrix";
  if ((!loads && form.opcode != "stmatrix") || !form.has("m8n8") || !form.has("b16")) {
    return nullptr;
  }
  const int matrices = form.has("x4") ? 4 : form.has("x2") ? 2 : form.has("x1") ? 1 : 0;
  const bool transpose = form.has("trans");
  if (mode == Mode::fast) {
    return transpose ? pick<Mode::fast, true>(loads, matrices) : pick<Mode::fast, false>(loads, matrices);
  }
  return transpose ? pick<Mode::observed, true>(loads, matrices) : pick<Mode::observed, false>(loads, matrices);
}

}  // namespace flashmoe::vgpu::exec
