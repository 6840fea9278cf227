// Rows of q, k and v into shared memory, and rows of o out of it.
#pragma once

#include "kernels/cuda/atoms/async_copy.cuh"
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
      : row(row_of(tile.warp * warp_lanes + tile.lane)),
        chunk(Rows::unit_chunk(tile.lane)),
        to(shared + Rows::offset(row, chunk)) {}

  FMS_DEVICE static int row_of(int thread) {
    return thread / warp_lanes * Rows::unit_rows + Rows::unit_row(thread % warp_lanes);
  }
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

  // Keys `first` to first + Shape::keys of k to shared_ + to. Whole: all of them are there and rows can be copied in
  // chunks; else keys from `end` on become zeros.
  template <bool Whole>
  FMS_DEVICE void keys(int first, int end, uint32 to) const {
    if constexpr (Whole) {
      whole_block(places_.keys, p_.k, p_.k_strides, k_, p_.k_row_bytes, first, to);
    } else {
      edge_block<false>(places_.keys, p_.k, p_.k_strides, k_, p_.k_row_bytes, first, end, to);
    }
  }
  template <bool Whole>
  FMS_DEVICE void values(int first, int end, uint32 to) const {
    if constexpr (Whole) {
      whole_block(places_.values(), p_.v, p_.v_strides, v_, p_.v_row_bytes, first, to);
    } else {
      edge_block<true>(places_.values(), p_.v, p_.v_strides, v_, p_.v_row_bytes, first, end, to);
    }
  }

  // The tile's rows of q to shared_ + to; rows that do not exist become zeros.
  FMS_DEVICE void queries(uint32 to) const {
    for_each_piece<Rows, Shape::rows>([&](int row, int chunk) {
      const bool is_there = tile_.first_row + row < tile_.row_count;
      copy_query_chunk(shared_ + to + Rows::offset(row, chunk), query_side_row(p_.q, p_.q_strides, is_there ? row : 0),
                       chunk, is_there);
    });
  }

  // One warp's 16 rows of o.
  FMS_DEVICE void results() const {
#pragma unroll 1
    for (int i = 0; i < 16; i += ValueRows::unit_rows) {
      const int row = tile_.row_warp() * 16 + i + ValueRows::unit_row(tile_.lane);
      if (tile_.first_row + row >= tile_.row_count) continue;
      auto* const to = const_cast<unsigned char*>(query_side_row(p_.o, p_.o_strides, row));
#pragma unroll 1
      for (int chunk = places_.values().chunk; chunk < ValueRows::chunks; chunk += ValueRows::unit_chunks)
        store_chunk(to, chunk, load_shared(shared_ + ValueRows::offset(row, chunk)));
    }
  }

  // Calls f(row, chunk) for what this thread copies of a block of `Count` rows. For edges: little code is worth more
  // than speed, and the index is asked for anew so that no address of theirs stays in registers through the interior
  // loop.
  template <class R, int Count, class F>
  FMS_DEVICE static void for_each_piece(F f) {
    const auto thread = static_cast<int>(thread_index_anew());
#pragma unroll 1
    for (int row = CopyPlace<Shape, R>::row_of(thread); row < Count; row += CopyPlace<Shape, R>::row_step) {
#pragma unroll 1
      for (int chunk = R::unit_chunk(thread % warp_lanes); chunk < R::chunks; chunk += R::unit_chunks) f(row, chunk);
    }
  }

 private:
  // The problem's.
  template <bool OfValues>
  FMS_DEVICE int head_dim() const {
    if constexpr (OfValues && Shape::has_value_dim) {
      return p_.value_dim;
    } else {
      return p_.head_dim;
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

  template <class R>
  FMS_DEVICE void whole_block(const CopyPlace<Shape, R>& place, const void* base, const RowStrides& strides,
                              const unsigned char* mine, int row_bytes, int first, uint32 to) const {
#pragma unroll
    for (int row = 0; row < Shape::keys; row += place.row_step) {
      if (!place.has_whole_steps && place.row + row >= Shape::keys) break;
      const unsigned char* const from = chunk_of_mine(place, base, strides, mine, row_bytes, first + row);
#pragma unroll
      for (int chunk = 0; chunk < R::chunks; chunk += R::unit_chunks)
        if (R::chunks % R::unit_chunks == 0 || place.chunk + chunk < R::chunks)
          copy_async(place.to + to + row * R::row_bytes + chunk * 16, from + chunk * 16);
    }
  }

  template <bool OfValues, class R>
  FMS_DEVICE void edge_block(const CopyPlace<Shape, R>& place, const void* base, const RowStrides& strides,
                             const unsigned char* mine, int row_bytes, int first, int end, uint32 to) const {
    if (!p_.is_aligned) {
      for_each_piece<R, Shape::keys>([&](int row, int chunk) {
        const bool is_there = first + row < end;
        copy_elements<OfValues>(
            shared_ + to + R::offset(row, chunk),
            kv_row<Shape::is_paged>(p_, tile_.sequence, base, strides, tile_.kv_head, is_there ? first + row : 0),
            chunk, is_there);
      });
      return;
    }
    const int head_chunks = head_dim<OfValues>() / 8;
    // A page's address takes registers that unrolled code would want for all rows at once.
#pragma unroll(Shape::is_paged ? 1 : Shape::keys)
    for (int row = 0; row < Shape::keys; row += place.row_step) {
      if (!place.has_whole_steps && place.row + row >= Shape::keys) break;
      const bool is_there = first + place.row + row < end;
      const unsigned char* from = mine;
      if (is_there) from = chunk_of_mine(place, base, strides, mine, row_bytes, first + row);
#pragma unroll
      for (int chunk = 0; chunk < R::chunks; chunk += R::unit_chunks) {
        if (R::chunks % R::unit_chunks != 0 && place.chunk + chunk >= R::chunks) break;
        const bool has_chunk = is_there && place.chunk + chunk < head_chunks;
        copy_async_or_zero(place.to + to + row * R::row_bytes + chunk * 16, has_chunk ? from + chunk * 16 : from,
                           has_chunk);
      }
    }
  }

  FMS_DEVICE void copy_query_chunk(uint32 to, const unsigned char* row, int chunk, bool is_there) const {
    if (p_.is_aligned) {
      const bool has_chunk = is_there && chunk < p_.head_dim / 8;
      copy_async_or_zero(to, has_chunk ? row + chunk * 16 : row, has_chunk);
    } else {
      copy_elements<false>(to, row, chunk, is_there);
    }
  }
  // Rows that do not begin at multiples of 16 bytes are read element by element.
  template <bool OfValues>
  FMS_DEVICE void copy_elements(uint32 to, const unsigned char* row, int chunk, bool is_there) const {
    const int there = is_there ? min(head_dim<OfValues>() - chunk * 8, 8) : 0;
    uint32 words[4] = {};
    const auto* elements = reinterpret_cast<const unsigned short*>(row) + chunk * 8;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < there) words[i / 2] |= static_cast<uint32>(elements[i]) << (i % 2 * 16);
    store_shared(to, uint4{words[0], words[1], words[2], words[3]});
  }

  FMS_DEVICE void store_chunk(unsigned char* row, int chunk, uint4 bytes) const {
    const int there = min(head_dim<true>() - chunk * 8, 8);
    if (p_.is_aligned) {
      if (there > 0) *reinterpret_cast<uint4*>(row + chunk * 16) = bytes;
      return;
    }
    const uint32 words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < there)
        reinterpret_cast<unsigned short*>(row)[chunk * 8 + i] =
            static_cast<unsigned short>(words[i / 2] >> (i % 2 * 16));
  }

  // A row of the tile, of q or o.
  FMS_DEVICE const unsigned char* query_side_row(const void* base, const RowStrides& strides, int row) const {
    const int packed = tile_.first_row + row;
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
