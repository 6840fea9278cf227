#include "workflow/environment/doctor.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "support/process.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/environment/fake_python_for_test.hpp"
#include "workflow/environment/observation.hpp"

namespace flashmoe::workflow {
namespace {

TEST(Doctor, GroupsStandTogetherAndTheVerdictCounts) {
  const FakePython python(good_basic, good_torch);
  const auto report = examine_machine();
  std::set<std::string> closed;
  std::string current;
  for (const Finding& finding : report.findings) {
    if (finding.group == current) continue;
    EXPECT_TRUE(closed.insert(finding.group).second) << finding.group << " comes twice";
    current = finding.group;
  }
  EXPECT_FALSE(report.verdict.empty());
  EXPECT_EQ(report.outcome() == Outcome::fails,
            std::any_of(report.findings.begin(), report.findings.end(),
                        [](const Finding& finding) { return finding.severity == Severity::error; }));
}

// Who installed the wheel to run programs on the virtual GPU needs neither a compiler nor the attention library.
TEST(Doctor, WithoutACompilerProgramsStillRun) {
  const FakePython python(good_basic, good_torch);
  setenv("CXX", "no-such-compiler", 1);
  const auto report = examine_machine();
  unsetenv("CXX");
  const Finding* compiler = find_finding(report.findings, "kernel projects in C++ want one, cudadent run does not");
  ASSERT_NE(compiler, nullptr);
  EXPECT_EQ(compiler->severity, Severity::warning);
  EXPECT_EQ(report.outcome(), Outcome::inconclusive);
  EXPECT_TRUE(report.verdict.starts_with("fit: programs run on the virtual GPU")) << report.verdict;
  EXPECT_EQ(find_finding(report.findings, "libflashmoe.so is not beside"), nullptr);
  setenv("CUDADENT_FLASHMOE_DIR", "/nowhere", 1);
  const auto asked = examine_machine();
  unsetenv("CUDADENT_FLASHMOE_DIR");
  EXPECT_NE(find_finding(asked.findings, "CUDADENT_FLASHMOE_DIR is"), nullptr) << "who asks for it is told";
}

// A libflashmoe.so that answers as it is told.
struct StandInLibrary {
  ProjectForTest at;
  explicit StandInLibrary(const std::string& source) {
    at.write("library.cpp", source);
    const std::string& directory = at.project.directory;
    Command compile{.argv = find_cxx_compiler()->argv};
    for (const char* word : {"-shared", "-fPIC", "library.cpp", "-o", "libflashmoe.so"})
      compile.argv.emplace_back(word);
    compile.directory = directory;
    const auto done = run_process(compile);
    EXPECT_TRUE(done && done->exit_code == 0);
    setenv("CUDADENT_FLASHMOE_DIR", at.project.directory.c_str(), 1);
  }
  ~StandInLibrary() { unsetenv("CUDADENT_FLASHMOE_DIR"); }
  StandInLibrary(const StandInLibrary&) = delete;
  StandInLibrary& operator=(const StandInLibrary&) = delete;
};

constexpr const char* answers =
    "#include <cstddef>\n#include <cstdint>\n"
    "extern \"C\" size_t fms_cuda_images(int32_t* to, size_t n) {\n"
    "  const int32_t all[] = {IMAGES};\n  const size_t count = sizeof all / sizeof *all - 1;\n"
    "  for (size_t i = 0; i < count && i < n; ++i) to[i] = all[i];\n  return count;\n}\n"
    "extern \"C\" const char* fms_why_no_cuda_images() { return \"its images are on the moon\"; }\n";

bool says(const Observations& seen, const std::string& part) {
  return std::any_of(seen.all.begin(), seen.all.end(),
                     [&](const Observation& one) { return one.finding.what.find(part) != std::string::npos; });
}

std::string library_with(const std::string& images) {
  std::string source = answers;
  return source.replace(source.find("IMAGES"), 6, images + (images.empty() ? "-1" : ", -1"));
}

TEST(Doctor, TheLibraryTellsItsGpuKernels) {
  const StandInLibrary library(library_with("0, 80, 120"));
  const Observations seen = examine_cuda();
  EXPECT_EQ(seen.facts.cuda->embedded_images, (std::vector<std::string>{"PTX", "sm_80", "sm_120"}));
  EXPECT_TRUE(says(seen, "GPU kernels of libflashmoe.so: PTX, sm_80, sm_120"));
}

TEST(Doctor, ALibraryWithoutGpuKernelsIsNamed) {
  const StandInLibrary library(library_with(""));
  const Observations seen = examine_cuda();
  EXPECT_EQ(seen.facts.cuda->embedded_images, std::vector<std::string>{});
  EXPECT_TRUE(says(seen, "libflashmoe.so has no GPU kernels: its images are on the moon"));
}

TEST(Doctor, ALibraryThatCannotTellIsNamed) {
  const StandInLibrary library("int nothing;\n");
  const Observations seen = examine_cuda();
  EXPECT_EQ(seen.facts.cuda->embedded_images, std::nullopt);
  EXPECT_TRUE(says(seen, "does not tell which GPU kernels it has"));
}

TEST(Doctor, GpusWithoutKernelsAreNamed) {
  const auto warnings = [](const std::vector<int>& images, int gpu) {
    Observations seen;
    EXPECT_EQ(judge_library_images(LibraryImages{images}, {gpu}, seen)->size(), images.size());
    return std::count_if(seen.all.begin(), seen.all.end(),
                         [](const Observation& one) { return one.finding.severity == Severity::warning; });
  };
  EXPECT_EQ(warnings({80}, 80), 0);
  EXPECT_EQ(warnings({80}, 89), 0) << "the same generation";
  EXPECT_EQ(warnings({89}, 80), 1) << "an older GPU of it";
  EXPECT_EQ(warnings({80}, 90), 1) << "another generation";
  EXPECT_EQ(warnings({0, 80}, 90), 0) << "PTX serves it";
  EXPECT_EQ(warnings({0, 80}, 75), 1) << "older than the PTX";
}

TEST(Doctor, TheLeastDriverIsNamed) {
  const auto judged = [](int version, const char* toolkit) {
    Observations seen;
    judge_driver_version(version, toolkit, seen);
    return seen;
  };
  const Observations old = judged(11080, ""), newest = judged(13000, "13.0"), between = judged(12040, "13.0");
  EXPECT_TRUE(says(old, "the driver is for CUDA 11.8: 525, for CUDA 12.0, is the oldest"));
  EXPECT_EQ(old.all.at(0).finding.severity, Severity::warning);
  EXPECT_EQ(newest.all.at(0).finding.severity, Severity::ok);
  EXPECT_TRUE(says(newest, "driver for CUDA 13.0 (525, for CUDA 12.0, is the oldest"));
  EXPECT_TRUE(says(between, "PTX will (libflashmoe.so has both)"));
}

TEST(Doctor, AnOccupiedNameIsAClash) {
  const FakePython python(
      R"({"version":"3.11.7","numpy":{"installed":true,"loads":true,"version":"2"},"extension":{"installed":false},)"
      R"("flashmoe_owners":["flashmoe","flashmoe-py"]})",
      good_torch);
  const auto report = examine_machine();
  const Finding* clash = find_finding(report.findings, "top-level package \"flashmoe\"");
  ASSERT_NE(clash, nullptr);
  EXPECT_EQ(clash->severity, Severity::warning);
  EXPECT_NE(clash->fix.find("pip uninstall flashmoe flashmoe-py"), std::string::npos) << clash->fix;
}

TEST(Doctor, AnExtensionOfAnotherVersionIsNamed) {
  const FakePython python(
      R"({"version":"3","numpy":{"installed":true,"loads":true,"version":"2"},"flashmoe_owners":[],)"
      R"("extension":{"installed":true,"loads":true,"version":"99.0","functions":["attention","flash_attention_forward"]}})",
      good_torch);
  EXPECT_NE(find_finding(examine_machine().findings, "our extension is version 99.0, this tool "), nullptr);
}

TEST(Doctor, AHangingPythonCostsItsLimitAndNoMore) {
  ProjectForTest at;
  at.write("python", "#!/bin/sh\nexec sleep 1000\n");
  const std::string program = at.project.directory + "/python";
  chmod(program.c_str(), 0755);
  setenv("CUDADENT_PYTHON", program.c_str(), 1);
  DoctorOptions options;
  options.python_limit_seconds = 0.5;
  const auto report = examine_machine(options);
  unsetenv("CUDADENT_PYTHON");
  EXPECT_LT(report.seconds, 200);  // 1000 if it waited
  EXPECT_NE(find_finding(report.findings, "torch did not import within 0.5 s"), nullptr);
}

TEST(Doctor, TheRealPythonAnswers) {
  unsetenv("CUDADENT_PYTHON");
  if (find_python().empty()) FAIL() << "no python3 on PATH: the probe cannot be shown to work";
  const auto seen = examine_python({.limit_seconds = 200, .torch = true, .extension = true});
  ASSERT_TRUE(seen.facts.python);
  EXPECT_EQ(seen.facts.python->version.value_or("").substr(0, 2), "3.");
  EXPECT_TRUE(seen.facts.python->torch) << "installed or not, it is said";
}

// A package whose module needs a library that nobody has: named from the ELF files, not from an error text.
TEST(Doctor, TheMissingLibraryIsNamedWithItsPackage) {
  ProjectForTest at;
  const std::filesystem::path package = std::filesystem::path(at.project.directory) / "site" / "torch";
  std::filesystem::create_directories(package / "lib");
  const auto compile = [&](const std::vector<std::string>& flags) {
    Command command{.argv = {"g++", "-shared", "-fPIC", "-x", "c++", "/dev/null", "-x", "none"}};
    command.argv.insert(command.argv.end(), flags.begin(), flags.end());
    const auto ran = run_process(command);
    ASSERT_TRUE(ran && ran->ok()) << (ran ? ran->err : ran.error().message);
  };
  const std::string lib = (package / "lib").string();
  compile({"-Wl,-soname,libcudart.so.99", "-o", lib + "/libcudart.so.99"});
  compile({"-Wl,--no-as-needed", "-o", lib + "/libtorch_cuda.so", lib + "/libcudart.so.99"});
  compile({"-Wl,--no-as-needed", "-o", (package / "_C.so").string(), "-L" + lib, "-Wl,--allow-shlib-undefined",
           "-l:libtorch_cuda.so", "-Wl,-rpath-link," + lib});
  EXPECT_TRUE(missing_libraries(package.string()).empty());

  std::filesystem::remove(package / "lib" / "libcudart.so.99");
  const auto missing = missing_libraries(package.string());
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].soname, "libcudart.so.99");
  EXPECT_EQ(missing[0].wanted_by, "libtorch_cuda.so");

  const FakePython python(good_basic, R"({"installed":true,"loads":false,"error":"ImportError: x","module":"torch._C",)"
                                      R"("directory":")" +
                                          package.string() + R"("})");
  const auto report = examine_machine();
  const Finding* finding = find_finding(report.findings, "libtorch_cuda.so needs libcudart.so.99, which is nowhere");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->fix.find("-m pip install nvidia-cuda-runtime"), std::string::npos) << finding->fix;
}

TEST(Doctor, PackagesOfLibraries) {
  EXPECT_EQ(package_of_library("libcublas.so.13"), "pip install nvidia-cublas");
  EXPECT_EQ(package_of_library("libcublas.so.12"), "pip install nvidia-cublas-cu12");
  EXPECT_EQ(package_of_library("libgomp.so.1"), "sudo apt-get install libgomp1");
  EXPECT_EQ(package_of_library("libunknown.so.1"), "");
}

}  // namespace
}  // namespace flashmoe::workflow
