// ldmatrix, stmatrix, movmatrix, mma: PTX ISA 9.7.14. The layouts are written as (lane, register, element) -> (row,
// column); everything else is a plain matrix product.
#include <algorithm>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

using Lanes = std::array<Thread*, 32>;

// All 32 lanes must be there: the instructions are .aligned.
std::vector<Step> all_lanes(Machine& machine, const Lanes& lanes, const ptx::Instruction& instruction) {
  std::vector<Step> steps;
  for (Thread* lane : lanes) {
    if (lane == nullptr) throw std::runtime_error("oracle: " + instruction.form() + " without all 32 lanes");
    steps.emplace_back(machine, *lane, instruction);
  }
  return steps;
}

// An 8x8 matrix of 16-bit elements: lane l holds elements (l/4, 2(l%4)) and (l/4, 2(l%4)+1), or of the transpose.
struct Spot {
  int row = 0, column = 0;
};
Spot spot_of(int lane, int element, bool transposed) {
  const Spot spot{lane / 4, 2 * (lane % 4) + element};
  return transposed ? Spot{spot.column, spot.row} : spot;
}

void load_matrices(std::vector<Step>& steps) {
  const auto count = elements(steps[0].operand(0)).size();
  const bool transposed = steps[0].has("trans");
  for (std::size_t matrix = 0; matrix < count; ++matrix)
    for (int lane = 0; lane < 32; ++lane) {
      Step& s = steps[static_cast<std::size_t>(lane)];
      Bits value = 0;
      for (int element = 0; element < 2; ++element) {
        const Spot spot = spot_of(lane, element, transposed);
        // Lane 8m + r holds the address of row r of matrix m.
        Step& holder = steps[matrix * 8 + static_cast<std::size_t>(spot.row)];
        const std::uint64_t row = holder.address(1, holder.space());
        if (row % 16 != 0) holder.unknown("a row is not aligned to 16 bytes");
        value |= s.machine.load(holder.thread, row + 2 * static_cast<std::uint64_t>(spot.column), 2) << (16 * element);
      }
      s.write(elements(s.operand(0))[matrix], value);
    }
}

void store_matrices(std::vector<Step>& steps) {
  const auto count = elements(steps[0].operand(1)).size();
  const bool transposed = steps[0].has("trans");
  for (std::size_t matrix = 0; matrix < count; ++matrix)
    for (int lane = 0; lane < 32; ++lane) {
      Step& s = steps[static_cast<std::size_t>(lane)];
      const Bits value = s.read(elements(s.operand(1))[matrix], "b32");
      for (int element = 0; element < 2; ++element) {
        const Spot spot = spot_of(lane, element, transposed);
        Step& holder = steps[matrix * 8 + static_cast<std::size_t>(spot.row)];
        const std::uint64_t row = holder.address(0, holder.space());
        holder.machine.store(holder.thread, row + 2 * static_cast<std::uint64_t>(spot.column), 2,
                             value >> (16 * element) & 0xffff);
      }
    }
}

void transpose_matrix(std::vector<Step>& steps) {
  Bits matrix[8][8] = {};
  for (int lane = 0; lane < 32; ++lane)
    for (int element = 0; element < 2; ++element) {
      const Spot spot = spot_of(lane, element, false);
      matrix[spot.row][spot.column] = steps[static_cast<std::size_t>(lane)].read(1, "b32") >> (16 * element) & 0xffff;
    }
  for (int lane = 0; lane < 32; ++lane) {
    Bits value = 0;
    for (int element = 0; element < 2; ++element) {
      const Spot spot = spot_of(lane, element, true);
      value |= matrix[spot.row][spot.column] << (16 * element);
    }
    steps[static_cast<std::size_t>(lane)].write(0, value);
  }
}

struct Shape {
  int m = 0, n = 0, k = 0;
};

Shape shape_of(const Step& s) {
  for (const std::string& word : s.instruction.modifiers) {
    Shape shape;
    if (std::sscanf(word.c_str(), "m%dn%dk%d", &shape.m, &shape.n, &shape.k) == 3) return shape;
  }
  s.unknown("it has no shape");
}

struct Matrix {
  int rows = 0, columns = 0;
  std::vector<Bits> values{};
  Matrix(int of_rows, int of_columns)
      : rows(of_rows), columns(of_columns), values(static_cast<std::size_t>(of_rows * of_columns)) {}
  Bits& at(int row, int column) { return values.at(static_cast<std::size_t>(row * columns + column)); }
};

int element_bits(std::string_view type) {
  return type_bits(type);
}

// Elements of one register: as many as fit in 32 bits, f64 and f32 one.
int per_register(std::string_view type) {
  return std::max(1, 32 / element_bits(type));
}

// A (m x k): group = lane / 4 is the row, and each register in turn goes 8 rows down, then 4 registers' worth to the
// right. B (k x n) the same along k, with the group as the column. C and D (m x n): two columns a lane.
Spot spot_in_a(int lane, int reg, int element, int pack, int m) {
  const int row_blocks = m / 8;
  return {lane / 4 + 8 * (reg % row_blocks), (lane % 4) * pack + element + (reg / row_blocks) * 4 * pack};
}
Spot spot_in_b(int lane, int reg, int element, int pack) {
  return {(lane % 4) * pack + element + reg * 4 * pack, lane / 4};
}
Spot spot_in_c(int lane, int index) {
  return {lane / 4 + 8 * (index / 2), (lane % 4) * 2 + index % 2};
}

template <class Where>
Matrix gather(std::vector<Step>& steps, std::size_t operand, std::string_view type, int rows, int columns,
              Where where) {
  Matrix matrix(rows, columns);
  const int pack = per_register(type), bits = element_bits(type);
  for (int lane = 0; lane < 32; ++lane) {
    Step& s = steps[static_cast<std::size_t>(lane)];
    const std::span<const ptx::Operand> registers = elements(s.operand(operand));
    for (std::size_t reg = 0; reg < registers.size(); ++reg) {
      const Bits held = s.read(registers[reg], bits == 64 ? "b64" : "b32");
      for (int element = 0; element < pack; ++element) {
        const Spot spot = where(lane, static_cast<int>(reg), element, pack);
        matrix.at(spot.row, spot.column) = held >> (bits * element) & mask_of(bits);
      }
    }
  }
  return matrix;
}

Bits dot_integers(const Step& s, Matrix& a, Matrix& b, Matrix& c, Spot at, std::string_view a_type,
                  std::string_view b_type) {
  const auto value = [](Bits bits, std::string_view type) {
    return type[0] == 's' ? sign_extend(bits, type_bits(type)) : static_cast<Signed>(bits);
  };
  Signed sum = sign_extend(c.at(at.row, at.column), 32);
  for (int k = 0; k < a.columns; ++k) sum += value(a.at(at.row, k), a_type) * value(b.at(k, at.column), b_type);
  if (s.has("satfinite")) sum = std::clamp<Signed>(sum, -(Signed{1} << 31), (Signed{1} << 31) - 1);
  return static_cast<Bits>(sum) & mask_of(32);
}

Number magnitude(Number x) {
  x.negative = false;
  return x;
}

Bits dot_floats(const Step& s, Matrix& a, Matrix& b, Matrix& c, Spot at, const std::array<std::string_view, 4>& types) {
  const bool magnitudes = s.machine.launch().mma_gives_magnitude;
  const auto number = [&](Bits bits, std::string_view type) {
    const Number x = decode(bits, format_of(type));
    return magnitudes ? magnitude(x) : x;
  };
  Number sum = number(c.at(at.row, at.column), types[3]);
  for (int k = 0; k < a.columns; ++k)
    sum = add(sum, multiply(number(a.at(at.row, k), types[1]), number(b.at(k, at.column), types[2])),
              Round::nearest_even);
  return encode(sum, format_of(types[0]), Round::nearest_even);
}

void multiply_matrices(std::vector<Step>& steps) {
  const Shape shape = shape_of(steps[0]);
  const std::array<std::string_view, 4> types = {steps[0].type(0), steps[0].type(1), steps[0].type(2),
                                                 steps[0].type(3)};
  const auto in_c = [](int lane, int reg, int element, int pack) { return spot_in_c(lane, reg * pack + element); };
  Matrix a = gather(steps, 1, types[1], shape.m, shape.k,
                    [&](int lane, int reg, int e, int pack) { return spot_in_a(lane, reg, e, pack, shape.m); });
  Matrix b = gather(steps, 2, types[2], shape.k, shape.n, spot_in_b);
  Matrix c = gather(steps, 3, types[3], shape.m, shape.n, in_c);
  Matrix d(shape.m, shape.n);
  const bool integers = types[0] == "s32";
  for (int row = 0; row < shape.m; ++row)
    for (int column = 0; column < shape.n; ++column)
      d.at(row, column) = integers ? dot_integers(steps[0], a, b, c, {row, column}, types[1], types[2])
                                   : dot_floats(steps[0], a, b, c, {row, column}, types);
  const int pack = per_register(types[0]), bits = element_bits(types[0]);
  for (int lane = 0; lane < 32; ++lane) {
    Step& s = steps[static_cast<std::size_t>(lane)];
    const std::span<const ptx::Operand> registers = elements(s.operand(0));
    for (std::size_t reg = 0; reg < registers.size(); ++reg) {
      Bits value = 0;
      for (int element = 0; element < pack; ++element) {
        const Spot spot = in_c(lane, static_cast<int>(reg), element, pack);
        value |= d.at(spot.row, spot.column) << (bits * element);
      }
      s.write(registers[reg], value);
    }
  }
}

}  // namespace

void matrix_op(Machine& machine, const Lanes& lanes, const ptx::Instruction& instruction) {
  std::vector<Step> steps = all_lanes(machine, lanes, instruction);
  const std::string_view opcode = instruction.opcode;
  if (opcode == "ldmatrix")
    load_matrices(steps);
  else if (opcode == "stmatrix")
    store_matrices(steps);
  else if (opcode == "movmatrix")
    transpose_matrix(steps);
  else
    multiply_matrices(steps);
}

}  // namespace flashmoe::vgpu::oracle
