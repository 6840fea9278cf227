#include "support/every_call.hpp"

#include <fstream>
#include <iterator>
#include <regex>

namespace flashmoe::testing {
namespace {

// Hands pointers on in the order of the parameters, and NULL for one of them.
class Pointers {
 public:
  explicit Pointers(int null_at) : null_at_(null_at) {}
  template <class T>
  T* next(T* pointer) {
    return next_++ == null_at_ ? nullptr : pointer;
  }

 private:
  int null_at_, next_ = 0;
};

fms_status create_and_destroy(const CallSetting& setting, Pointers to, fms_error* error) {
  fms_context* made = nullptr;
  const auto* options = to.next(&setting.options);
  fms_context** context = to.next(&made);
  const fms_status status = fms_context_create(options, context, to.next(error));
  fms_context_destroy(made);
  return status;
}

fms_status print(const CallSetting& setting, Pointers to,
                 size_t (*function)(const fms_attention_plan*, char*, size_t)) {
  char text[200];
  const auto* plan = to.next(&setting.plan);
  return function(plan, to.next(text), sizeof text) > 0 ? FMS_OK : FMS_INTERNAL_ERROR;
}

fms_status run(const CallSetting& setting, Pointers to, fms_error* error) {
  const auto* context = to.next(setting.context);
  const auto* plan = to.next(&setting.plan);
  const auto* args = to.next(&setting.args);
  void* workspace = to.next(setting.workspace);
  return fms_attention_run(context, plan, args, workspace, setting.plan.workspace_bytes, nullptr, to.next(error));
}

fms_status merge(const CallSetting& setting, Pointers to, fms_error* error) {
  fms_merge_problem problem;
  fms_merge_problem_init(&problem, FMS_F32, 1, 1, 1, 4);
  float o_a[4] = {}, o_b[4] = {}, o[4], lse_a = 0, lse_b = 0, lse;
  const auto* context = to.next(setting.context);
  const auto* what = to.next(&problem);
  const float* a = to.next(o_a);
  const float* a_lse = to.next(&lse_a);
  const float* b = to.next(o_b);
  const float* b_lse = to.next(&lse_b);
  float* merged = to.next(o);
  float* merged_lse = to.next(&lse);
  return fms_merge_states(context, what, a, a_lse, b, b_lse, merged, merged_lse, nullptr, to.next(error));
}

}  // namespace

std::vector<EveryCall> every_call(const CallSetting& setting) {
  const PointerParameter error_parameter{"error", false};
  std::vector<EveryCall> calls = {
      {"fms_status_name", {}, [](int, fms_error*) { return fms_status_name(FMS_OK) ? FMS_OK : FMS_INTERNAL_ERROR; }},
      {"fms_version", {}, [](int, fms_error*) { return fms_version() ? FMS_OK : FMS_INTERNAL_ERROR; }},
      {"fms_cuda_images",
       {{"architectures", false}},
       [](int null_at, fms_error*) {
         int32_t first;
         fms_cuda_images(Pointers(null_at).next(&first), 1);
         return FMS_OK;
       }},
      {"fms_why_no_cuda_images",
       {},
       [](int, fms_error*) { return fms_why_no_cuda_images() ? FMS_OK : FMS_INTERNAL_ERROR; }},
      {"fms_cpu_isa_name",
       {},
       [](int, fms_error*) { return fms_cpu_isa_name(FMS_ISA_AMX) ? FMS_OK : FMS_INTERNAL_ERROR; }},
      {"fms_context_create",
       {{"options", false}, {"context", true}, error_parameter},
       [&](int null_at, fms_error* error) { return create_and_destroy(setting, Pointers(null_at), error); }},
      {"fms_context_destroy",
       {{"context", false}},
       [&](int null_at, fms_error*) {
         fms_context* made = nullptr;
         if (null_at < 0 && fms_context_create(&setting.options, &made, nullptr) != FMS_OK) return FMS_OUT_OF_MEMORY;
         fms_context_destroy(made);
         return FMS_OK;
       }},
      {"fms_context_cpu_isa",
       {{"context", false}},
       [&](int null_at, fms_error*) {
         return fms_context_cpu_isa(Pointers(null_at).next(setting.context)) <= FMS_ISA_AMX ? FMS_OK
                                                                                            : FMS_INTERNAL_ERROR;
       }},
      {"fms_attention_problem_init",
       {{"problem", false}},
       [](int null_at, fms_error*) {
         fms_attention_problem made;
         fms_attention_problem_init(Pointers(null_at).next(&made), FMS_F16, 1, 1, 1, 1, 1, 64);
         return FMS_OK;
       }},
      {"fms_attention_problem_check",
       {{"problem", true}, error_parameter},
       [&](int null_at, fms_error* error) {
         Pointers to(null_at);
         const auto* problem = to.next(&setting.problem);
         return fms_attention_problem_check(problem, to.next(error));
       }},
      {"fms_attention_plan_make",
       {{"context", true}, {"problem", true}, {"options", false}, {"plan", true}, error_parameter},
       [&](int null_at, fms_error* error) {
         Pointers to(null_at);
         const fms_plan_options chosen{sizeof chosen, 1, 0, 0};
         fms_attention_plan made;
         const auto* context = to.next(setting.context);
         const auto* problem = to.next(&setting.problem);
         const auto* options = to.next(&chosen);
         fms_attention_plan* plan = to.next(&made);
         return fms_attention_plan_make(context, problem, options, plan, to.next(error));
       }},
      {"fms_plan_explain",
       {{"plan", false}, {"text", false}},
       [&](int null_at, fms_error*) { return print(setting, Pointers(null_at), fms_plan_explain); }},
      {"fms_plan_json",
       {{"plan", false}, {"text", false}},
       [&](int null_at, fms_error*) { return print(setting, Pointers(null_at), fms_plan_json); }},
      {"fms_attention_prepare",
       {{"context", true}, {"plan", true}, error_parameter},
       [&](int null_at, fms_error* error) {
         Pointers to(null_at);
         const auto* context = to.next(setting.context);
         const auto* plan = to.next(&setting.plan);
         return fms_attention_prepare(context, plan, to.next(error));
       }},
      {"fms_attention_image",
       {{"context", true}, {"plan", true}, {"image", true}, error_parameter},
       [&](int null_at, fms_error* error) {
         Pointers to(null_at);
         fms_kernel_image told{};
         told.struct_size = sizeof told;
         const auto* context = to.next(setting.context);
         const auto* plan = to.next(&setting.plan);
         fms_kernel_image* image = to.next(&told);
         return fms_attention_image(context, plan, image, to.next(error));
       }},
      {"fms_attention_run",
       {{"context", true}, {"plan", true}, {"args", true}, {"workspace", true}, error_parameter},
       [&](int null_at, fms_error* error) { return run(setting, Pointers(null_at), error); }},
      {"fms_merge_problem_init",
       {{"problem", false}},
       [](int null_at, fms_error*) {
         fms_merge_problem made;
         fms_merge_problem_init(Pointers(null_at).next(&made), FMS_F16, 1, 1, 1, 64);
         return FMS_OK;
       }},
      {"fms_merge_states",
       {{"context", true},
        {"problem", true},
        {"o_a", true},
        {"lse_a", true},
        {"o_b", true},
        {"lse_b", true},
        {"o", true},
        {"lse", true},
        error_parameter},
       [&](int null_at, fms_error* error) { return merge(setting, Pointers(null_at), error); }}};
  return calls;
}

std::vector<std::string> exported_functions(const std::string& header) {
  std::ifstream file(header);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::regex declaration(R"(\nFMS_API [^;(]*?(fms_\w+)\()");
  std::vector<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) names.push_back((*at)[1]);
  return names;
}

}  // namespace flashmoe::testing
