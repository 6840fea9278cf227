#include "workflow/runner/session.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/driver.hpp"
#include "support/sha256.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/project/project_for_test.hpp"
#include "workflow/runner/element.hpp"
#include "workflow/runner/launch_text.hpp"

namespace flashmoe::workflow {
namespace {

using std::chrono::milliseconds;

// y = 2 x over n numbers; `body` is the entry.
struct DoublingProject : ProjectForTest {
  explicit DoublingProject(const std::string& body, const std::string& includes = "") {
    write("kernel.cpp",
          includes + "#include <cudadent/kernel.h>\n#include <cstdio>\n#include <cstdlib>\n#include <unistd.h>\n" +
              "extern \"C\" int twice(const cudadent_call* call) {\n"
              "  const float* x = (const float*)call->tensors[0].data; float* y = (float*)call->tensors[1].data;\n"
              "  const int64_t n = call->tensors[0].shape[0]; (void)x; (void)y; (void)n;\n" +
              body + "\n  return 0;\n}\n");
    project.tensors.resize(2);
    project.tensors[0].name = "x";
    project.tensors[0].shape = {"n"};
    project.tensors[1].name = "y";
    project.tensors[1].role = TensorRole::output;
    project.tensors[1].shape = {"n"};
    project.call_limit_seconds = 1;
  }

  RunError start(Session& session, int sets = 2) {
    const auto built = build_cpu(project, cpp_callable("kernel.cpp", "twice"), "kernel");
    if (!built) return {Failure::could_not_start, built.error()};
    const RunError error = session.start(
        project, {.label = "kernel", .library = built->library, .entry = "twice", .content_hash = built->content_hash},
        false);
    if (error.failure != Failure::none) return error;
    return session.bind(project, {{"n", 100}}, "tiny", sets);
  }

  // Starts, fills and runs one block. The limit is generous: only a hang may reach it, not a stalled machine.
  Block run(milliseconds limit = milliseconds(30'000)) {
    Session session;
    Block block;
    block.error = start(session);
    if (!block.ok()) return block;
    for (int set = 0; set < 2; ++set) session.fill(set, static_cast<std::uint64_t>(set));
    session.seal_inputs_and_poison();
    block = session.run(0, 2, limit);
    if (block.ok()) block.error = session.audit();
    if (block.ok()) block.error = session.audit_unasked(milliseconds(30));
    return block;
  }
};

bool contains(const RunError& error, const std::string& text) {
  return error.diagnostic.message.find(text) != std::string::npos;
}

TEST(Session, RunsEverySetOnItsOwnInputs) {
  DoublingProject doubling("for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];");
  Session session;
  const RunError started = doubling.start(session);
  ASSERT_EQ(started.failure, Failure::none) << started.diagnostic.to_string();
  for (int set = 0; set < 2; ++set) session.fill(set, 7 + static_cast<std::uint64_t>(set));
  session.seal_inputs_and_poison();
  const Block block = session.run(0, 2, milliseconds(30'000));
  ASSERT_TRUE(block.ok()) << block.error.diagnostic.to_string();
  EXPECT_EQ(session.audit().failure, Failure::none);
  EXPECT_NE(std::memcmp(session.tensor(0, 0).data(), session.tensor(1, 0).data(), 400), 0);
  for (int set = 0; set < 2; ++set) {
    for (std::size_t i = 0; i < 100; ++i) {
      const double x = load_element(session.tensor(set, 0).data() + 4 * i, CUDADENT_F32);
      ASSERT_EQ(load_element(session.tensor(set, 1).data() + 4 * i, CUDADENT_F32), 2 * x);
    }
  }
}

// What a kernel leaves in its scratch is gone before it is called again, or it could keep results there.
TEST(Session, ScratchIsZeroedOrPoisonedBeforeEveryCall) {
  DoublingProject doubling(
      "int32_t* seen = (int32_t*)cudadent_find_tensor(call, \"seen\")->data;\n"
      "const cudadent_tensor* part = cudadent_find_tensor(call, \"part\");\n"
      "float* parts = (float*)part->data;\n"
      "if (part->shape[0] != 3) return 1;\n"
      "for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i] + seen[i]++;\n"
      "for (int64_t i = 0; i < 3; ++i) { if (parts[i] == parts[i]) return 2; parts[i] = 1; }");
  doubling.project.tunables = {{.name = "splits", .choices = {1, 3}}};
  doubling.project.point = {{"splits", 3}};
  doubling.project.tensors.resize(4);
  for (std::size_t i : {2U, 3U}) doubling.project.tensors[i].role = TensorRole::scratch;
  doubling.project.tensors[2].name = "seen";
  doubling.project.tensors[2].shape = {"n"};
  doubling.project.tensors[2].dtype = CUDADENT_I32;
  doubling.project.tensors[2].zeroed = true;
  doubling.project.tensors[3].name = "part";
  doubling.project.tensors[3].shape = {"splits"};
  Session session;
  const RunError started = doubling.start(session);
  ASSERT_EQ(started.failure, Failure::none) << started.diagnostic.to_string();
  for (int block = 0; block < 2; ++block) {
    for (int set = 0; set < 2; ++set) session.fill(set, 7 + static_cast<std::uint64_t>(set));
    session.seal_inputs_and_poison();
    const Block ran = session.run(0, 2, milliseconds(30'000));
    ASSERT_TRUE(ran.ok()) << ran.error.diagnostic.to_string();
    EXPECT_EQ(session.audit().failure, Failure::none);
    const double x = load_element(session.tensor(1, 0).data(), CUDADENT_F32);
    EXPECT_EQ(load_element(session.tensor(1, 1).data(), CUDADENT_F32), 2 * x);
  }
}

TEST(Session, KillsAndNamesAHang) {
  const Block block = DoublingProject("for (volatile int forever = 1; forever;) {}").run(milliseconds(500));
  EXPECT_EQ(block.error.failure, Failure::hung);
  EXPECT_TRUE(contains(block.error, "hung in workload tiny")) << block.error.diagnostic.message;
  EXPECT_NE(block.error.diagnostic.fix.find("call_limit_seconds"), std::string::npos);
}

TEST(Session, NamesTheSignalAndTheWorkloadOfACrash) {
  const Block block = DoublingProject("*(volatile int*)nullptr = 1;").run();
  EXPECT_EQ(block.error.failure, Failure::crashed);
  EXPECT_TRUE(contains(block.error, "crashed in workload tiny: killed by SIGSEGV")) << block.error.diagnostic.message;
}

TEST(Session, SaysWhereACrashWas) {
  const std::string helper = "static __attribute__((noinline)) void fall(volatile int* at) { *at = 1; }\n";
  const Block block = DoublingProject("fall((volatile int*)0x1230);", helper).run();
  EXPECT_EQ(block.error.failure, Failure::crashed);
  EXPECT_TRUE(contains(block.error, "at address 0x1230")) << block.error.diagnostic.message;
  EXPECT_TRUE(contains(block.error, "in ")) << block.error.diagnostic.message;
  EXPECT_TRUE(contains(block.error, "kernel.cpp:1") || contains(block.error, "fall")) << block.error.diagnostic.message;
}

// The instruction that faults is the C library's; the frame people want is the kernel's.
TEST(Session, BlamesTheKernelForWhatItCalls) {
  const Block block =
      DoublingProject("memset((void*)(0x5000 + n), 1, 4096 * (size_t)n);", "#include <cstring>\n").run();
  EXPECT_EQ(block.error.failure, Failure::crashed);
  EXPECT_TRUE(contains(block.error, "twice") || contains(block.error, "kernel.cpp:")) << block.error.diagnostic.message;
}

TEST(Session, AnAbortSaysWhere) {
  const Block block = DoublingProject("abort();").run();
  EXPECT_EQ(block.error.failure, Failure::crashed);
  EXPECT_TRUE(contains(block.error, "killed by SIGABRT")) << block.error.diagnostic.message;
  EXPECT_TRUE(contains(block.error, "twice") || contains(block.error, "kernel.cpp:")) << block.error.diagnostic.message;
}

TEST(Session, MemoryThatRunsOutIsNoCrash) {
  std::vector<const char*> bodies{"throw std::bad_alloc();", "return 12;"};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)  // the sanitizer's allocator ends the process itself
  bodies.push_back("const size_t most = (size_t)1 << 62; volatile char* p = new char[most - n]; p[0] = 1;");
#endif
  for (const char* body : bodies) {
    const Block block = DoublingProject(body, "#include <new>\n").run();
    EXPECT_EQ(block.error.failure, Failure::out_of_memory) << body << ": " << block.error.diagnostic.message;
  }
}

TEST(Session, AnExceptionIsRefusedWithItsWords) {
  const Block block = DoublingProject("throw std::runtime_error(\"no such tile\");", "#include <stdexcept>\n").run();
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "no such tile")) << block.error.diagnostic.message;
}

TEST(Session, RefusesAWriteToAnInput) {
  const Block block = DoublingProject("for (int64_t i = 0; i < n; ++i) y[i] = 0; ((float*)x)[0] = 0;").run();
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "input 'x'")) << block.error.diagnostic.message;
}

TEST(Session, RefusesAWriteBehindAnOutput) {
  const Block block = DoublingProject("for (int64_t i = 0; i <= n + 8; ++i) y[i] = 1;").run();
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "behind the end of 'y'")) << block.error.diagnostic.message;
}

TEST(Session, RefusesAnEarlyExit) {
  const Block block = DoublingProject("_exit(0);").run();
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "ended its process")) << block.error.diagnostic.message;
}

TEST(Session, RefusesAForgedAnswer) {
  const Block block =
      DoublingProject("for (int fd = 3; fd < 300; ++fd) dprintf(fd, \"{\\\"ok\\\":true,\\\"seconds\\\":0}\\n\");")
          .run();
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "channel")) << block.error.diagnostic.message;
}

TEST(Session, NamesAReturnCode) {
  const Block block = DoublingProject("return 5;").run();
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "returned 5")) << block.error.diagnostic.message;
}

TEST(Session, WhatAKernelPrintsIsNotAnAnswer) {
  const Block block = DoublingProject("puts(\"{\\\"ok\\\":true}\"); fflush(stdout);").run();
  EXPECT_EQ(block.error.failure, Failure::none) << block.error.diagnostic.message;
}

TEST(Session, RefusesALibraryThatIsNotWhatWasBuilt) {
  DoublingProject doubling("");
  const auto built = build_cpu(doubling.project, cpp_callable("kernel.cpp", "twice"), "kernel");
  ASSERT_TRUE(built) << built.error().to_string();
  std::ofstream(built->library, std::ios::app) << "x";
  Session session;
  const RunError error = session.start(
      doubling.project,
      {.label = "kernel", .library = built->library, .entry = "twice", .content_hash = built->content_hash}, false);
  EXPECT_EQ(error.failure, Failure::could_not_start);
  EXPECT_TRUE(contains(error, "not what was built")) << error.diagnostic.message;
}

TEST(Session, RunsAPythonCallable) {
  DoublingProject doubling("");
  doubling.write("twice.py",
                 "import numpy as np\n"
                 "def twice(tensors, params):\n    return {'y': 2 * tensors['x'] + 0 * params['n']}\n"
                 "def make_twice(tensors, params):\n    x, y = tensors['x'], tensors['y']\n"
                 "    return lambda: np.multiply(x, 2, out=y)\n"
                 "def broken(tensors, params):\n    raise ValueError('no such thing')\n");
  for (const std::string entry : {"twice", "make_twice"}) {
    Session session;
    const RunError started = session.start(doubling.project,
                                           {.label = "reference",
                                            .kind = CallableKind::python,
                                            .library = doubling.project.directory + "/twice.py",
                                            .entry = entry},
                                           true);
    if (contains(started, "numpy")) GTEST_SKIP() << started.diagnostic.message;
    ASSERT_EQ(started.failure, Failure::none) << started.diagnostic.message;
    ASSERT_EQ(session.bind(doubling.project, {{"n", 5}}, "tiny", 3).failure, Failure::none);
    for (int set = 0; set < 3; ++set) session.fill(set, 5 + static_cast<std::uint64_t>(set));
    session.seal_inputs_and_poison();
    const Block block = session.run(0, 3, milliseconds(30'000));
    ASSERT_TRUE(block.ok()) << block.error.diagnostic.message;
    const double x = load_element(session.tensor(2, 0).data() + 16, CUDADENT_F32);
    EXPECT_EQ(load_element(session.tensor(2, 1).data() + 16, CUDADENT_F32), 2 * x) << entry;
  }
}

TEST(Launches, WhatIsNoListIsRefused) {
  EXPECT_FALSE(launches_from("[{"));
  EXPECT_FALSE(launches_from("{}"));
  EXPECT_TRUE(launches_from("[]"));
}

std::string status_line(const std::filesystem::path& process, const std::string& key) {
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  return "";
}

// The directory in /proc of the worker, who is the last in the chain of processes that a session starts.
std::filesystem::path worker_process() {
  std::filesystem::path worker;
  for (std::string parent = std::to_string(getpid()); !parent.empty();) {
    std::string child;
    for (const auto& entry : std::filesystem::directory_iterator("/proc"))
      if (status_line(entry.path(), "PPid") == parent) worker = entry.path(), child = entry.path().filename();
    parent = child;
  }
  return worker;
}

constexpr const char* with_threads = "#include <atomic>\n#include <thread>\n";
// A thread that never ends, started by the first call.
constexpr const char* spinning_thread =
    "static bool once = [] { std::thread([] { for (volatile int forever = 1; forever;) {} }).detach(); return true; "
    "}();"
    "(void)once; for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];";

TEST(Session, NothingOfTheKernelRunsBetweenBlocks) {
  DoublingProject doubling(spinning_thread, with_threads);
  Session session;
  ASSERT_EQ(doubling.start(session).failure, Failure::none);
  for (int block = 0; block < 3; ++block) {
    ASSERT_TRUE(session.run(0, 2, milliseconds(30'000)).ok());
    const double before = session.cpu_seconds();
    std::this_thread::sleep_for(milliseconds(40));
    EXPECT_LT(session.cpu_seconds() - before, 1e-4) << "of 40 ms in which nobody asked for anything";
  }
}

TEST(Session, RefusesWorkThatNobodyAskedFor) {
  const Block block = DoublingProject(spinning_thread, with_threads).run();
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "computes while it is not called")) << block.error.diagnostic.message;
}

// A pool that waits for the next call by spinning, for a while, is honest.
TEST(Session, LetsThreadsThatSpinForAMomentCalmDown) {
  const Block block =
      DoublingProject(
          "std::thread([] { for (volatile int left = 1'000'000; left > 0; left = left - 1) {} }).detach();"
          "for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];",
          with_threads)
          .run();
  EXPECT_EQ(block.error.failure, Failure::none) << block.error.diagnostic.message;
}

// A stop is not for ever: whoever may signal the worker, or a signal that it ordered from a file or a device, ends it.
TEST(Session, RefusesAKernelThatWasContinued) {
  DoublingProject doubling(spinning_thread, with_threads);
  Session session;
  ASSERT_EQ(doubling.start(session).failure, Failure::none);
  ASSERT_TRUE(session.run(0, 2, milliseconds(30'000)).ok());
  const double before = session.cpu_seconds();
  kill(std::stoi(worker_process().filename()), SIGCONT);
  const auto until = std::chrono::steady_clock::now() + milliseconds(30'000);
  while (session.cpu_seconds() < before + 0.005 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  const Block block = session.run(0, 2, milliseconds(30'000));
  EXPECT_EQ(block.error.failure, Failure::refused);
  EXPECT_TRUE(contains(block.error, "stopped between calls")) << block.error.diagnostic.message;
}

// Of so many blocks, those that processor time stands for.
int blocks_by_one_thread(const std::string& body, int blocks) {
  DoublingProject doubling(body, with_threads);
  Session session;
  const RunError started = doubling.start(session);
  EXPECT_EQ(started.failure, Failure::none) << started.diagnostic.to_string();
  int count = 0;
  for (int i = 0; i < blocks && started.failure == Failure::none; ++i) {
    const Block block = session.run(0, 2, milliseconds(30'000));
    EXPECT_TRUE(block.ok()) << block.error.diagnostic.to_string();
    EXPECT_GT(block.cpu_seconds, 0);
    count += block.by_one_thread ? 1 : 0;
  }
  return count;
}

TEST(Session, ProcessorTimeStandsForOneThreadThatNeverWaits) {
  EXPECT_GT(blocks_by_one_thread("for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];", 20), 0);
}

TEST(Session, OnlyTheWallTellsWhereSomebodySleepsOrHelps) {
  EXPECT_EQ(blocks_by_one_thread("if (call->tensors[0].data) usleep(500);", 10), 0) << "sleeps";
  EXPECT_EQ(blocks_by_one_thread("std::thread([] {}).join();", 10), 0) << "waits for a thread";
  EXPECT_EQ(blocks_by_one_thread("std::atomic<bool> done{false}; std::thread helper([&] {"
                                 "  for (volatile int left = 100'000; left > 0; left = left - 1) {} done = true; });"
                                 "helper.detach(); while (!done) {}",
                                 10),
            0)
      << "spins while a thread works";
}

TEST(Session, AKernelInPythonPreparesBeforeThereAreInputs) {
  DoublingProject doubling("");
  doubling.write("ahead.py",
                 "import numpy as np\n"
                 "def make_ahead(tensors, params):\n    y, ready = tensors['y'], 2 * tensors['x']\n"
                 "    return lambda: np.copyto(y, ready)\n");
  Session session;
  const RunError started = session.start(doubling.project,
                                         {.label = "kernel",
                                          .kind = CallableKind::python,
                                          .library = doubling.project.directory + "/ahead.py",
                                          .entry = "make_ahead"},
                                         false);
  if (contains(started, "numpy")) GTEST_SKIP() << started.diagnostic.message;
  ASSERT_EQ(started.failure, Failure::none) << started.diagnostic.message;
  ASSERT_EQ(session.bind(doubling.project, {{"n", 5}}, "tiny", 1).failure, Failure::none);
  session.fill(0, 5);
  const Block block = session.run(0, 1, milliseconds(30'000));
  ASSERT_TRUE(block.ok()) << block.error.diagnostic.message;
  const double x = load_element(session.tensor(0, 0).data(), CUDADENT_F32);
  EXPECT_NE(load_element(session.tensor(0, 1).data(), CUDADENT_F32), 2 * x);
}

// A virtual GPU interprets somebody's PTX in the worker's own process: it gives up what a worker for C++ gives up.
TEST(Session, AWorkerWithAVirtualGpuCannotTouchOthers) {
  const auto driver = runtime::virtual_driver_library();
  ASSERT_TRUE(driver) << driver.error().to_string();
  DoublingProject doubling("");
  doubling.write("k.ptx", ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n");
  const std::string image = doubling.project.directory + "/k.ptx";
  const auto hash = sha256_of_file(image);
  ASSERT_TRUE(hash);
  Session session;
  const RunError error = session.start(
      doubling.project,
      {.label = "kernel", .kind = CallableKind::cuda, .driver = *driver, .images = {{.path = image, .hash = *hash}}},
      false);
  ASSERT_EQ(error.failure, Failure::none) << error.diagnostic.to_string();
  EXPECT_EQ(status_line(worker_process(), "Seccomp"), "2") << "no filter";
  EXPECT_EQ(status_line(worker_process(), "NoNewPrivs"), "1");
}

}  // namespace
}  // namespace flashmoe::workflow
