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
  static_assert(row_step % 8 == 0);

  int row, chunk;  // the first of this thread
  uint32 to;       // whole blocks: where that goes

  FMS_DEVICE CopyPlace(const TilePlace<Shape>& tile, uint32 shared)
      : row(tile.warp * Rows::unit_rows + Rows::unit_row(tile.lane)),
        chunk(Rows::unit_chunk(tile.lane)),
        to(shared + Rows::offset(row, chunk)) {}
};

// Of keys and of values; one where their rows are the same.
template <class Shape, bool AreSame = Shape::slice_dim == Shape::value_dim>
struct CopyPlaces {
  const CopyPlace<Shape, typename Shape::KeyRows> keys;

  FMS_DEVICE CopyPlaces(const TilePlace<Shape>& tile, uint32 shared) : keys(tile, shared) {}
  FMS_DEVICE const CopyPlace<Shape, typename Shape::ValueRows>& values() const { return keys; }
};
template <class Shape>
struct CopyPlaces<Shape, false> {
  const CopyPlace<Shape, typename Shape::KeyRows> keys;
  const CopyPlace<Shape, typename Shape::ValueRows> of_values;

  FMS_DEVICE CopyPlaces(const TilePlace<Shape>& tile, uint32 shared) : keys(tile, shared), of_values(tile, shared) {}
  FMS_DEVICE const CopyPlace<Shape, typename Shape::ValueRows>& values() const { return of_values; }
};

template <class Shape>
class TileCopy {
  using T = typename Shape::Element;
  using Rows = typename Shape::Rows;
  using KeyRows = typename Shape::KeyRows;
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

  // A slice of keys `first` to first + Shape::keys to shared_ + to. Keys from `end` on become zeros. Whole: rows can be
  // copied in chunks, and the problem has as many keys as a block. Then all values are there; with MayEnd the block of
  // keys may be missing, or, where copies_in_part, end early.
  template <bool Whole, bool MayEnd = Shape::copies_ahead>
  FMS_DEVICE void keys(int first, int end, uint32 to, int slice = 0) const {
    const int first_chunk = slice * KeyRows::chunks;
    if constexpr (Whole) {
      whole_block<MayEnd, Shape::keys>(places_.keys, p_.k, p_.k_strides, k_, p_.k_row_bytes, first, end, to,
                                       first_chunk);
    } else {
      edge_block<false, Shape::keys>(edge_place(places_.keys), p_.k, p_.k_strides, k_, p_.k_row_bytes, first, end, to,
                                     first_chunk);
    }
  }
  // A part of the values.
  template <bool Whole>
  FMS_DEVICE void values(int first, int end, uint32 to) const {
    if constexpr (Whole) {
      whole_block<false, Shape::part_keys>(places_.values(), p_.v, p_.v_strides, v_, p_.v_row_bytes, first, end, to, 0);
    } else {
      edge_block<true, Shape::part_keys>(edge_place(places_.values()), p_.v, p_.v_strides, v_, p_.v_row_bytes, first,
                                         end, to, 0);
    }
  }

  // The tile's rows of q to shared_ + to; rows that do not exist become zeros.
  FMS_DEVICE void queries(uint32 to) const {
    using Place = CopyPlace<Shape, Rows>;
    const Place place(tile_, shared_);
    const int rows_left = rows_from(place.row);
    const unsigned char* const q = static_cast<const unsigned char*>(p_.q) + place.chunk * 16;
    if (p_.is_aligned) {
      const int chunks_left = head_chunks<false>() - place.chunk, rows_there = chunks_left > 0 ? rows_left : 0;
      for_each_row<Shape::rows, Place::row_step>(q, p_.q_strides, place.row, [&](auto on, const unsigned char* from) {
        copy_row(place, to, on, from,
                 [&](int chunk) { return (on < rows_there) & (chunk == 0 || chunk < chunks_left); });
      });
    } else {
      for_each_row_alone<Shape::rows, Place::row_step>(
          q, p_.q_strides, place.row, [&](int on, const unsigned char* from) {
            for_each_chunk_in_loop<Rows>(place.chunk, [&](int chunk) {
              copy_elements<false>(place.to + to + on * Rows::row_bytes + chunk * 16, from + chunk * 16,
                                   place.chunk + chunk, on < rows_left);
            });
          });
    }
  }

  // Of the queries at shared_ + to that this thread copied; it has waited for them, others may not have.
  FMS_DEVICE void change_signs_of_my_queries(uint32 to) const {
    change_mine<Shape::rows>(CopyPlace<Shape, Rows>(tile_, shared_), to, [&](uint32 pair) { return pair ^ p_.q_sign; });
  }

  // One warp's rows of o: its key warps take them in turn.
  FMS_DEVICE void results() const {
    constexpr int step = Shape::key_warps * ValueRows::unit_rows,
                  count = step > Shape::warp_rows ? step : Shape::warp_rows;
    const int begin = tile_.key_warp() * ValueRows::unit_rows;
    if (count > Shape::warp_rows && begin >= Shape::warp_rows) return;
    const int first = tile_.row_warp() * Shape::warp_rows + begin + ValueRows::unit_row(tile_.lane);
    const int first_chunk = places_.values().chunk;
    const int rows_left = rows_from(first);
    const uint32 at = shared_ + ValueRows::offset(first, first_chunk);
    unsigned char* const o = static_cast<unsigned char*>(p_.o) + first_chunk * 16;
    if (p_.is_aligned) {
      const int chunks_left = head_chunks<true>() - first_chunk, rows_there = chunks_left > 0 ? rows_left : 0;
      for_each_row<count, step>(o, p_.o_strides, first, [&](auto on, const unsigned char* row) {
        constexpr int known = known_part<decltype(on)>;
        const uint32 its = ValueRows::turned(at, ValueRows::turn_of(on)) + (on - known) * ValueRows::row_bytes;
        auto* const to = reinterpret_cast<uint4*>(const_cast<unsigned char*>(row));
        for_each_chunk<ValueRows>(first_chunk, [&](auto chunk) {
          const uint4 bytes = load_shared<known * ValueRows::row_bytes + chunk * 16>(its);
          if ((on < rows_there) & (chunk == 0 || chunk < chunks_left)) to[chunk] = bytes;
        });
      });
    } else {
      for_each_row_alone<count, step>(o, p_.o_strides, first, [&](int on, const unsigned char* row) {
        const uint32 its = ValueRows::turned(at, ValueRows::turn_of(on)) + on * ValueRows::row_bytes;
        for_each_chunk_in_loop<ValueRows>(first_chunk, [&](int chunk) {
          const uint4 bytes = load_shared(its + chunk * 16);
          if (on < rows_left) store_elements(const_cast<unsigned char*>(row) + chunk * 16, first_chunk + chunk, bytes);
        });
      });
    }
  }

  // Whether something that this thread copied of the block of values at shared_ + at is NaN or infinite. It has waited
  // for its copies; others may not have.
  FMS_DEVICE bool my_values_are_wild(uint32 at) const {
    const CopyPlace<Shape, ValueRows>& place = edge_place(places_.values());
    uint32 met[4] = {};  // or each would wait for the one before
    for_each_row_of_block<!(Shape::is_paged && Shape::is_longest), Shape::part_keys>(place, [&](auto row) {
      constexpr int known = known_part<decltype(row)>;
      const uint32 its = place.to + at + (row - known) * ValueRows::row_bytes;
      for_each_chunk<ValueRows>(place.chunk, [&](auto chunk) {
        const uint4 four = load_shared<known * ValueRows::row_bytes + chunk * 16>(its);
        met[0] = add_zero_times<T>(met[0], four.x);
        met[1] = add_zero_times<T>(met[1], four.y);
        met[2] = add_zero_times<T>(met[2], four.z);
        met[3] = add_zero_times<T>(met[3], four.w);
      });
    });
    return (met[0] | met[1] | met[2] | met[3]) != 0;
  }

  // And those become zeros.
  FMS_DEVICE void clear_my_wild_values(uint32 at) const {
    change_mine<Shape::part_keys>(edge_place(places_.values()), at,
                                  [](uint32 pair) { return pair & ~wild_halves<T>(pair); });
  }

 private:
  // Of the tile's rows from `row` on so many exist; none: at most 0.
  FMS_DEVICE int rows_from(int row) const { return tile_.row_count - tile_.first_row - row; }

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

  // Beside softcap and bias, and of the longest heads unless pieces are small, registers are short: edges ask for the
  // thread's place anew, so that nothing of theirs stays there through the interior loop.
  template <class R>
  FMS_DEVICE decltype(auto) edge_place(const CopyPlace<Shape, R>& kept) const {
    if constexpr (Shape::is_modified || (Shape::is_longest && !Shape::is_ring)) {
      return CopyPlace<Shape, R>(tile_.anew(), shared_);
    } else {
      return (kept);
    }
  }

  // Of pages: this thread's first chunk of its row, where the CTA's rows begin at `key`.
  template <class R>
  FMS_DEVICE const unsigned char* chunk_of_page(const CopyPlace<Shape, R>& place, const void* base,
                                                const RowStrides& strides, int key) const {
    return kv_row<true>(p_, tile_.sequence, base, strides, tile_.kv_head, key + place.row) + place.chunk * 16;
  }

  // f(chunk) for the thread's chunks of a row, counted from its first, at compile time.
  template <class R, class F>
  FMS_DEVICE static void for_each_chunk(int first, const F& f) {
    unrolled<R::chunks, R::unit_chunks>([&](auto chunk) {
      if (R::chunks % R::unit_chunks == 0 || first + chunk < R::chunks) f(chunk);
    });
  }
  template <class R, class F>
  FMS_DEVICE static void for_each_chunk_in_loop(int first, const F& f) {
#pragma unroll 1
    for (int chunk = 0; first + chunk < R::chunks; chunk += R::unit_chunks) f(chunk);
  }
  // Each pair of what this thread copied to shared_ + at becomes change(pair).
  template <int Count, class R, class Change>
  FMS_DEVICE static void change_mine(const CopyPlace<Shape, R>& place, uint32 at, const Change& change) {
#pragma unroll 1
    for (int row = 0; place.row + row < Count; row += place.row_step)
      for_each_chunk_in_loop<R>(place.chunk, [&](int chunk) {
        const uint32 its = place.to + at + row * R::row_bytes + chunk * 16;
        const uint4 four = load_shared(its);
        store_shared(its, uint4{change(four.x), change(four.y), change(four.z), change(four.w)});
      });
  }
  // f(row) for the thread's rows of a block, counted from its first: at compile time, or in a loop.
  template <bool Unrolls, int Count, class R, class F>
  FMS_DEVICE static void for_each_row_of_block(const CopyPlace<Shape, R>& place, const F& f) {
    const auto at_row = [&](auto row) {
      if (Count % place.row_step == 0 || place.row + row < Count) f(row);
    };
    if constexpr (Unrolls) {
      unrolled<Count, CopyPlace<Shape, R>::row_step>(at_row);
    } else {
#pragma unroll 1
      for (int row = 0; row < Count; row += place.row_step) at_row(row);
    }
  }

  // Beside softcap and bias of long heads, and of their pages, one address for all chunks would want a register that is
  // not there.
  template <int ToOffset, int FromOffset>
  FMS_DEVICE static void copy_chunk(uint32 to, const unsigned char* from, bool is_there) {
    if constexpr ((Shape::is_modified || Shape::is_paged) && Shape::longest_dim > 64) {
      copy_async_or_zero<0, FromOffset>(to + ToOffset, from, is_there);
    } else {
      copy_async_or_zero<ToOffset, FromOffset>(to, from, is_there);
    }
  }

  // A row of a block from memory to where it belongs; `row` and the chunks count from the thread's first.
  template <class R, class Row, class IsThere>
  FMS_DEVICE static void copy_row(const CopyPlace<Shape, R>& place, uint32 to, Row row, const unsigned char* from,
                                  const IsThere& is_there) {
    constexpr int known = known_part<Row>;
    const uint32 at = place.to + to + (row - known) * R::row_bytes;
    for_each_chunk<R>(place.chunk, [&](auto chunk) {
      copy_chunk<known * R::row_bytes + chunk * 16, chunk * 16>(at, from, is_there(chunk));
    });
  }

  template <bool MayEnd, int Count, class R>
  FMS_DEVICE void whole_block(const CopyPlace<Shape, R>& place, const void* base, const RowStrides& strides,
                              const unsigned char* mine, int row_bytes, int first, int end, uint32 to,
                              int first_chunk) const {
    // Many rows of pages, or of the longest heads: or their addresses wait in registers together.
    constexpr bool unrolls = Shape::places != 1 || !(Shape::is_paged || Shape::is_longest);
    const int left = end - first - (Shape::copies_in_part ? place.row : 0);
    const unsigned char* const block = row_address(mine, first, row_bytes);
    if constexpr (Shape::is_ring) {
      // Two rows: one is late where the products wait for it, of four the addresses fill registers.
      constexpr int row_step = CopyPlace<Shape, R>::row_step, at_once = Count > row_step ? 2 * row_step : row_step;
      const unsigned char* from = block + first_chunk * 16;
#pragma unroll 1
      for (int rows = 0; rows < Count; rows += at_once)
        unrolled<at_once, row_step>([&](auto row) {
          if (Count % row_step == 0 || place.row + rows + row < Count)
            copy_row(place, to + rows * R::row_bytes, row, from, [](int) { return true; });
          from = row_address(from, row_step, row_bytes);
        });
      return;
    }
    for_each_row_of_block<unrolls, Count>(place, [&](auto row) {
      const bool is_there = !MayEnd || (Shape::copies_in_part ? int(row) : 0) < left;
      const unsigned char* from;
      if constexpr (Shape::is_paged) {
        // A page's number is read even so: of a key that the problem has.
        from = chunk_of_page(place, base, strides, is_there ? first + row : 0);
      } else {
        from = Shape::places == 1 ? row_address(mine, first + row, row_bytes) : row_address(block, row, row_bytes);
      }
      copy_row(place, to, row, from + first_chunk * 16, [&](int) { return is_there; });
    });
  }

  template <bool OfValues, int Count, class R>
  FMS_DEVICE void edge_block(const CopyPlace<Shape, R>& place, const void* base, const RowStrides& strides,
                             const unsigned char* mine, int row_bytes, int first, int end, uint32 to,
                             int first_chunk) const {
    const int left = end - first - place.row;
    if (!p_.is_aligned) {
#pragma unroll 1
      for (int row = 0; place.row + row < Count; row += place.row_step) {
        const unsigned char* from = mine;
        if constexpr (Shape::is_paged) {
          if (row < left) from = chunk_of_page(place, base, strides, first + row);
        } else {
          from += (first + row) * strides.row * 2;  // rows may be so far apart that row_bytes are not enough
        }
        for_each_chunk_in_loop<R>(place.chunk, [&](int chunk) {
          copy_elements<OfValues>(place.to + to + row * R::row_bytes + chunk * 16, from + (first_chunk + chunk) * 16,
                                  place.chunk + first_chunk + chunk, row < left);
        });
      }
      return;
    }
    const int chunks_left = head_chunks<OfValues>() - place.chunk - first_chunk;
    // A page's address takes registers that unrolled code would want for all rows at once.
    for_each_row_of_block<!Shape::is_paged, Count>(place, [&](auto row) {
      const unsigned char* from = mine;
      if constexpr (!Shape::is_paged) {
        from = row_address(mine, first + int(row), row_bytes);
      } else if (row < left) {  // of a key that is not there a page's number may not be read
        from = chunk_of_page(place, base, strides, first + row);
      }
      copy_row(place, to, row, from + first_chunk * 16, [&](int chunk) { return row < left && chunk < chunks_left; });
    });
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

  // Calls f(rows after the first, address) for rows of the tile, of q or o, from `first` on in steps of `Step` up to
  // `Count`. Rows that do not exist come with some address. Where steps lead to the same head, addresses differ by a
  // constant, and the numbers are known at compile time.
  template <int Count, int Step, class F>
  FMS_DEVICE void for_each_row(const void* base, const RowStrides& strides, int first, const F& f) const {
    const int queries = divide(Step, p_.by_group);
    if (queries * p_.group == Step) {
      const unsigned char* row = query_side_row(base, strides, first);
      const long long step_bytes = queries * strides.row * 2;
      unrolled<Count, Step>([&](auto on) {
        if (Count % Step == 0 || first + on < Count) f(on, row);
        row += step_bytes;
      });
    } else {
      for_each_row_alone<Count, Step>(base, strides, first, f);
    }
  }
  // Each with an address of its own.
  template <int Count, int Step, class F>
  FMS_DEVICE void for_each_row_alone(const void* base, const RowStrides& strides, int first, const F& f) const {
#pragma unroll 1
    for (int on = 0; on < Count; on += Step) {
      if (Count % Step != 0 && first + on >= Count) break;
      f(on, query_side_row(base, strides, first + on));
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
