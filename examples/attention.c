/* Attention from C: context, problem, plan, run. Build it against an installed library:
 *   cc attention.c $(pkg-config --cflags --libs flashmoe) -lm -o attention
 * Prints the plan and the first output; exits 0 when the result is what the arithmetic says. */
#include <flashmoe/flashmoe.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 1, HEADS = 2, SEQ = 5, HEAD_DIM = 4, ROWS = BATCH * HEADS * SEQ };

static int fail(const fms_error* error) {
  fprintf(stderr, "%s: %s: %s\n", fms_status_name(error->code), error->argument, error->message);
  return EXIT_FAILURE;
}

int main(void) {
  float q[ROWS * HEAD_DIM], k[ROWS * HEAD_DIM], v[ROWS * HEAD_DIM], o[ROWS * HEAD_DIM]; /* (B, H, S, D) */
  float lse[ROWS];                                                                      /* (B, H, S) */
  for (int row = 0; row < ROWS; ++row) {
    for (int d = 0; d < HEAD_DIM; ++d) {
      q[row * HEAD_DIM + d] = 0.1f * (float)(row - d);
      k[row * HEAD_DIM + d] = 0.0f; /* every score is 0, so that every visible key weighs the same */
      v[row * HEAD_DIM + d] = (float)(row % SEQ);
    }
  }

  fms_error error;
  fms_context* context = NULL;
  if (fms_context_create(NULL, &context, &error) != FMS_OK) return fail(&error);

  fms_attention_problem problem;
  fms_attention_problem_init(&problem, FMS_F32, BATCH, HEADS, HEADS, SEQ, SEQ, HEAD_DIM);
  problem.window_right = 0; /* causal */
  problem.features = FMS_LSE;

  fms_attention_plan plan = {.struct_size = sizeof plan};
  if (fms_attention_plan_make(context, &problem, NULL, &plan, &error) != FMS_OK) return fail(&error);
  char text[2048];
  fms_plan_explain(&plan, text, sizeof text);
  puts(text);

  void* workspace = plan.workspace_bytes ? aligned_alloc(FMS_WORKSPACE_ALIGNMENT, plan.workspace_bytes) : NULL;
  const fms_attention_args args = {.struct_size = sizeof args, .q = q, .k = k, .v = v, .o = o, .lse = lse};
  if (fms_attention_run(context, &plan, &args, workspace, plan.workspace_bytes, NULL, &error) != FMS_OK)
    return fail(&error);
  free(workspace);
  fms_context_destroy(context);

  /* Row i averages the keys 0 ... i: o = i / 2, and lse = log(i + 1). */
  for (int row = 0; row < ROWS; ++row) {
    const int i = row % SEQ;
    if (fabsf(o[row * HEAD_DIM] - 0.5f * (float)i) > 1e-5f || fabsf(lse[row] - logf((float)(i + 1))) > 1e-5f) {
      fprintf(stderr, "row %d: o = %g, lse = %g\n", row, (double)o[row * HEAD_DIM], (double)lse[row]);
      return EXIT_FAILURE;
    }
  }
  printf("flashmoe %s: the last row is %g, its log-sum-exp %g\n", fms_version(), (double)o[(ROWS - 1) * HEAD_DIM],
         (double)lse[ROWS - 1]);
  return EXIT_SUCCESS;
}
