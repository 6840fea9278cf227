// Rows of q, k and v into shared memory, and rows of o out of it.
#pragma once

#include "kernels/cuda/atoms/async_copy.cuh"
#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/attention/tile_place.cuh"

namespace flashmoe::cuda {

// A warp copies Rows::unit_rows rows at once, Rows::unit_chunks chunks of each, then the next chunks of the same rows
// at addresses that differ by constants. The warps together advance by `row_step` rows.
template <class Shape, class Rows>
struct CopyPlace {
  static constexpr int row_step = Rows::unit_rows * Shape::warps;
  static constexpr bool has_whole_steps = Shape::keys % row_step == 0;
  static_assert(row_step % 8 == 0);

  int row, chunk;  // the first of this thread
  uint32 to;       // whole blocks: where that goes

  FMS_DEVICE CopyPlace(const TilePlace<Shape>& tile, uint32 shared)
      : row(tile.warp * Rows::unit_rows + Rows::unit_row(tile.lane)),
        chunk(Rows::unit_chunk(tile.lane)),
        to(shared + Rows::offset(row, chunk)) {}
};

// Of keys and of values; one where their rows are the same.
template <class Shape, bool AreSame = Shape::dim == Shape::value_dim>
struct CopyPlaces {
  const CopyPlace<Shape, typename Shape::Rows> keys;

  FMS_DEVICE CopyPlaces(const TilePlace<Shape>& tile, uint32 shared) : keys(tile, shared) {}
  FMS_DEVICE const CopyPlace<Shape, typename Shape::ValueRows>& values() const { return keys; }
};
template <class Shape>
struct CopyPlaces<Shape, false> {
  const CopyPlace<Shape, typename Shape::Rows> keys;
  const CopyPlace<Shape, typename Shape::ValueRows> of_values;

  FMS_DEVICE CopyPlaces(const TilePlace<Shape>& tile, uint32 shared) : keys(tile, shared), of_values(tile, shared) {}
  FMS_DEVICE const CopyPlace<Shape, typename Shape::ValueRows>& values() const { return of_values; }
};

template <class Shape>
class TileCopy {
  using T = typename Shape::Element;
  using Rows = typename Shape::Rows;
  using ValueRows = typename Shape::ValueRows;

 public:
  FMS_DEVICE TileCopy(const typename Shape::Params& params, const TilePlace<Shape>& tile, uint32 shared)
      : p_(params),
        tile_(tile),
        shared_(shared),
        places_(tile, shared),
        k_(kv_row<false>(p_, tile_.sequence, p_.k, p_.k_strides, tile_.kv_head, places_.keys.row) +
           places_.keys.chunk * 16),
        v_(kv_row<false>(p_, tile_.sequence, p_.v, p_.v_strides, tile_.kv_head, places_.values().row) +
           places_.values().chunk * 16) {}

  // Keys `first` to first + Shape::keys of k to shared_ + to. Keys from `end` on become zeros. Whole: rows can be
  // copied in chunks, and the problem has as many keys as a block. Then all values are there; with MayEnd the block of
  // keys may be missing, or, where copies_in_part, end early.
  template <bool Whole, bool MayEnd = Shape::copies_ahead>
  FMS_DEVICE void keys(int first, int end, uint32 to) const {
    if constexpr (Whole) {
      whole_block<MayEnd>(places_.keys, p_.k, p_.k_strides, k_, p_.k_row_bytes, first, end, to);
    } else {
      edge_block<false>(edge_place(places_.keys), p_.k, p_.k_strides, k_, p_.k_row_bytes, first, end, to);
    }
  }
  template <bool Whole>
  FMS_DEVICE void values(int first, int end, uint32 to) const {
    if constexpr (Whole) {
      whole_block<false>(places_.values(), p_.v, p_.v_strides, v_, p_.v_row_bytes, first, end, to);
    } else {
      edge_block<true>(edge_place(places_.values()), p_.v, p_.v_strides, v_, p_.v_row_bytes, first, end, to);
    }
  }

  // The tile's rows of q to shared_ + to; rows that do not exist become zeros.
  FMS_DEVICE void queries(uint32 to) const {
    using Place = CopyPlace<Shape, Rows>;
    const Place& place = places_.keys;
    const auto each_chunk = [&](int row, const unsigned char* from, const auto& copy) {
#pragma unroll
      for (int chunk = 0; chunk < Rows::chunks; chunk += Rows::unit_chunks) {
        const int mine = place.chunk + chunk;
        if (Rows::chunks % Rows::unit_chunks != 0 && mine >= Rows::chunks) break;
        copy(place.to + to + (row - place.row) * Rows::row_bytes + chunk * 16, from + mine * 16, mine, is_row(row));
      }
    };
    if (p_.is_aligned) {
      for_each_row<Shape::rows, Place::row_step>(
          p_.q, p_.q_strides, place.row, [&](int row, const unsigned char* from) {
            each_chunk(row, from, [&](uint32 at, const unsigned char* its, int chunk, bool is_there) {
              copy_async_or_zero(at, its, is_there & (chunk < head_chunks<false>()));
            });
          });
    } else {
      for_each_row_alone<Shape::rows, Place::row_step>(
          p_.q, p_.q_strides, place.row, [&](int row, const unsigned char* from) {
            each_chunk(row, from, [&](uint32 at, const unsigned char* its, int chunk, bool is_there) {
              copy_elements<false>(at, its, chunk, is_there);
            });
          });
    }
  }

  // Of the queries at shared_ + to that this thread copied; it has waited for them, others may not have.
  FMS_DEVICE void change_signs_of_my_queries(uint32 to) const {
    const CopyPlace<Shape, Rows>& place = places_.keys;
#pragma unroll 1
    for (int row = 0; place.row + row < Shape::rows; row += place.row_step)
#pragma unroll 1
      for (int chunk = 0; place.chunk + chunk < Rows::chunks; chunk += Rows::unit_chunks) {
        const uint32 at = place.to + to + row * Rows::row_bytes + chunk * 16;
        uint4 four = load_shared(at);
        four.x ^= p_.q_sign;
        four.y ^= p_.q_sign;
        four.z ^= p_.q_sign;
        four.w ^= p_.q_sign;
        store_shared(at, four);
      }
  }

  // One warp's rows of o.
  FMS_DEVICE void results() const {
    const int first = tile_.row_warp() * Shape::warp_rows + ValueRows::unit_row(tile_.lane);
    const auto each_chunk = [&](int row, const unsigned char* to, const auto& store) {
#pragma unroll
      for (int chunk = 0; chunk < ValueRows::chunks; chunk += ValueRows::unit_chunks) {
        const int mine = places_.values().chunk + chunk;
        if (ValueRows::chunks % ValueRows::unit_chunks != 0 && mine >= ValueRows::chunks) break;
        store(const_cast<unsigned char*>(to) + mine * 16, mine, load_shared(shared_ + ValueRows::offset(row, mine)));
      }
    };
    if (p_.is_aligned) {
      for_each_row<Shape::warp_rows, ValueRows::unit_rows>(
          p_.o, p_.o_strides, first, [&](int row, const unsigned char* to) {
            each_chunk(row, to, [&](unsigned char* its, int chunk, const uint4& bytes) {
              if (is_row(row) & (chunk < head_chunks<true>())) *reinterpret_cast<uint4*>(its) = bytes;
            });
          });
    } else {
      for_each_row_alone<Shape::warp_rows, ValueRows::unit_rows>(
          p_.o, p_.o_strides, first, [&](int row, const unsigned char* to) {
            each_chunk(row, to, [&](unsigned char* its, int chunk, const uint4& bytes) {
              if (is_row(row)) store_elements(its, chunk, bytes);
            });
          });
    }
  }

  // Whether something that this thread copied of the block of values at shared_ + at is NaN or infinite. It has waited
  // for its copies; others may not have.
  FMS_DEVICE bool my_values_are_wild(uint32 at) const {
    const CopyPlace<Shape, ValueRows>& place = edge_place(places_.values());
    uint32 met = 0;
#pragma unroll(Shape::is_paged&& Shape::is_longest ? 1 : Shape::keys)
    for (int row = 0; row < Shape::keys; row += place.row_step) {
      if (!place.has_whole_steps && place.row + row >= Shape::keys) break;
#pragma unroll
      for (int chunk = 0; chunk < ValueRows::chunks; chunk += ValueRows::unit_chunks) {
        if (ValueRows::chunks % ValueRows::unit_chunks != 0 && place.chunk + chunk >= ValueRows::chunks) break;
        const uint4 four = load_shared(place.to + at + row * ValueRows::row_bytes + chunk * 16);
        met = add_zero_times<T>(add_zero_times<T>(met, four.x), four.y);
        met = add_zero_times<T>(add_zero_times<T>(met, four.z), four.w);
      }
    }
    return met != 0;
  }

  // And those become zeros.
  FMS_DEVICE void clear_my_wild_values(uint32 at) const {
    const CopyPlace<Shape, ValueRows>& place = edge_place(places_.values());
#pragma unroll 1
    for (int row = 0; place.row + row < Shape::keys; row += place.row_step)
#pragma unroll 1
      for (int chunk = 0; place.chunk + chunk < ValueRows::chunks; chunk += ValueRows::unit_chunks) {
        const uint32 its = place.to + at + row * ValueRows::row_bytes + chunk * 16;
        uint4 four = load_shared(its);
        four.x &= ~wild_halves<T>(four.x);
        four.y &= ~wild_halves<T>(four.y);
        four.z &= ~wild_halves<T>(four.z);
        four.w &= ~wild_halves<T>(four.w);
        store_shared(its, four);
      }
  }

 private:
  // Of the tile: whether it exists.
  FMS_DEVICE bool is_row(int row) const {
    return tile_.first_row + row < tile_.row_count;
  }

  // The problem's.
  template <bool OfValues>
  FMS_DEVICE int head_dim() const {
    if constexpr (OfValues && Shape::has_value_dim) {
      return p_.value_dim;
    } else {
      return p_.head_dim;
    }
  }

  // Of aligned rows.
  template <bool OfValues>
  FMS_DEVICE int head_chunks() const {
    return static_cast<int>(static_cast<uint32>(head_dim<OfValues>()) / 8);
  }

  // Beside softcap and bias, and of the longest heads, registers are short: edges ask for the thread's place anew, so
  // that nothing of theirs stays there through the interior loop.
  template <class R>
  FMS_DEVICE decltype(auto) edge_place(const CopyPlace<Shape, R>& kept) const {
    if constexpr (Shape::is_modified || Shape::is_longest) {
      return CopyPlace<Shape, R>(tile_.anew(), shared_);
    } else {
      return (kept);
    }
  }

  // This thread's first chunk of its row, where the CTA's rows begin at `key`.
  template <class R>
  FMS_DEVICE const unsigned char* chunk_of_mine(const CopyPlace<Shape, R>& place, const void* base,
                                                const RowStrides& strides, const unsigned char* mine, int row_bytes,
                                                int key) const {
    if constexpr (Shape::is_paged) {
      return kv_row<true>(p_, tile_.sequence, base, strides, tile_.kv_head, key + place.row) + place.chunk * 16;
    } else {
      return row_address(mine, key, row_bytes);
    }
  }

  template <bool MayEnd, class R>
  FMS_DEVICE void whole_block(const CopyPlace<Shape, R>& place, const void* base, const RowStrides& strides,
                              const unsigned char* mine, int row_bytes, int first, int end, uint32 to) const {
    // Many rows of pages, or of the longest heads: or their addresses wait in registers together.
    constexpr int unroll_of_one_place = Shape::is_paged ? 1 : Shape::is_longest ? 2 : Shape::keys;
#pragma unroll(Shape::places == 1 ? unroll_of_one_place : Shape::keys)
    for (int row = 0; row < Shape::keys; row += place.row_step) {
      if (!place.has_whole_steps && place.row + row >= Shape::keys) break;
      const bool is_there = !MayEnd || (Shape::copies_in_part ? first + place.row + row : first) < end;
      // A page's number is read even so: of a key that the problem has.
      const int key = Shape::is_paged && !is_there ? 0 : first + row;
      const unsigned char* const from = chunk_of_mine(place, base, strides, mine, row_bytes, key);
#pragma unroll
      for (int chunk = 0; chunk < R::chunks; chunk += R::unit_chunks)
        if (R::chunks % R::unit_chunks == 0 || place.chunk + chunk < R::chunks)
          copy_async_or_zero(place.to + to + row * R::row_bytes + chunk * 16, from + chunk * 16, is_there);
    }
  }

  template <bool OfValues, class R>
  FMS_DEVICE void edge_block(const CopyPlace<Shape, R>& place, const void* base, const RowStrides& strides,
                             const unsigned char* mine, int row_bytes, int first, int end, uint32 to) const {
    if (!p_.is_aligned) {
#pragma unroll 1
      for (int row = 0; place.row + row < Shape::keys; row += place.row_step) {
        const bool is_there = first + place.row + row < end;
        const unsigned char* from = mine;
        if constexpr (Shape::is_paged) {
          if (is_there) from = chunk_of_mine(place, base, strides, mine, row_bytes, first + row);
        } else {
          from += (first + row) * strides.row * 2;  // rows may be so far apart that row_bytes are not enough
        }
#pragma unroll 1
        for (int chunk = 0; place.chunk + chunk < R::chunks; chunk += R::unit_chunks)
          copy_elements<OfValues>(place.to + to + row * R::row_bytes + chunk * 16, from + chunk * 16,
                                  place.chunk + chunk, is_there);
      }
      return;
    }
    const int chunks = head_chunks<OfValues>();
    // A page's address takes registers that unrolled code would want for all rows at once.
#pragma unroll(Shape::is_paged ? 1 : Shape::keys)
    for (int row = 0; row < Shape::keys; row += place.row_step) {
      if (!place.has_whole_steps && place.row + row >= Shape::keys) break;
      const bool is_there = first + place.row + row < end;
      const unsigned char* from = mine;
      // Of a key that is not there a page's number may not be read.
      if (!Shape::is_paged || is_there)
        from = chunk_of_mine(place, base, strides, mine, row_bytes, is_there ? first + row : 0);
#pragma unroll
      for (int chunk = 0; chunk < R::chunks; chunk += R::unit_chunks) {
        if (R::chunks % R::unit_chunks != 0 && place.chunk + chunk >= R::chunks) break;
        copy_async_or_zero(place.to + to + row * R::row_bytes + chunk * 16, from + chunk * 16,
                           is_there && place.chunk + chunk < chunks);
      }
    }
  }

  // Rows that do not begin at multiples of 16 bytes are read element by element.
  template <bool OfValues>
  FMS_DEVICE void copy_elements(uint32 to, const unsigned char* from, int chunk, bool is_there) const {
    const int there = is_there ? min(head_dim<OfValues>() - chunk * 8, 8) : 0;
    uint32 words[4] = {};
    const auto* elements = reinterpret_cast<const unsigned short*>(from);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < there) words[i / 2] |= static_cast<uint32>(elements[i]) << (i % 2 * 16);
    store_shared(to, uint4{words[0], words[1], words[2], words[3]});
  }

  FMS_DEVICE void store_elements(unsigned char* to, int chunk, const uint4& bytes) const {
    const int there = min(head_dim<true>() - chunk * 8, 8);
    const uint32 words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    auto* const elements = reinterpret_cast<unsigned short*>(to);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < there) elements[i] = static_cast<unsigned short>(words[i / 2] >> (i % 2 * 16));
  }

  // Calls f(row, address) for `Count` rows of the tile, of q or o, from `first` on in steps of `Step`. Rows that do not
  // exist come with some address. Where steps lead to the same head, addresses differ by a constant.
  template <int Count, int Step, class F>
  FMS_DEVICE void for_each_row(const void* base, const RowStrides& strides, int first, F f) const {
    const unsigned char* row = query_side_row(base, strides, first);
    const int queries = divide(Step, p_.by_group);
    if (queries * p_.group == Step) {
      const long long step_bytes = queries * strides.row * 2;
#pragma unroll
      for (int i = 0; i < Count; i += Step, row += step_bytes) {
        if (Count % Step != 0 && first + i >= Count) break;
        f(first + i, row);
      }
    } else {
      for_each_row_alone<Count, Step>(base, strides, first, f);
    }
  }
  // Each with an address of its own.
  template <int Count, int Step, class F>
  FMS_DEVICE void for_each_row_alone(const void* base, const RowStrides& strides, int first, F f) const {
#pragma unroll 1
    for (int i = first; i < first + Count; i += Step) {
      if (Count % Step != 0 && i >= Count) break;
      f(i, query_side_row(base, strides, i));
    }
  }
  FMS_DEVICE const unsigned char* query_side_row(const void* base, const RowStrides& strides, int row) const {
    const int packed = min(tile_.first_row + row, tile_.row_count - 1);
    return row_at(base, strides, tile_.sequence.q_batch, tile_.head(p_, packed),
                  tile_.sequence.q_begin + tile_.query(p_, packed));
  }

  const typename Shape::Params& p_;
  const TilePlace<Shape> tile_;
  const uint32 shared_;
  const CopyPlaces<Shape> places_;
  const unsigned char *const k_, *const v_;  // unless paged, where this thread's first chunk comes from for key 0
};

}  // namespace flashmoe::cuda
