#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/confinement.hpp"
#include "support/sha256.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/project/project_for_test.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* good_kernel = R"(
#include <cudadent/kernel.h>
#include "scale.h"
extern "C" int run(const cudadent_call* call) { return call == nullptr ? SCALE : call->tensor_count; }
)";

struct CpuBuild : testing::Test {
  ProjectForTest at;
  Callable callable = cpp_callable("kernel.cpp", "run");

  Result<BuiltCallable> build() { return build_cpu(at.project, callable, "kernel"); }
  Diagnostic failure() {
    const auto built = build();
    EXPECT_FALSE(built) << "this must not build";
    return built ? Diagnostic{} : built.error();
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(contains(text, part)) << (text)

TEST_F(CpuBuild, WhatIsLoadedIsWhatWasBuilt) {
  at.write("kernel.cpp", good_kernel);
  at.write("scale.h", "#define SCALE 42\n");
  const auto built = build();
  ASSERT_TRUE(built) << built.error().to_string();
  EXPECT_FALSE(built->from_cache);
  EXPECT_EQ(built->library, at.project.directory + "/.cudadent/build/" + built->build_hash + "/kernel.so");
  EXPECT_EQ(*sha256_of_file(built->library), built->content_hash);
  void* library = dlopen(built->library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<int (*)(const void*)>(dlsym(library, "run"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry(nullptr), 42);
  dlclose(library);
}

// A flag can make the compiler run any program: it runs, and reaches nothing.
TEST_F(CpuBuild, AFlagThatRunsAProgramReachesNothing) {
  if (landlock_version() == 0) GTEST_SKIP() << confinement_here();
  const std::string stolen = at.project.directory + "/stolen";
  at.write("kernel.cpp", good_kernel);
  at.write("scale.h", "#define SCALE 42\n");
  at.write("wrapper.sh", "echo ran >> " + stolen + " 2>/dev/null\nexec \"$@\"\n");
  at.project.cpu_flags = {"-wrapper", "/bin/sh," + at.project.directory + "/wrapper.sh"};
  const auto built = build();
  EXPECT_FALSE(std::filesystem::exists(stolen)) << "a flag wrote into the project";
  EXPECT_TRUE(built) << "the program it names may run: " << built.error().to_string();
}

// An edit between the hash and the compiler would stay in the cache for good.
TEST_F(CpuBuild, AnEditInTheMiddleIsSeen) {
  // Long to compile, so that it is still at it when the edit comes.
  at.write("kernel.cpp", std::string(good_kernel) + "#include <regex>\nstd::regex pattern(\"a+b\");\n");
  at.write("scale.h", "#define SCALE 42\n");
  at.project.cpu_flags = {"-O0"};  // long enough
  bool edited = false;
  BuildOptions options;
  options.idle = [&] {
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(at.project.directory, none)) {
      if (edited || entry.path().extension() != ".tmp") continue;  // the scratch directory: it compiles
      at.write("scale.h", "#define SCALE 43\n");
      edited = true;
    }
  };
  const auto built = build_cpu(at.project, callable, "kernel", options);
  if (!edited) GTEST_SKIP() << "the compiler was done before it was looked at";
  ASSERT_FALSE(built);
  EXPECT_CONTAINS(built.error().message, "changed while they were built");
  const auto again = build();
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->from_cache);
}

TEST_F(CpuBuild, CacheFollowsEveryInput) {
  at.write("kernel.cpp", good_kernel);
  at.write("scale.h", "#define SCALE 42\n");
  const auto first = build();
  ASSERT_TRUE(first) << first.error().to_string();
  const auto again = build();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->from_cache);
  EXPECT_EQ(again->content_hash, first->content_hash);

  at.write("scale.h", "#define SCALE 43\n");  // a header counts
  const auto header = build();
  ASSERT_TRUE(header);
  EXPECT_FALSE(header->from_cache);
  EXPECT_NE(header->build_hash, first->build_hash);

  at.project.cpu_flags = {"-O1"};
  const auto flags = build();
  ASSERT_TRUE(flags);
  EXPECT_NE(flags->build_hash, header->build_hash);
}

// What is right, and what to beat, cannot follow the point.
// The preprocessor reads the header, the compiler would take what lies beside it.
TEST_F(CpuBuild, APrecompiledHeaderIsNotTakenForTheHeader) {
  at.write("kernel.cpp", good_kernel);
  at.write("scale.h", "#define SCALE 42\n");
  at.write("scale.h.gch", "something else");
  EXPECT_CONTAINS(failure().message, "scale.h.gch");
  std::filesystem::remove(at.project.directory + "/scale.h.gch");
  EXPECT_TRUE(build());
}

TEST_F(CpuBuild, ThePointReachesTheKernelAndNobodyElse) {
  at.write("kernel.cpp", std::string("#ifndef STAGES\n#error no point\n#endif\n") + good_kernel);
  at.write("scale.h", "#define SCALE STAGES\n");
  at.project.tunables = {{.name = "stages", .choices = {1, 2}}};
  at.project.point = {{"stages", 1}};
  const auto first = build();
  ASSERT_TRUE(first) << first.error().to_string();
  at.project.point["stages"] = 2;
  const auto second = build();
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_NE(second->build_hash, first->build_hash);
  EXPECT_NE(second->content_hash, first->content_hash);
  const auto reference = build_cpu(at.project, callable, "reference");
  ASSERT_FALSE(reference);
  EXPECT_CONTAINS(reference.error().message, "no point");
}

TEST_F(CpuBuild, ATamperedLibraryIsBuiltAgain) {
  at.write("kernel.cpp", good_kernel);
  at.write("scale.h", "#define SCALE 42\n");
  const auto first = build();
  ASSERT_TRUE(first);
  std::ofstream(first->library, std::ios::app) << "x";
  const auto again = build();
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->from_cache);
  EXPECT_EQ(again->content_hash, first->content_hash);
}

TEST_F(CpuBuild, CompileErrorHasFileLineAndTheCompilersWords) {
  at.write("kernel.cpp", "int f() {\n  return unknown_name;\n}\n");
  const auto why = failure();
  EXPECT_EQ(why.line, 2);
  EXPECT_EQ(why.file, at.project.directory + "/kernel.cpp");
  EXPECT_CONTAINS(why.message, "unknown_name");
}

TEST_F(CpuBuild, AMissingHeaderIsNamed) {
  at.write("kernel.cpp", "#include \"nowhere.h\"\n");
  const auto why = failure();
  EXPECT_CONTAINS(why.message, "nowhere.h");
  EXPECT_EQ(why.line, 1);
}

TEST_F(CpuBuild, MissingExternCIsNamed) {
  at.write("kernel.cpp", "#include <cudadent/kernel.h>\nint run(const cudadent_call*) { return 0; }\n");
  const auto why = failure();
  EXPECT_CONTAINS(why.message, "extern \"C\" is missing");
  EXPECT_CONTAINS(why.fix, "extern \"C\" int run(");
}

TEST_F(CpuBuild, AMissingEntryIsNamed) {
  at.write("kernel.cpp", "extern \"C\" int other() { return 0; }\n");
  const auto why = failure();
  EXPECT_CONTAINS(why.message, "no function \"run\"");
  EXPECT_CONTAINS(why.fix, "extern \"C\" int run(const cudadent_call* call)");
  EXPECT_EQ(why.line, callable.line);
}

TEST_F(CpuBuild, AnUndefinedSymbolIsDemangledWithItsObject) {
  at.write("kernel.cpp", "extern \"C\" int run(const void*) { return 0; }\n");
  at.write("more.cpp",
           "namespace ops { float reduce(const float*, int); }\nfloat g(float* p) { return ops::reduce(p, 3); }\n");
  callable.sources = {"more.cpp"};
  const auto why = failure();
  EXPECT_CONTAINS(why.message, "undefined symbol \"ops::reduce(float const*, int)\", used by more.cpp");
  EXPECT_CONTAINS(why.fix, "list that file in kernel.sources");
}

TEST_F(CpuBuild, AnUndefinedSymbolWithTheOtherLinkageIsNamed) {
  at.write("kernel.cpp",
           "extern \"C\" void helper(int);\nextern \"C\" int run(const void*) { helper(1); return 0; }\n");
  at.write("more.cpp", "void helper(int) {}\n");
  callable.sources = {"more.cpp"};
  const auto why = failure();
  EXPECT_CONTAINS(why.message, "without extern \"C\"");
  EXPECT_CONTAINS(why.fix, "in more.cpp, put extern \"C\" before the definition of helper");
}

TEST_F(CpuBuild, AnUndefinedSymbolWithOtherArgumentsIsNamed) {
  at.write("kernel.cpp", "void helper(long);\nextern \"C\" int run(const void*) { helper(1); return 0; }\n");
  at.write("more.cpp", "void helper(int) {}\n");
  callable.sources = {"more.cpp"};
  EXPECT_CONTAINS(failure().fix, "\"helper(long)\" against \"helper(int)\"");
}

TEST_F(CpuBuild, TheLibraryThatWouldBringASymbolIsNamed) {
  at.write(
      "kernel.cpp",
      "extern \"C\" int omp_get_max_threads();\nextern \"C\" int run(const void*) { return omp_get_max_threads(); }\n");
  EXPECT_CONTAINS(failure().fix, "-fopenmp");
  at.write("kernel.cpp",
           "extern \"C\" const char* fms_version();\nextern \"C\" int run(const void*) { return fms_version()[0]; }\n");
  EXPECT_CONTAINS(failure().fix, "add \"flashmoe\" to kernel.libraries");
}

TEST_F(CpuBuild, OwnLibraryIsFoundAndLoads) {
  at.write("kernel.cpp",
           "#include <flashmoe/flashmoe.h>\nextern \"C\" int run(const void*) { return fms_version()[0]; }\n");
  callable.libraries = {"flashmoe"};
  const auto built = build();
  ASSERT_TRUE(built) << built.error().to_string();
  EXPECT_EQ(built->libraries.size(), 1U);
  void* library = dlopen(built->library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  dlclose(library);
}

TEST_F(CpuBuild, ASlowCompilerIsStopped) {
  at.write("kernel.cpp", good_kernel);
  at.write("scale.h", "#define SCALE 42\n");
  const auto built = build_cpu(at.project, callable, "kernel", {.compile_limit = std::chrono::milliseconds(1)});
  ASSERT_FALSE(built);
  EXPECT_CONTAINS(built.error().message, "timed out");
}

}  // namespace
}  // namespace flashmoe::workflow
