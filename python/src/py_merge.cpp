#include <algorithm>
#include <array>

#include "merge_call.hpp"
#include "py_arrays.hpp"
#include "py_call_args.hpp"
#include "py_dlpack.hpp"
#include "py_functions.hpp"
#include "py_torch.hpp"

namespace flashmoe::python {
namespace {

enum MergeSlot { kOA, kLseA, kOB, kLseB, kLayout, kMergeSlots };
Signature<kMergeSlots> merge_signature("merge_states", 4, 4, "o_a", "lse_a", "o_b", "lse_b", "layout");

struct LoadedMerge {
  ArrayArg o_a, lse_a, o_b, lse_b;

  bool load(const std::array<PyObject*, kMergeSlots>& slots, Family family) {
    return o_a.load(slots[kOA], "o_a", family, false, ScalarType::kOther) &&
           lse_a.load(slots[kLseA], "lse_a", family, false, ScalarType::kOther) &&
           o_b.load(slots[kOB], "o_b", family, false, ScalarType::kOther) &&
           lse_b.load(slots[kLseB], "lse_b", family, false, ScalarType::kOther);
  }
};

constexpr std::array kMergeTensors{kOA, kLseA, kOB, kLseB};

bool check_all_tensors(const std::array<PyObject*, kMergeSlots>& slots) {
  return std::all_of(kMergeTensors.begin(), kMergeTensors.end(),
                     [&](int slot) { return check_is_tensor(slots[slot], merge_signature.name(slot)); });
}

bool merge_may_run_directly(const std::array<PyObject*, kMergeSlots>& slots) {
  for (const int slot : kMergeTensors) {
    if (Py_TYPE(slots[slot]) != torch_binding().tensor_type) {
      return false;
    }
  }
  if (!torch_is_plain()) {
    return false;
  }
  const bool records = torch_grad_enabled();
  for (const int slot : kMergeTensors) {
    if (torch_is_negated(slots[slot]) || (records && torch_requires_grad(slots[slot]))) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool init_merge_function() {
  return merge_signature.intern();
}

PyObject* merge_states(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  std::array<PyObject*, kMergeSlots> slots;
  Layout layout = Layout::kBhsd;
  if (!merge_signature.match(args, nargs, kwnames, slots) || !read_layout(slots[kLayout], "layout", layout)) {
    return nullptr;
  }
  const Family family = family_of(slots[kOA]);
  if (family == Family::kTorch && !merge_may_run_directly(slots)) {
    return check_all_tensors(slots) ? forward_call(torch_binding().merge_fallback, args, nargs, kwnames) : nullptr;
  }
  if (family == Family::kDlpack && is_on_gpu(slots[kOA])) {
    return forward_call(dlpack_helper("merge_states"), args, nargs, kwnames);
  }
  LoadedMerge loaded;
  const bool is_loaded = loaded.load(slots, family);
  if (family == Family::kTorch &&
      (is_loaded ? loaded.o_a.view.place.device != DeviceType::kCpu : is_elsewhere(slots[kOA]))) {
    PyErr_Clear();
    return forward_call(torch_binding().merge_fallback, args, nargs, kwnames);
  }
  if (!is_loaded) {
    return nullptr;
  }
  MergeCall call;
  Failure failure;
  if (!prepare_merge(loaded.o_a.view, loaded.lse_a.view, loaded.o_b.view, loaded.lse_b.view, layout, false, call,
                     failure)) {
    return raise(failure);
  }
  PyObject* out = new_array(family, slots[kOA], call.out);
  PyObject* lse = out == nullptr ? nullptr : new_array(family, slots[kOA], call.lse);
  if (lse == nullptr) {
    Py_XDECREF(out);
    return nullptr;
  }
  bool ok = false;
  Py_BEGIN_ALLOW_THREADS;
  ok = run_merge(call, failure);
  Py_END_ALLOW_THREADS;
  if (!ok) {
    Py_DECREF(out);
    Py_DECREF(lse);
    return raise(failure);
  }
  out = given_back(family, slots[kOA], out, call.out.dtype);
  return pair_of(out, out == nullptr ? lse : given_back(family, slots[kOA], lse, ScalarType::kF32));
}

PyObject* check_merge(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  std::array<PyObject*, kMergeSlots> slots;
  Layout layout = Layout::kBhsd;
  LoadedMerge loaded;
  if (!merge_signature.match(args, nargs, kwnames, slots) || !read_layout(slots[kLayout], "layout", layout) ||
      !loaded.load(slots, Family::kDescription)) {
    return nullptr;
  }
  MergeCall call;
  Failure failure;
  const bool ok = prepare_merge(loaded.o_a.view, loaded.lse_a.view, loaded.o_b.view, loaded.lse_b.view, layout, true,
                                call, failure);
  return ok ? Py_NewRef(Py_None) : raise(failure);
}
}  // namespace flashmoe::python
