// Where a CTA is in the work. For unequal batches it finds its item in a list that nobody writes down: every CTA
// derives the same one from the lengths, so that one launch, captured or not, serves whatever the lengths are then.
//
//   share   the most blocks of keys that a CTA takes: as few as the grid's CTAs and the workspace's states allow
//   item    a row tile of a sequence and one of the splits of its keys; each sequence has splits of its own
//   order   sequences by the length of their shares, longest first, in classes of an eighth of the longest; within a
//           sequence the last rows first
//
// One warp works it out, and leaves it in shared memory for the CTA, behind everything else there (shared_bytes()).
#pragma once

#include "kernels/cuda/attention/sequence.cuh"
#include "kernels/cuda/attention/shape.cuh"

namespace flashmoe::cuda {

// What a CTA does.
struct Item {
  int sequence;  // -1: nothing
  int kv_head;
  int first_row;
  int split, splits;
  int states, counter;  // splits: which of the states is the tile's first, and which counter is its own
};
static_assert(sizeof(Item) <= list_item_bytes);

// Without a list: of the grid (tile_place.cuh). Tiles come in the order of falling work, in a head or over all of them:
// with a causal mask the last rows see the most keys.
//
// SMs get CTAs in turn, and then again as far as they hold more, `turns` times. So that not one of them gets the
// longest of every round, these rounds go there and back; the last one, that may not be a full one, goes there,
// wherefore the SMs that it reaches had the least before. Later CTAs begin where one has ended.
//
//   13 tiles of 13 ... 1 blocks, 3 turns, 5 SMs      SM 0       1       2       3       4
//   round 0, there                                    13      12      11      10       9
//   round 1, back                                      4       5       6       7       8
//   round 2, there                                     3       2       1
template <class Shape>
FMS_DEVICE Item item_of_grid(const ForwardParams& p) {
  const int x = static_cast<int>(blockIdx.x), y = static_cast<int>(blockIdx.y), z = static_cast<int>(blockIdx.z);
  int tile = x, head = y, split = z;
  if (p.turns != 0) {
    tile = z, head = x, split = y;
    if (p.turns > 1) {
      const int heads = static_cast<int>(gridDim.x);
      int cta = (z * p.splits + y) * heads + x;
      const int round = divide(cta, p.by_sms), sm = cta - round * p.sms, on = p.turns - 1 - round;
      if (on > 0 && on % 2 != 0) cta += p.sms - 1 - 2 * sm;
      const int share = divide(cta, p.by_heads);
      head = cta - share * heads;
      tile = divide(share, p.by_splits);
      split = share - tile * p.splits;
    }
  }
  const int batch = divide(head, p.by_kv_heads), counter = head * p.tiles + tile;
  return {batch,  head - batch * p.kv_heads, (p.tiles - 1 - tile) * Shape::rows, split, p.splits, counter * p.splits,
          counter};
}

template <class Shape>
class WorkList {
  static constexpr uint32 all_lanes = 0xffffffffu;
  static constexpr int classes = 8, search_steps = 6;
  static constexpr int least_blocks = 2;  // a share of fewer is not worth its state

 public:
  FMS_DEVICE WorkList(const ForwardParams& params, int lane) : p_(params), lane_(lane) {}

  // The item of a CTA; all lanes of one warp come here.
  FMS_DEVICE void find(int cta, Item& item) const {
    const int in_head = divide(cta, p_.by_kv_heads), kv_head = cta - in_head * p_.kv_heads;
    const int share = share_blocks();
    int found = in_head;
    const int of_class = class_of(found, share);
    if (lane_ == 0) item.sequence = -1;
    __syncwarp();
    if (of_class < 0) return;
    int slots_before = 0;
    for (int first = 0; first < p_.batch; first += warp_lanes) {
      const Part part(*this, first + lane_, share);
      const int mine = part.of_class == of_class ? part.items() : 0;
      const int upto = sum_upto(mine), slots_upto = sum_upto(part.slots());
      if (found >= upto - mine && found < upto) {
        const int index = found - (upto - mine), tile = index / part.splits;
        item.kv_head = kv_head;
        item.first_row = (part.tiles - 1 - tile) * Shape::rows;
        item.split = index - tile * part.splits;
        item.splits = part.splits;
        item.states = item.counter =
            kv_head * p_.list_slots + slots_before + slots_upto - part.slots() + tile * part.splits;
        item.sequence = first + lane_;
      }
      found -= __shfl_sync(all_lanes, upto, warp_lanes - 1);
      slots_before += __shfl_sync(all_lanes, slots_upto, warp_lanes - 1);
      if (found < 0) return;
    }
  }

 private:
  // What the lengths of a sequence come to; nothing beyond the batch.
  struct Lengths {
    int tiles = 0, blocks = 1;

    FMS_DEVICE Lengths(const ForwardParams& p, int index) {
      if (index >= p.batch) return;
      const Sequence sequence(p, index);
      if (sequence.q_len <= 0) return;
      tiles = (sequence.q_len * p.group + Shape::rows - 1) / Shape::rows;
      // What a tile can see at most.
      constexpr int half = 1 << 29;
      const int window = min(p.window_left, half) + min(p.window_right, half) + Shape::rows;
      const int seen = sequence.last_key(p, sequence.q_len - 1) - sequence.first_key(p, 0);
      blocks = max((min(seen, window) + Shape::keys - 1) / Shape::keys, 1);
    }
  };
  struct Part : Lengths {
    int splits, of_class;

    FMS_DEVICE Part(const WorkList& list, int index, int share) : Lengths(list.p_, index) {
      splits = min((this->blocks + share - 1) / share, most_list_splits);
      const int longest = (this->blocks + splits - 1) / splits;
      of_class = min(max((share - longest) * classes / share, 0), classes - 1);
    }
    FMS_DEVICE int items() const { return this->tiles * splits; }
    FMS_DEVICE int slots() const { return splits > 1 ? items() : 0; }
  };

  // Whether shares of so many blocks leave a CTA for each item and a place for each state.
  FMS_DEVICE bool fits(int share) const {
    int items = 0, slots = 0;
    for (int index = lane_; index < p_.batch; index += warp_lanes) {
      const Part part(*this, index, share);
      items += part.items();
      slots += part.slots();
    }
    items = __reduce_add_sync(all_lanes, items);
    slots = __reduce_add_sync(all_lanes, slots);
    return items <= p_.list_items && slots <= p_.list_slots;
  }

  // Between a share that the grid could not hold and one that it holds in any case, by halves.
  FMS_DEVICE int share_blocks() const {
    float work = 0.0f;
    int longest = 1, tiles = 0;
    for (int index = lane_; index < p_.batch; index += warp_lanes) {
      const Lengths lengths(p_, index);
      work += static_cast<float>(lengths.tiles) * static_cast<float>(lengths.blocks);
      longest = max(longest, lengths.blocks);
      tiles += lengths.tiles;
    }
    longest = __reduce_max_sync(all_lanes, longest);
    tiles = __reduce_add_sync(all_lanes, tiles);
#pragma unroll
    for (int step = warp_lanes / 2; step > 0; step /= 2) work += __shfl_xor_sync(all_lanes, work, step);
    int low = max(static_cast<int>(work / static_cast<float>(max(p_.list_items, 1))), least_blocks) - 1;
    int high = longest;  // unsplit: there is room for every tile
    // Tried first is a share with which all work fits into what tiles leave; if that is not so, it says nothing of
    // others.
    const int spare = min(p_.list_items - tiles, p_.list_slots / 2);
    const int enough = spare > 0 ? static_cast<int>(fminf(work / static_cast<float>(spare), 1e9f)) + 1 : high;
#pragma unroll 1
    for (int step = enough > low && enough < high ? 0 : 1; step <= search_steps && low + 1 < high; ++step) {
      const int tried = step == 0 ? enough : low + (high - low) / 2;
      if (fits(tried)) {
        high = tried;
      } else if (step > 0) {
        low = tried;
      }
    }
    return max(high, 1);
  }

  // The class of an item, which becomes its number within the class; -1: there are not that many.
  FMS_DEVICE int class_of(int& item, int share) const {
    int items[classes] = {};
    for (int index = lane_; index < p_.batch; index += warp_lanes) {
      const Part part(*this, index, share);
#pragma unroll
      for (int c = 0; c < classes; ++c) items[c] += part.of_class == c ? part.items() : 0;
    }
    int of_class = -1;
#pragma unroll
    for (int c = 0; c < classes; ++c) {
      const int all = __reduce_add_sync(all_lanes, items[c]);
      if (of_class < 0) {
        if (item < all) {
          of_class = c;
        } else {
          item -= all;
        }
      }
    }
    return of_class;
  }

  FMS_DEVICE int sum_upto(int value) const {
#pragma unroll
    for (int step = 1; step < warp_lanes; step *= 2) {
      const int before = __shfl_up_sync(all_lanes, value, step);
      if (lane_ >= step) value += before;
    }
    return value;
  }

  const ForwardParams& p_;
  const int lane_;
};

}  // namespace flashmoe::cuda
