// Kernels that reach for what is not theirs.
#include "workflow/runner/confine_kernel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/process.hpp"
#include "support/sha256.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/project/project_for_test.hpp"
#include "workflow/runner/session.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

struct ReachingProject : ProjectForTest {
  ReachingProject() {
    project.tensors.resize(2);
    project.tensors[0].name = "x";
    project.tensors[0].shape = {"n"};
    project.tensors[1].name = "y";
    project.tensors[1].role = TensorRole::output;
    project.tensors[1].shape = {"n"};
    project.call_limit_seconds = 10;
  }

  // `reach` is a C++ expression; the kernel returns 0 when it is false.
  RunError run_cpp(const std::string& reach, bool trusted = false) {
    write("kernel.cpp",
          "#include <cudadent/kernel.h>\n#include <cstdio>\n#include <cstdlib>\n#include <unistd.h>\n"
          "#include <sys/mman.h>\n#include <sys/socket.h>\n#include <sys/stat.h>\n#include <fcntl.h>\n"
          "extern \"C\" int reach(const cudadent_call* call) {\n"
          "  float* y = (float*)call->tensors[1].data;\n"
          "  for (int64_t i = 0; i < call->tensors[1].shape[0]; ++i) y[i] = 1;\n  return (" +
              reach + ") ? 7 : 0;\n}\n");
    const auto built = build_cpu(project, cpp_callable("kernel.cpp", "reach"), "kernel");
    if (!built) return {Failure::could_not_start, built.error()};
    return run({.label = "kernel", .library = built->library, .entry = "reach", .content_hash = built->content_hash},
               trusted);
  }

  RunError run_python(const std::string& text, bool trusted) {
    write("callable.py", text);
    const std::string file = project.directory + "/callable.py";
    return run({.label = "python",
                .kind = CallableKind::python,
                .library = file,
                .entry = "f",
                .content_hash = *sha256_of_file(file)},
               trusted);
  }

  RunError run(const Runnable& runnable, bool trusted) {
    Session session;
    if (RunError error = session.start(project, runnable, trusted); error.failure != Failure::none) return error;
    if (RunError error = session.bind(project, {{"n", 4}}, "tiny", 1); error.failure != Failure::none) return error;
    session.fill(0, 1);
    session.seal_inputs_and_poison();
    return session.run(0, 1, milliseconds(30'000)).error;
  }
};

TEST(ConfineKernel, AnHonestKernelRuns) {
  const RunError error = ReachingProject().run_cpp("false");
  EXPECT_EQ(error.failure, Failure::none) << error.diagnostic.message;
}

TEST(ConfineKernel, AKernelWritesNowhereAndReadsOnlyItsProject) {
  if (landlock_version() == 0) GTEST_SKIP() << confinement_here();
  ReachingProject reaching;
  fs::create_directory(fs::path(reaching.project.directory) / ".cudadent");
  reaching.write(".cudadent/records.jsonl", "");
  const fs::path secret = fs::path(reaching.project.directory).parent_path() / "confine_kernel_test.secret";
  std::ofstream(secret) << "key";
  for (const std::string& reach : {std::string("std::fopen(\".cudadent/records.jsonl\", \"a\") != nullptr"),
                                   std::string("std::fopen(\"numpy.py\", \"w\") != nullptr"),
                                   std::string("std::fopen(\"kernel.cpp\", \"r+\") != nullptr"),
                                   std::string("std::fopen(\"../outside\", \"w\") != nullptr"),
                                   "std::fopen(\"" + secret.string() + "\", \"r\") != nullptr",
                                   std::string("std::rename(\"kernel.cpp\", \"other.cpp\") == 0")}) {
    const RunError error = reaching.run_cpp(reach);
    EXPECT_EQ(error.failure, Failure::none) << reach << ": " << error.diagnostic.message;
  }
  fs::remove(secret);
}

TEST(ConfineKernel, AKernelHasNoNetworkAndNoEnvironment) {
  ::setenv("CONFINE_TEST_TOKEN", "secret", 1);
  for (const char* reach : {"socket(AF_INET, SOCK_STREAM, 0) >= 0", "socket(AF_UNIX, SOCK_STREAM, 0) >= 0",
                            "std::getenv(\"CONFINE_TEST_TOKEN\") != nullptr"}) {
    const RunError error = ReachingProject().run_cpp(reach);
    EXPECT_EQ(error.failure, Failure::none) << reach << ": " << error.diagnostic.message;
  }
}

TEST(ConfineKernel, AKernelHasNoUnlimitedMemory) {
  if (limits_for_foreign_code().private_bytes == 0) GTEST_SKIP() << "built with a sanitizer";
  const RunError error = ReachingProject().run_cpp(
      "mmap(nullptr, size_t{1} << 44, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != "
      "MAP_FAILED");
  EXPECT_EQ(error.failure, Failure::none) << error.diagnostic.message;
}

// Who may write there takes processors from the others, or memory.
TEST(ConfineKernel, AKernelWritesToNoControlGroup) {
  if (landlock_version() == 0) GTEST_SKIP() << confinement_here();
  for (const char* directory : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu"}) {
    if (!fs::exists(directory)) continue;
    for (const std::string& reach : {fmt::format("open(\"{}/cgroup.procs\", O_WRONLY) >= 0", directory),
                                     fmt::format("mkdir(\"{}/of_a_kernel\", 0755) == 0", directory)}) {
      const RunError error = ReachingProject().run_cpp(reach);
      EXPECT_EQ(error.failure, Failure::none) << reach << ": " << error.diagnostic.message;
    }
  }
}

TEST(ConfineKernel, AReferenceWritesNowhereEither) {
  if (landlock_version() == 0) GTEST_SKIP() << confinement_here();
  const RunError error = ReachingProject().run_cpp("std::fopen(\"numpy.py\", \"w\") != nullptr", true);
  EXPECT_EQ(error.failure, Failure::none) << error.diagnostic.message;
}

bool has_numpy() {
  return std::system((python_program() + " -I -c 'import numpy' >/dev/null 2>&1").c_str()) == 0;
}

// A kernel that ran before may have left them there.
TEST(ConfineKernel, PlantedModulesAreNotImported) {
  if (!has_numpy()) GTEST_SKIP() << "no numpy";
  ReachingProject reaching;
  reaching.write("numpy.py", "raise SystemExit('planted')\n");
  reaching.write("statistics.py", "raise SystemExit('planted')\n");
  reaching.write("helper.py", "value = 1\n");
  ::setenv("PYTHONPATH", reaching.project.directory.c_str(), 1);
  const RunError error = reaching.run_python(
      "import numpy, statistics, helper\ndef f(tensors, params):\n    tensors['y'][:] = "
      "statistics.mean([helper.value])\n",
      true);
  ::unsetenv("PYTHONPATH");
  EXPECT_EQ(error.failure, Failure::none) << error.diagnostic.message;
}

// Bytecode says what it likes: an unchecked one is run whatever the source beside it says.
TEST(ConfineKernel, PlantedBytecodeIsNotRun) {
  if (!has_numpy()) GTEST_SKIP() << "no numpy";
  ReachingProject reaching;
  const std::string honest = "def f(tensors, params):\n    tensors['y'][:] = 1\n";
  const std::string lie = "def f(tensors, params):\n    raise RuntimeError('planted')\n";
  for (const char* name : {"callable", "helper"}) {
    reaching.write("lie.py", lie);
    const auto planted =
        run_process({.argv = {python_program(), "-I", "-c",
                              "import importlib.util, py_compile, sys\n"
                              "py_compile.compile('lie.py', importlib.util.cache_from_source(sys.argv[1]),"
                              " invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\n",
                              std::string(name) + ".py"},
                     .directory = reaching.project.directory});
    ASSERT_TRUE(planted && planted->ok()) << (planted ? planted->err : planted.error().message);
  }
  reaching.write("helper.py", honest);
  for (const std::string& text : {honest, std::string("import helper\nf = helper.f\n")}) {
    const RunError error = reaching.run_python(text, true);
    EXPECT_EQ(error.failure, Failure::none) << error.diagnostic.message;
  }
}

TEST(ConfineKernel, APythonKernelIsConfinedToo) {
  if (!has_numpy() || landlock_version() == 0) GTEST_SKIP() << "no numpy, or " << confinement_here();
  const RunError error = ReachingProject().run_python(
      "def f(tensors, params):\n    tensors['y'][:] = 1\n    try:\n        open('numpy.py', 'w')\n"
      "    except PermissionError:\n        return\n    raise ValueError('it wrote')\n",
      false);
  EXPECT_EQ(error.failure, Failure::none) << error.diagnostic.message;
}

// What a C++ kernel may not either; threads it may have.
TEST(ConfineKernel, APythonKernelTouchesNobodyElse) {
  if (!has_numpy()) GTEST_SKIP() << "no numpy";
  const RunError error = ReachingProject().run_python(
      "import os, resource, subprocess, threading\n"
      "def refused(reach, *arguments):\n    try:\n        reach(*arguments)\n"
      "    except PermissionError:\n        return\n    raise ValueError('%r was allowed' % reach)\n"
      "def f(tensors, params):\n    helper = threading.Thread(target=lambda: tensors['y'].fill(1))\n"
      "    helper.start()\n    helper.join()\n    refused(os.fork)\n    refused(subprocess.run, ['true'])\n"
      "    refused(os.kill, os.getppid(), 0)\n    refused(os.setpriority, os.PRIO_PROCESS, os.getppid(), 19)\n"
      "    refused(os.sched_setaffinity, os.getppid(), [0])\n"
      "    refused(resource.prlimit, os.getppid(), resource.RLIMIT_CPU, (1, 1))\n"
      "    powers = next(line for line in open('/proc/self/status') if line.startswith('CapEff'))\n"
      "    if int(powers.split()[1], 16) & 1 << 21:\n        raise ValueError('it may administer')\n",
      false);
  EXPECT_EQ(error.failure, Failure::none) << error.diagnostic.message;
}

TEST(ConfineKernel, APythonKernelLeavesNoProcessesBehind) {
  if (!has_numpy()) GTEST_SKIP() << "no numpy";
  const RunError error = ReachingProject().run_python(
      "import subprocess\nsubprocess.Popen(['sleep', '1000'])\ndef f(tensors, params):\n    tensors['y'][:] = 1\n",
      false);
  EXPECT_NE(error.diagnostic.message.find("left 1 processes running"), std::string::npos) << error.diagnostic.message;
}

}  // namespace
}  // namespace flashmoe::workflow
