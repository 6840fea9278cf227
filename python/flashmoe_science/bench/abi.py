"""Structs and constants of include/flashmoe/flashmoe.h, which explains them. Written by tools/abi/mirrors.py."""

from ctypes import Structure, c_char, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

OK = 0
INVALID_ARGUMENT = 1
NOT_SUPPORTED = 2
OUT_OF_MEMORY = 3
DEVICE_ERROR = 4
INTERNAL_ERROR = 5
DEVICE_CPU = 0
DEVICE_CUDA = 1
ISA_AUTO = 0
ISA_SCALAR = 1
ISA_AVX2 = 2
ISA_AVX512 = 3
ISA_AMX = 4
F16 = 1
BF16 = 2
F32 = 3
KV_F8_E4M3 = 1
KV_I8 = 2
MAX_HEAD_DIM = 576
LSE = 1
BIAS = 2
SINKS = 4
RAGGED_Q = 8
RAGGED_KV = 16
KV_LENGTHS = 32
PAGED_KV = 64
BIAS2 = 128
MASK = 256
KV_STARTS = 512
Q_LENGTHS = 1024
TOP_LEFT = 2048
KV_SCALES = 4096
PARTIAL = 8192
PLAN_VERSION = 5
WORKSPACE_ALIGNMENT = 64
KERNEL_EMPTY = 0
KERNEL_TILE = 1
KERNEL_GEMV = 2
KERNEL_AMX = 3
KERNEL_CUDA_FORWARD = 4
PACK_NONE = 0
PACK_HEAD = 1
PACK_BLOCK = 2
IMAGE_NONE = 0
IMAGE_FATBIN = 1
IMAGE_PTX = 2
IMAGE_COMPILED = 3
WORKSPACE_READY = 1


class Error(Structure):
    _fields_ = [
        ("code", c_int32),
        ("argument", c_char * 48),
        ("message", c_char * 464),
    ]


class ContextOptions(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("device_kind", c_int32),
        ("device_index", c_int32),
        ("cpu_isa", c_int32),
    ]


class Strides(Structure):
    _fields_ = [
        ("batch", c_int64),
        ("head", c_int64),
        ("seq", c_int64),
    ]


class BiasStrides(Structure):
    _fields_ = [
        ("batch", c_int64),
        ("head", c_int64),
        ("q", c_int64),
        ("kv", c_int64),
        ("group", c_int64),
    ]


class Problem(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("features", c_uint32),
        ("bias_dtype", c_int32),
        ("bias2_dtype", c_int32),
        ("kv_dtype", c_int32),
        ("batch", c_int64),
        ("q_heads", c_int64),
        ("kv_heads", c_int64),
        ("q_len", c_int64),
        ("kv_len", c_int64),
        ("head_dim", c_int64),
        ("value_dim", c_int64),
        ("q", Strides),
        ("k", Strides),
        ("v", Strides),
        ("o", Strides),
        ("lse", Strides),
        ("softmax_scale", c_float),
        ("softcap", c_float),
        ("window_left", c_int64),
        ("window_right", c_int64),
        ("bias", BiasStrides),
        ("bias2", BiasStrides),
        ("mask", BiasStrides),
        ("total_q", c_int64),
        ("total_kv", c_int64),
        ("page_size", c_int64),
        ("page_count", c_int64),
        ("block_table_stride", c_int64),
    ]


class PlanOptions(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("threads", c_int32),
        ("kv_splits", c_int32),
        ("q_tile", c_int32),
    ]


class Plan(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("version", c_uint32),
        ("fingerprint", c_uint64),
        ("device_kind", c_int32),
        ("cpu_isa", c_int32),
        ("family", c_int32),
        ("pack", c_int32),
        ("threads", c_int32),
        ("kv_splits", c_int32),
        ("q_tile", c_int32),
        ("kv_tile", c_int32),
        ("instance", c_int32),
        ("kernel_head_dim", c_int32),
        ("sm_count", c_int32),
        ("ctas_per_sm", c_int32),
        ("work_items", c_int64),
        ("workspace_bytes", c_uint64),
        ("thread_bytes", c_uint64),
        ("problem", Problem),
    ]


class KernelImage(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("image", c_void_p),
        ("bytes", c_uint64),
        ("kernel", c_char * 64),
    ]


class RunInfo(Structure):
    _fields_ = [
        ("cpu_isa", c_int32),
        ("family", c_int32),
        ("threads", c_int32),
        ("kv_splits", c_int32),
    ]


class Args(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("o", c_void_p),
        ("lse", c_void_p),
        ("bias", c_void_p),
        ("sinks", c_void_p),
        ("cu_q", c_void_p),
        ("cu_kv", c_void_p),
        ("kv_lengths", c_void_p),
        ("block_table", c_void_p),
        ("bias2", c_void_p),
        ("mask", c_void_p),
        ("kv_starts", c_void_p),
        ("q_lengths", c_void_p),
        ("k_scales", c_void_p),
        ("v_scales", c_void_p),
        ("info", c_void_p),
    ]


class MergeProblem(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("batch", c_int64),
        ("heads", c_int64),
        ("len", c_int64),
        ("head_dim", c_int64),
        ("o_a", Strides),
        ("o_b", Strides),
        ("o", Strides),
        ("lse_a", Strides),
        ("lse_b", Strides),
        ("lse", Strides),
    ]
