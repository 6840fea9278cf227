#include "api/alias_checks.hpp"

#include <cstdint>

#include "api/strided_overlap.hpp"
#include "plan/index_arrays.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::api {
namespace {

using plan::element_bytes;
using plan::has;

std::uintptr_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Where an element lies behind the first. Unsigned: the stride of an axis of one element may be anything.
std::uintptr_t offset(int64_t index, int64_t stride, int64_t bytes) {
  return static_cast<std::uintptr_t>(index) * static_cast<std::uintptr_t>(stride) * static_cast<std::uintptr_t>(bytes);
}

// The stride of a single element leads nowhere.
StridedAxis axis_of(int64_t count, int64_t stride, int64_t bytes) {
  return {count, count > 1 ? stride * bytes : 0};
}

StridedBytes rows_of(const void* base, int64_t bytes, int64_t inner, const fms_strides& s, int64_t batch, int64_t heads,
                     plan::RowRange rows) {
  return {address(base) + offset(rows.first, s.seq, bytes),
          inner * bytes,
          {axis_of(batch, s.batch, bytes), axis_of(heads, s.head, bytes), axis_of(rows.count, s.seq, bytes), {1, 0}}};
}

fms_status refuse(const char* written, const char* read, const char* exception, fms_error* error) {
  return fail(error, FMS_INVALID_ARGUMENT, written,
              "%s shares memory with %s, which is still read when %s is written; allowed: memory of its own, which may "
              "lie between the elements of %s%s",
              written, read, written, read, exception);
}

// ---- run -----------------------------------------------------------------------------------------------------------

enum Which {
  o,
  lse,
  workspace,
  q,
  k,
  v,
  bias,
  bias2,
  mask,
  k_scales,
  v_scales,
  sinks,
  cu_q,
  cu_kv,
  kv_lengths,
  kv_starts,
  q_lengths,
  block_table,
  which_count
};
constexpr Which first_read = q;
constexpr const char* names[which_count] = {
    "args.o",    "args.lse",   "workspace",       "args.q",         "args.k",         "args.v",
    "args.bias", "args.bias2", "args.mask",       "args.k_scales",  "args.v_scales",  "args.sinks",
    "args.cu_q", "args.cu_kv", "args.kv_lengths", "args.kv_starts", "args.q_lengths", "args.block_table"};

class Memory {
 public:
  Memory(const fms_attention_plan& plan, const fms_attention_args& args, const void* workspace_address)
      : plan_(plan), p_(plan.problem), args_(args), workspace_(workspace_address) {}

  // As the problem describes it; no bytes where it has no such thing.
  [[nodiscard]] StridedBytes described(Which which) const {
    constexpr StridedBytes nothing{0, 0};
    switch (which) {
      case o:
      case q:
        return query_rows(which, {0, all_query_rows()});
      case lse:
        return has(p_, FMS_LSE) ? query_rows(which, {0, all_query_rows()}) : nothing;
      case k:
      case v:
        return p_.kv_len > 0 ? all_keys(which) : nothing;
      case workspace:
        return {address(workspace_), static_cast<int64_t>(plan_.workspace_bytes)};
      case bias:
        return has(p_, FMS_BIAS) && p_.kv_len > 0 ? score_terms(args_.bias, element_bytes(p_.bias_dtype), p_.bias)
                                                  : nothing;
      case bias2:
        return has(p_, FMS_BIAS2) && p_.kv_len > 0 ? score_terms(args_.bias2, element_bytes(p_.bias2_dtype), p_.bias2)
                                                   : nothing;
      case mask:
        return has(p_, FMS_MASK) && p_.kv_len > 0 ? score_terms(args_.mask, 1, p_.mask) : nothing;
      case k_scales:
        return has(p_, FMS_KV_SCALES) ? StridedBytes{address(args_.k_scales), p_.kv_heads * 4} : nothing;
      case v_scales:
        return has(p_, FMS_KV_SCALES) ? StridedBytes{address(args_.v_scales), p_.kv_heads * 4} : nothing;
      case sinks:
        return has(p_, FMS_SINKS) ? StridedBytes{address(args_.sinks), p_.q_heads * 4} : nothing;
      case cu_q:
        return has(p_, FMS_RAGGED_Q) ? StridedBytes{address(args_.cu_q), (p_.batch + 1) * 4} : nothing;
      case cu_kv:
        return has(p_, FMS_RAGGED_KV) ? StridedBytes{address(args_.cu_kv), (p_.batch + 1) * 4} : nothing;
      case kv_lengths:
        return has(p_, FMS_KV_LENGTHS) ? StridedBytes{address(args_.kv_lengths), p_.batch * 4} : nothing;
      case kv_starts:
        return has(p_, FMS_KV_STARTS) ? StridedBytes{address(args_.kv_starts), p_.batch * 4} : nothing;
      case q_lengths:
        return has(p_, FMS_Q_LENGTHS) ? StridedBytes{address(args_.q_lengths), p_.batch * 4} : nothing;
      case block_table:
        return has(p_, FMS_PAGED_KV) && p_.kv_len > 0 ? table_entries() : nothing;
      case which_count:
        break;
    }
    return nothing;
  }

  // Of rows, keys and pages those that the index arrays lead to, where they can be read.
  [[nodiscard]] bool share(Which written, Which read) const {
    const StridedBytes bytes = existing_rows(written);
    if (read != k && read != v) return have_common_bytes(bytes, existing_rows(read));
    if (!have_common_bytes(bytes, all_keys(read))) return false;
    if (plan_.device_kind == FMS_DEVICE_CUDA) return true;
    for (int64_t sequence = 0; sequence < p_.batch; ++sequence) {
      if (hits_keys_of(sequence, bytes, read)) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] int64_t all_query_rows() const { return has(p_, FMS_RAGGED_Q) ? p_.total_q : p_.q_len; }

  [[nodiscard]] StridedBytes query_rows(Which which, plan::RowRange rows) const {
    const int64_t batch = has(p_, FMS_RAGGED_Q) ? 1 : p_.batch;
    if (which == lse) return rows_of(args_.lse, 4, 1, p_.lse, batch, p_.q_heads, rows);
    if (which == o) {
      return rows_of(args_.o, element_bytes(plan::output_dtype(p_)), p_.value_dim, p_.o, batch, p_.q_heads, rows);
    }
    return rows_of(args_.q, element_bytes(p_.dtype), p_.head_dim, p_.q, batch, p_.q_heads, rows);
  }

  [[nodiscard]] StridedBytes existing_rows(Which which) const {
    const bool is_packed = has(p_, FMS_RAGGED_Q) && plan_.device_kind == FMS_DEVICE_CPU;
    if (!is_packed || (which != o && which != lse && which != q)) return described(which);
    // Sequences are neighbours: from the first one's first row to the last one's last.
    const int64_t first = plan::between(plan::read_index(args_.cu_q), 0, p_.total_q);
    const int64_t last = plan::between(plan::read_index(args_.cu_q + p_.batch), first, p_.total_q);
    return query_rows(which, {first, last - first});
  }

  [[nodiscard]] StridedBytes key_rows(Which which, int64_t first_batch, int64_t batch, plan::RowRange rows) const {
    const fms_strides& s = which == k ? p_.k : p_.v;
    const int64_t bytes = plan::kv_element_bytes(p_);
    StridedBytes keys = which == k ? rows_of(args_.k, bytes, p_.head_dim, s, batch, p_.kv_heads, rows)
                                   : rows_of(args_.v, bytes, p_.value_dim, s, batch, p_.kv_heads, rows);
    keys.base += offset(first_batch, s.batch, bytes);
    return keys;
  }

  [[nodiscard]] StridedBytes all_keys(Which which) const {
    if (has(p_, FMS_PAGED_KV)) return key_rows(which, 0, p_.page_count, {0, p_.page_size});
    if (has(p_, FMS_RAGGED_KV)) return key_rows(which, 0, 1, {0, p_.total_kv});
    return key_rows(which, 0, p_.batch, {0, p_.kv_len});
  }

  [[nodiscard]] bool hits_keys_of(int64_t sequence, const StridedBytes& written, Which read) const {
    const plan::RowRange keys = plan::kv_rows(p_, args_, sequence);
    if (!has(p_, FMS_PAGED_KV)) {
      const int64_t batch = has(p_, FMS_RAGGED_KV) ? 0 : sequence;
      return have_common_bytes(written, key_rows(read, batch, 1, keys));
    }
    const int32_t* pages = args_.block_table + sequence * p_.block_table_stride;
    for (int64_t first = 0; first < keys.count; first += p_.page_size) {
      const int64_t page = plan::page_at(pages + first / p_.page_size, p_.page_count);
      const int64_t rows = plan::between(keys.count - first, 0, p_.page_size);
      if (have_common_bytes(written, key_rows(read, page, 1, {0, rows}))) return true;
    }
    return false;
  }

  [[nodiscard]] StridedBytes score_terms(const void* base, int64_t bytes, const fms_bias_strides& s) const {
    return {address(base),
            bytes,
            {axis_of(plan::bias_entries(p_, s), s.batch, bytes), axis_of(p_.q_heads, s.head, bytes),
             axis_of(p_.q_len, s.q, bytes), axis_of(p_.kv_len, s.kv, bytes)}};
  }

  // The last sequence's row of the table may be cut off behind its pages.
  [[nodiscard]] StridedBytes table_entries() const {
    const int64_t pages = (p_.kv_len + p_.page_size - 1) / p_.page_size;
    return {
        address(args_.block_table), pages * 4, {axis_of(p_.batch, p_.block_table_stride, 4), {1, 0}, {1, 0}, {1, 0}}};
  }

  const fms_attention_plan& plan_;
  const fms_attention_problem& p_;
  const fms_attention_args& args_;
  const void* workspace_;
};

struct Range {
  std::uintptr_t begin = 0, end = 0;

  explicit Range(const StridedBytes& bytes) {
    if (!bytes.is_empty()) begin = bytes.base, end = bytes.end();
  }
  Range() = default;
  [[nodiscard]] bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

// Ranges meet: rare, and worth a closer look.
__attribute__((noinline)) fms_status check_pair(const Memory& memory, Which written, Which read, fms_error* error) {
  const bool is_in_place = written == o && read == q && memory.described(o).is_same(memory.described(q));
  if (is_in_place || !memory.share(written, read)) return FMS_OK;
  return refuse(names[written], names[read], read == q && written == o ? ", or exactly args.q" : "", error);
}

}  // namespace

fms_status check_aliases(const fms_attention_plan& plan, const fms_attention_args& args, const void* workspace_address,
                         fms_error* error) {
  if (plan::is_empty(plan.problem)) return FMS_OK;
  const Memory memory(plan, args, workspace_address);
  // Without features there are five things, with lse alone six; nobody pays for looking at the others.
  constexpr uint32_t with_arrays =
      FMS_BIAS | FMS_BIAS2 | FMS_MASK | FMS_KV_SCALES | FMS_SINKS | FMS_PAGED_KV | plan::lengths_per_sequence;
  const int count = (plan.problem.features & with_arrays) != 0 ? which_count : bias;
  Range ranges[which_count];
  for (int which = 0; which < count; ++which) ranges[which] = Range(memory.described(static_cast<Which>(which)));
  for (int written = o; written < first_read; ++written) {
    for (int other = written + 1; other < count; ++other) {
      if (!ranges[written].meets(ranges[other])) continue;
      if (auto s = check_pair(memory, static_cast<Which>(written), static_cast<Which>(other), error)) return s;
    }
  }
  return FMS_OK;
}

fms_status check_merge_aliases(const fms_merge_problem& p, const plan::MergeArgs& args, fms_error* error) {
  const int64_t bytes = element_bytes(p.dtype);
  const auto values = [&](const void* base, const fms_strides& s) {
    return rows_of(base, bytes, p.head_dim, s, p.batch, p.heads, {0, p.len});
  };
  const auto sums = [&](const float* base, const fms_strides& s) {
    return rows_of(base, 4, 1, s, p.batch, p.heads, {0, p.len});
  };
  const struct {
    const char* name;
    StridedBytes memory;
    bool is_values, is_written;
  } tensors[] = {{"o", values(args.o, p.o), true, true},
                 {"lse", sums(args.lse, p.lse), false, true},
                 {"o_a", values(args.o_a, p.o_a), true, false},
                 {"o_b", values(args.o_b, p.o_b), true, false},
                 {"lse_a", sums(args.lse_a, p.lse_a), false, false},
                 {"lse_b", sums(args.lse_b, p.lse_b), false, false}};
  for (const auto& written : tensors) {
    for (const auto& other : tensors) {
      if (!written.is_written || &other == &written) continue;
      // Each row is read before it is written.
      if (written.is_values == other.is_values && written.memory.is_same(other.memory)) continue;
      if (have_common_bytes(written.memory, other.memory)) {
        return refuse(written.name, other.name, written.is_values == other.is_values ? ", or exactly it" : "", error);
      }
    }
  }
  return FMS_OK;
}

}  // namespace flashmoe::api
