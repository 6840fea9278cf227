/* FlashMoE-Science: the C ABI of the attention library.
 *
 *   context  = a device: what it is, what it can do           fms_context_create
 *   problem  = shapes, strides, types and features, no data   fms_attention_problem_init
 *   plan     = the choices made for a problem on a device     fms_attention_plan
 *   prepare  = loads or compiles what a plan runs; optional   fms_attention_prepare
 *   run      = pointers in, attention out                     fms_attention_run
 *
 * For every batch b, query head h, query row i, with kv head g = h / (q_heads / kv_heads):
 *
 *   s(j)   = softmax_scale * sum_d q[b,h,i,d] * k[b,g,j,d]
 *   s(j)   = softcap * tanh(s(j) / softcap)                 if softcap > 0
 *   s(j)   = s(j) + bias[b,h,i,j]                           if FMS_BIAS
 *   s(j)   = s(j) + bias2[b,h,i,j]                          if FMS_BIAS2
 *   keys j are visible when  kv_start(b) <= j < kv_len(b)  and  i' - window_left <= j <= i' + window_right,
 *   where i' = i + kv_len(b) - q_len(b): the last query row is aligned to the last key; i' = i if FMS_TOP_LEFT.
 *   kv_start(b) = 0 unless FMS_KV_STARTS.
 *   lse(i) = log( sum_visible exp(s(j)) + exp(sink[h]) )    the sink term only if FMS_SINKS
 *   o(i)   = sum_visible exp(s(j) - lse(i)) * v[b,g,j,:]
 *
 * Defined corners:
 * - A row without any weight (no visible key, or every visible score -inf) gives o = 0, and lse = -inf (or the sink).
 * - Keys that are not visible are never read into a result, whatever bits they hold (NaN included).
 * - NaN in a visible score, or a score of +inf, makes the whole row NaN (o and lse).
 * - A non-finite v of a visible key makes o non-finite in that column (inf or NaN), however small its weight.
 * - A bias of -inf gives its key the weight 0; it does not hide a non-finite v in a row that has other weights.
 * - Scores are fp32: a row whose largest |score| exceeds 2^30 has no defined result.
 * - With FMS_RAGGED_Q or FMS_Q_LENGTHS, rows of o and lse that belong to no sequence are left as they are.
 * - q_len = 0 or batch = 0 is a valid problem with nothing to do; kv_len = 0 gives 0 and -inf (or the sink).
 *
 * Every function is thread-safe; a context may be shared by any number of threads. Nothing is kept between calls, and
 * fms_attention_run does not allocate. No exception leaves a function: where memory runs out it answers
 * FMS_OUT_OF_MEMORY. Whatever rounding mode, denormal handling or trapping the calling thread or OpenMP's threads have
 * set, the library computes in the default environment and leaves theirs as it was.
 *
 * Threads are OpenMP's. A run that wants more of them than there can be (limits on processes or memory, at the first
 * time that a thread wants so many) takes fewer, with the same result; fms_run_info says how many. A process forked
 * from one that had threads works with one: OpenMP's stayed with the parent. Start workers by spawn or exec to have
 * them all.
 *
 * Structs begin with struct_size so that they can grow: set it to sizeof, or use the _init function that does. A size
 * that the library does not know is refused; until 1.0 that is every other size, and header and library go together.
 * Problems and plans have no padding, so two plans are equal when their bytes are.
 * Strides are in elements and the head dimension is always contiguous; (B,H,S,D) and (B,S,H,D) need no copy.
 */
#ifndef FLASHMOE_FLASHMOE_H
#define FLASHMOE_FLASHMOE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FMS_API __attribute__((visibility("default")))
#else
#define FMS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ------------------------------------------------------------------------------------------------- */

typedef enum fms_status {
  FMS_OK = 0,
  FMS_INVALID_ARGUMENT = 1, /* the caller's mistake; the message names the argument, its value and what is allowed */
  FMS_NOT_SUPPORTED = 2,    /* a valid problem that this device cannot run (yet); the message says which part */
  FMS_OUT_OF_MEMORY = 3,
  FMS_DEVICE_ERROR = 4,
  FMS_INTERNAL_ERROR = 5
} fms_status;

/* Filled when a function fails; every function accepts NULL for it. Never touched on success. */
typedef struct fms_error {
  fms_status code;
  char argument[48]; /* e.g. "problem.kv_heads"; empty when no single argument is to blame */
  char message[464]; /* one sentence, NUL-terminated */
} fms_error;

FMS_API const char* fms_status_name(fms_status status);
FMS_API const char* fms_version(void); /* "0.1.0" */

/* Which GPUs the library has compiled kernels for, inside or in the file beside it, ascending: 89 stands for cubins of
 * sm_89, 0 for PTX, which a driver compiles for newer ones. Writes at most capacity of them (NULL: none) and returns
 * how many there are; 0: none, and kernels come from NVRTC, if that is there. */
FMS_API size_t fms_cuda_images(int32_t* architectures, size_t capacity);
/* Why it has none, in a sentence that stays valid; "" when it has some. */
FMS_API const char* fms_why_no_cuda_images(void);

/* ---- context: a device --------------------------------------------------------------------------------------- */

typedef struct fms_context fms_context;

typedef enum fms_device_kind { FMS_DEVICE_CPU = 0, FMS_DEVICE_CUDA = 1 } fms_device_kind;

/* Ordered: a level includes every lower one. */
typedef enum fms_cpu_isa {
  FMS_ISA_AUTO = 0,
  FMS_ISA_SCALAR = 1,
  FMS_ISA_AVX2 = 2,
  FMS_ISA_AVX512 = 3,
  FMS_ISA_AMX = 4
} fms_cpu_isa;

typedef struct fms_context_options {
  uint32_t struct_size;
  fms_device_kind device_kind;
  int32_t device_index;
  fms_cpu_isa cpu_isa; /* AUTO: FLASHMOE_CPU_ISA (scalar, avx2, avx512, amx) if set, else the best this machine has */
} fms_context_options;

/* options may be NULL: the CPU, best ISA. FLASHMOE_CPU_ISA is read here and nowhere else. */
FMS_API fms_status fms_context_create(const fms_context_options* options, fms_context** context, fms_error* error);
FMS_API void fms_context_destroy(fms_context* context); /* NULL: nothing happens */

/* The ISA level in force; AUTO for a GPU, and for NULL. */
FMS_API fms_cpu_isa fms_context_cpu_isa(const fms_context* context);
FMS_API const char* fms_cpu_isa_name(fms_cpu_isa isa);

/* ---- problem ------------------------------------------------------------------------------------------------- */

typedef enum fms_dtype { FMS_F16 = 1, FMS_BF16 = 2, FMS_F32 = 3 } fms_dtype;

/* Of keys and values with FMS_KV_SCALES: e4m3 as torch.float8_e4m3fn has it. No device runs FMS_KV_I8 yet. */
typedef enum fms_kv_dtype { FMS_KV_F8_E4M3 = 1, FMS_KV_I8 = 2 } fms_kv_dtype;

enum { FMS_MAX_HEAD_DIM = 576 }; /* on a GPU 256 */

/* Elements between neighbours; not negative. */
typedef struct fms_strides {
  int64_t batch, head, seq;
} fms_strides;

/* 0 broadcasts along that axis. */
typedef struct fms_bias_strides {
  int64_t batch, head, q, kv;
  int64_t group; /* so many neighbours of the batch share an entry: sequence b reads entry b / group; 0: 1 */
} fms_bias_strides;

typedef enum fms_feature {
  FMS_LSE = 1u << 0,        /* write args.lse */
  FMS_BIAS = 1u << 1,       /* read args.bias */
  FMS_SINKS = 1u << 2,      /* read args.sinks */
  FMS_RAGGED_Q = 1u << 3,   /* q, o, lse are packed over sequences: row i of sequence b is row cu_q[b] + i;
                               strides.batch is unused */
  FMS_RAGGED_KV = 1u << 4,  /* k, v likewise, by cu_kv; not together with FMS_KV_LENGTHS or FMS_PAGED_KV */
  FMS_KV_LENGTHS = 1u << 5, /* read args.kv_lengths: only the first kv_lengths[b] keys of sequence b exist */
  FMS_PAGED_KV = 1u << 6,   /* k, v are pages: key j of sequence b is row j % page_size of page block_table[b *
                               block_table_stride + j / page_size]; k.batch and v.batch are page strides */
  FMS_BIAS2 = 1u << 7,      /* read args.bias2, a second term: a key mask beside a pair bias, say */

  /* On the CPU; a plan for a GPU answers FMS_NOT_SUPPORTED. */
  FMS_MASK = 1u << 8,       /* read args.mask, bytes: 0 hides the key from the row, as if it did not exist */
  FMS_KV_STARTS = 1u << 9,  /* read args.kv_starts: keys of sequence b before kv_starts[b] do not exist (left padding);
                               positions stay as they are */
  FMS_Q_LENGTHS = 1u << 10, /* read args.q_lengths: only the first q_lengths[b] rows of sequence b exist; not together
                               with FMS_RAGGED_Q */
  FMS_TOP_LEFT = 1u << 11,  /* windows align the first query row to the first key: i' = i */
  FMS_KV_SCALES = 1u << 12, /* k and v are kv_dtype, times args.k_scales[g] and args.v_scales[g] of their kv head */
  FMS_PARTIAL = 1u << 13    /* o is fp32, whatever dtype is: a part that is to be merged */
} fms_feature;

typedef struct fms_attention_problem {
  uint32_t struct_size;
  fms_dtype dtype;   /* of q, k, v and o; with FMS_PARTIAL o is fp32, with FMS_KV_SCALES k and v are kv_dtype */
  uint32_t features; /* fms_feature bits */
  fms_dtype bias_dtype;
  fms_dtype bias2_dtype;
  fms_kv_dtype kv_dtype; /* FMS_KV_SCALES */
  int64_t batch;
  int64_t q_heads;
  int64_t kv_heads;       /* divides q_heads */
  int64_t q_len;          /* with FMS_RAGGED_Q: the longest sequence's */
  int64_t kv_len;         /* with FMS_RAGGED_KV, FMS_KV_LENGTHS: the longest's */
  int64_t head_dim;       /* of q and k: 1 ... FMS_MAX_HEAD_DIM */
  int64_t value_dim;      /* of v and o, likewise; on a GPU up to 256 */
  fms_strides q, k, v, o; /* rows of o must not overlap each other; inputs may (stride 0 broadcasts) */
  fms_strides lse;        /* fp32 rows */
  float softmax_scale;    /* |scale| at most 1e30 */
  float softcap;          /* 0: off */
  int64_t window_left;    /* -1: unbounded; at most 2^30 */
  int64_t window_right;   /* -1: unbounded; 0: causal; at most 2^30 */
  fms_bias_strides bias, bias2;
  fms_bias_strides mask; /* FMS_MASK: of bytes */
  int64_t total_q;       /* FMS_RAGGED_Q: rows in q and o, at least cu_q[batch] */
  int64_t total_kv;      /* FMS_RAGGED_KV: rows in k and v, at least cu_kv[batch] */
  int64_t page_size;     /* FMS_PAGED_KV */
  int64_t page_count;    /* FMS_PAGED_KV: pages in k and v */
  int64_t block_table_stride;
} fms_attention_problem;

/* Contiguous (B,H,S,D) tensors, values of the same D, scale 1/sqrt(D), no mask, no features. Change what differs. NULL:
 * nothing happens. */
FMS_API void fms_attention_problem_init(fms_attention_problem* problem, fms_dtype dtype, int64_t batch, int64_t q_heads,
                                        int64_t kv_heads, int64_t q_len, int64_t kv_len, int64_t head_dim);

/* Every argument is checked; nothing is planned. FMS_OK means some device can run it. */
FMS_API fms_status fms_attention_problem_check(const fms_attention_problem* problem, fms_error* error);

/* ---- plan ---------------------------------------------------------------------------------------------------- */

enum { FMS_PLAN_VERSION = 5, FMS_WORKSPACE_ALIGNMENT = 64 };

/* What to force; zero means the planner chooses. */
typedef struct fms_plan_options {
  uint32_t struct_size;
  int32_t threads;   /* CPU: at most this many; 0: OpenMP's current maximum */
  int32_t kv_splits; /* this many, at most 1024; GPU, unequal batches (ragged, lengths): 0 lets each sequence have its
                        own */
  int32_t q_tile;    /* rows of one work item; GPU: 16, 32, 64 or 128 */
} fms_plan_options;

typedef enum fms_kernel_family {
  FMS_KERNEL_EMPTY = 0,       /* nothing to compute */
  FMS_KERNEL_TILE = 1,        /* many query rows: vector FMA over tiles, lanes are query rows */
  FMS_KERNEL_GEMV = 2,        /* few query rows (decode): lanes are head dimensions, memory bound */
  FMS_KERNEL_AMX = 3,         /* many query rows: AMX tiles */
  FMS_KERNEL_CUDA_FORWARD = 4 /* GPU: tensor cores, 16 query rows a warp */
} fms_kernel_family;

typedef enum fms_pack_mode {
  FMS_PACK_NONE = 0, /* K and V are read where they are */
  FMS_PACK_HEAD = 1, /* each thread packs the kv head it is working on, once for all its query tiles */
  FMS_PACK_BLOCK = 2 /* each thread packs block by block, anew for every query tile */
} fms_pack_mode;

/* A plain value: copy it, compare it, print it (fms_plan_explain, fms_plan_json). The problem is inside. A plan runs
 * on any context whose device is the same. Nothing in it is believed: run refuses bytes that the planner would not have
 * made of the problem inside, whatever their fingerprint says. */
typedef struct fms_attention_plan {
  uint32_t struct_size;
  uint32_t version;     /* FMS_PLAN_VERSION */
  uint64_t fingerprint; /* of everything below */
  fms_device_kind device_kind;
  fms_cpu_isa cpu_isa; /* of the kernel chosen, at most the context's */
  fms_kernel_family family;
  fms_pack_mode pack;
  int32_t threads;   /* GPU: of a CTA */
  int32_t kv_splits; /* GPU, 0: of each sequence by its length, found on the device; one plan serves all lengths */
  int32_t q_tile;    /* query rows (GQA group included) of one work item */
  int32_t kv_tile;   /* keys of one step */
  int32_t instance;  /* GPU: which kernel */
  int32_t kernel_head_dim;  /* GPU: head size it is compiled for, at least the problem's */
  int32_t sm_count;         /* GPU: of the device the plan was made for */
  int32_t ctas_per_sm;      /* GPU: how many one SM holds at once */
  int64_t work_items;       /* GPU: CTAs */
  uint64_t workspace_bytes; /* what run needs, FMS_WORKSPACE_ALIGNMENT-aligned */
  uint64_t thread_bytes;    /* of it: private to each thread */
  fms_attention_problem problem;
} fms_attention_plan;

/* options may be NULL. Cheap (well under a microsecond) and without allocation: planning per call is fine. */
FMS_API fms_status fms_attention_plan_make(const fms_context* context, const fms_attention_problem* problem,
                                           const fms_plan_options* options, fms_attention_plan* plan, fms_error* error);

/* Text for people; JSON for programs, every field under its name ("null" for what is not a plan, NULL included). Return
 * the length without the NUL, like snprintf; pass NULL or capacity 0 to ask. The locale does not matter. */
FMS_API size_t fms_plan_explain(const fms_attention_plan* plan, char* text, size_t capacity);
FMS_API size_t fms_plan_json(const fms_attention_plan* plan, char* text, size_t capacity);

/* Makes ready what run would otherwise make ready at its first call of this kind: on a GPU the kernel is loaded, or
 * compiled where the library has none of its own (seconds). Worth calling before a stream begins to capture, and before
 * anything is timed. On the CPU there is nothing to do but to check the plan. What failed is tried again next time. */
FMS_API fms_status fms_attention_prepare(const fms_context* context, const fms_attention_plan* plan, fms_error* error);

typedef enum fms_image_kind {
  FMS_IMAGE_NONE = 0,    /* the CPU, or nothing to compute */
  FMS_IMAGE_FATBIN = 1,  /* the library's own: cubins and PTX, of which the driver takes what suits its GPU */
  FMS_IMAGE_PTX = 2,     /* the library's own: a fatbin of the PTX alone */
  FMS_IMAGE_COMPILED = 3 /* NVRTC's */
} fms_image_kind;

typedef struct fms_kernel_image {
  uint32_t struct_size;
  fms_image_kind kind;
  const void* image; /* the library's own, to be read; NULL: it has none to show (FMS_IMAGE_NONE, FMS_IMAGE_COMPILED) */
  uint64_t bytes;
  char kernel[64]; /* its name in the image; empty with FMS_IMAGE_NONE */
} fms_kernel_image;

/* What the driver was handed for a plan's kernel, to say of a measurement what it was of. Prepares the plan. */
FMS_API fms_status fms_attention_image(const fms_context* context, const fms_attention_plan* plan,
                                       fms_kernel_image* image, fms_error* error);

/* ---- run ----------------------------------------------------------------------------------------------------- */

/* What really ran, reported by the kernel itself. */
typedef struct fms_run_info {
  fms_cpu_isa cpu_isa;
  fms_kernel_family family;
  int32_t threads;
  int32_t kv_splits;
} fms_run_info;

typedef enum fms_run_flag {
  FMS_WORKSPACE_READY = 1u << 0 /* GPU, kv_splits not 1: the last plan that ran on this workspace was this one, or it
                                   was filled with zeros; run then queues the kernel alone */
} fms_run_flag;

typedef struct fms_attention_args {
  uint32_t struct_size;
  uint32_t flags; /* fms_run_flag bits; others are refused */
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;                 /* FMS_LSE */
  const void* bias;           /* FMS_BIAS */
  const float* sinks;         /* FMS_SINKS: one per query head */
  const int32_t* cu_q;        /* FMS_RAGGED_Q: batch + 1 offsets, not decreasing */
  const int32_t* cu_kv;       /* FMS_RAGGED_KV */
  const int32_t* kv_lengths;  /* FMS_KV_LENGTHS: batch lengths */
  const int32_t* block_table; /* FMS_PAGED_KV */
  const void* bias2;          /* FMS_BIAS2 */
  const uint8_t* mask;        /* FMS_MASK */
  const int32_t* kv_starts;   /* FMS_KV_STARTS: batch positions */
  const int32_t* q_lengths;   /* FMS_Q_LENGTHS: batch lengths */
  const float* k_scales;      /* FMS_KV_SCALES: one per kv head, above 0 */
  const float* v_scales;      /* likewise */
  fms_run_info* info;         /* may be NULL */
} fms_attention_args;

/* A CUstream on a GPU; NULL on the CPU, where run returns when the result is there. */
typedef void* fms_stream;

/* workspace: at least plan.workspace_bytes, aligned to FMS_WORKSPACE_ALIGNMENT; NULL if that is 0. One run at a time
 * may use it. On a GPU every pointer is the device's, the caller's context is current, and run returns when the kernel
 * is queued on the stream: no synchronisation, no allocation, so a stream may be capturing. A kernel stays loaded until
 * the process ends, so the context may go and graphs may be replayed afterwards. One thread may serve several GPUs.
 * Index arrays are not checked there, but on the CPU (cu_q, cu_kv, lengths, starts, block_table) before anything is
 * read: a caller that changes them meanwhile gets an error or a wrong answer, and no byte outside its tensors is
 * touched.
 *
 * o, lse and the workspace share no element with each other or with anything that is read; run refuses it otherwise.
 * Elements count, not ranges: o may be a slice of the buffer that q, k and v are slices of. And o may be q exactly,
 * same address and same strides. On the CPU, keys, pages and rows that the index arrays do not lead to count as
 * nobody's; on a GPU every page and row that the problem describes counts. */
FMS_API fms_status fms_attention_run(const fms_context* context, const fms_attention_plan* plan,
                                     const fms_attention_args* args, void* workspace, size_t workspace_bytes,
                                     fms_stream stream, fms_error* error);

/* ---- merge --------------------------------------------------------------------------------------------------- */

/* Two partial results over disjoint sets of keys, with their log-sum-exp, combine into the result over the union:
 *   lse = log(exp(lse_a) + exp(lse_b)),  o = exp(lse_a - lse) * o_a + exp(lse_b - lse) * o_b
 * o may be o_a or o_b exactly, lse may be lse_a or lse_b; any other overlap is refused. A part with lse = -inf does not
 * contribute, whatever its o holds. Two parts give the same bits in either order.
 * On a GPU as fms_attention_run: device pointers, queued on the stream, no allocation, and a stream may be capturing.
 * The first merge on a GPU loads the kernel. batch x heads x len is at most 2^30 there. */
typedef struct fms_merge_problem {
  uint32_t struct_size;
  fms_dtype dtype; /* of o_a, o_b and o */
  int64_t batch, heads, len, head_dim;
  fms_strides o_a, o_b, o;
  fms_strides lse_a, lse_b, lse;
} fms_merge_problem;

/* Contiguous (B,H,S,D) and (B,H,S). NULL: nothing happens. */
FMS_API void fms_merge_problem_init(fms_merge_problem* problem, fms_dtype dtype, int64_t batch, int64_t heads,
                                    int64_t len, int64_t head_dim);

FMS_API fms_status fms_merge_states(const fms_context* context, const fms_merge_problem* problem, const void* o_a,
                                    const float* lse_a, const void* o_b, const float* lse_b, void* o, float* lse,
                                    fms_stream stream, fms_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FLASHMOE_FLASHMOE_H */
