// NVIDIA's own libcupti, on a machine without a GPU: it plans counters for chips that are named to it. Counting itself
// was never run on a card; here it is refused in words.
#include "runtime/range_profiler.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/counter_access.hpp"
#include "support/temporary_directory.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::runtime {
namespace {

std::shared_ptr<const Cupti> cupti() {
  const auto found = Cupti::find();
  EXPECT_TRUE(found) << found.error().to_string();
  return found ? *found : nullptr;
}

TEST(Cupti, PlansCountersOfAChipThatIsNotHere) {
  const auto library = cupti();
  ASSERT_NE(library, nullptr);
  const std::vector<std::string> metrics{"smsp__inst_executed.sum", "dram__bytes_read.sum"};
  const auto plan = CounterPlan::make(library, "AD104", metrics);
  ASSERT_TRUE(plan) << plan.error().to_string();
  EXPECT_EQ(plan->metrics(), metrics);
  EXPECT_TRUE(plan->refused().empty());
  EXPECT_EQ(plan->passes(), 1U);  // counters of different units are read at once
  EXPECT_FALSE(plan->config().empty());
}

// A worker gets the path, and may then read nothing else.
TEST(Cupti, SaysWhichFileItIs) {
  const auto library = cupti();
  ASSERT_NE(library, nullptr);
  EXPECT_TRUE(std::filesystem::path(library->library()).is_absolute()) << library->library();
  EXPECT_TRUE(std::filesystem::exists(library->library())) << library->library();
  EXPECT_TRUE(Cupti::open(library->library()));
}

TEST(Cupti, NamesWhatAChipDoesNotHave) {
  const auto library = cupti();
  ASSERT_NE(library, nullptr);
  const std::vector<std::string> metrics{"smsp__inst_executed.sum", "smsp__wishes_granted.sum"};
  const auto plan = CounterPlan::make(library, "AD104", metrics);
  ASSERT_TRUE(plan) << plan.error().to_string();
  EXPECT_EQ(plan->metrics(), std::vector<std::string>{"smsp__inst_executed.sum"});
  EXPECT_EQ(plan->refused(), std::vector<std::string>{"smsp__wishes_granted.sum"});
  const auto none = CounterPlan::make(library, "AD104", std::vector<std::string>{"smsp__wishes_granted.sum"});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("none of the 1 metrics"), std::string::npos) << none.error().message;
}

TEST(Cupti, RefusesAChipThatNobodyKnows) {
  const auto library = cupti();
  ASSERT_NE(library, nullptr);
  const auto plan = CounterPlan::make(library, "XX999", std::vector<std::string>{"smsp__inst_executed.sum"});
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("XX999"), std::string::npos) << plan.error().message;
  EXPECT_FALSE(plan.error().fix.empty());
}

TEST(Cupti, ALibraryThatIsNoneIsRefusedInWords) {
  const auto missing = Cupti::open("/nowhere/libcupti.so.13");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("does not load"), std::string::npos);
  const auto other = Cupti::open("libm.so.6");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("does not export cuptiGetVersion"), std::string::npos) << other.error().message;
}

// Libraries of the build that answer as the CUPTI of other toolkits would.
std::string cupti_of(const std::string& toolkit) {
  return in_build("src/runtime/libcupti_of_" + toolkit + ".so");
}

TEST(Cupti, AnotherGenerationIsRefusedInWords) {
  for (const char* toolkit : {"12_6", "14_0"}) {
    const auto opened = Cupti::open(cupti_of(toolkit));
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message.find("only those of CUDA 12.8 to 13"), std::string::npos)
        << opened.error().message;
    EXPECT_FALSE(opened.error().fix.empty());
  }
}

TEST(Cupti, VersionsHaveTheNamesOfTheirToolkits) {
  EXPECT_EQ(cupti_version_text(26), "CUDA 12.8");
  EXPECT_EQ(cupti_version_text(130001), "CUDA 13.0");
  EXPECT_EQ(cupti_version_text(130300), "CUDA 13.3");
  EXPECT_EQ(cupti_version_text(22), "API version 22");
}

TEST(Cupti, LockedCountersSayWhatTheAdministratorMustDo) {
  const auto library = cupti();
  ASSERT_NE(library, nullptr);
  for (const cupti::Code code : {cupti::insufficient_privileges, cupti::virtualized_device_insufficient_privileges}) {
    const auto checked = library->check(code, "cuptiRangeProfilerEnable");
    ASSERT_FALSE(checked);
    EXPECT_NE(checked.error().message.find("ERR_NVGPUCTRPERM"), std::string::npos);
    EXPECT_NE(checked.error().fix.find("NVreg_RestrictProfilingToAdminUsers=0"), std::string::npos);
  }
  EXPECT_NE(library->check(1, "cuptiRangeProfilerStart").error().message.find("INVALID_PARAMETER"), std::string::npos);
}

TEST(CounterAccess, IsReadFromTheDriversOwnFile) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "params").string();
  EXPECT_EQ(counters_are_for_administrators(file), std::nullopt);
  const auto with = [&](const std::string& text) {
    std::ofstream(file) << text;
    return counters_are_for_administrators(file);
  };
  EXPECT_EQ(with("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n"), true);
  EXPECT_EQ(with("RmProfilingAdminOnly: 0\n"), false);
  EXPECT_EQ(with("SomethingElse: 1\n"), std::nullopt);
  EXPECT_EQ(with("RmProfilingAdminOnly:\n"), std::nullopt);
}

std::shared_ptr<Context> virtual_context() {
  const auto library = virtual_driver_library();
  EXPECT_TRUE(library) << library.error().to_string();
  if (!library) return nullptr;
  const auto driver = Driver::open(*library);
  EXPECT_TRUE(driver) << driver.error().to_string();
  if (!driver) return nullptr;
  const auto context = Context::create(*driver);
  EXPECT_TRUE(context) << context.error().to_string();
  return context ? *context : nullptr;
}

// A virtual GPU's context is none of CUPTI's: it says so, and nothing crashes.
TEST(RangeProfiler, WithoutACardIsRefusedInWords) {
  const auto library = cupti();
  const auto context = virtual_context();
  ASSERT_TRUE(library != nullptr && context != nullptr);
  const std::vector<std::string> metrics{"smsp__inst_executed.sum"};
  const auto profiler = RangeProfiler::create(library, context, metrics, 1);
  ASSERT_FALSE(profiler);
  EXPECT_NE(profiler.error().message.find("cupti"), std::string::npos) << profiler.error().message;
  EXPECT_FALSE(profiler.error().fix.empty());
}

// The order of calls, rehearsed with a library that pretends: no figure in it is a counter's.
class PretendedCupti : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = Cupti::open(cupti_of("13_0"));
    ASSERT_TRUE(opened) << opened.error().to_string();
    library_ = *opened;
    handle_ = dlopen(cupti_of("13_0").c_str(), RTLD_NOW);
    *static_cast<char*>(dlsym(handle_, "pretended_calls")) = '\0';
    context_ = virtual_context();
    ASSERT_NE(context_, nullptr);
  }
  void TearDown() override {
    set("pretended_locked", 0);
    set("pretended_all_passes", 1);
    set("pretended_dropped", 0);
  }
  void set(const char* name, int value) { *static_cast<int*>(dlsym(handle_, name)) = value; }
  std::string calls() { return static_cast<const char*>(dlsym(handle_, "pretended_calls")); }
  Result<std::unique_ptr<RangeProfiler>> profiler(const std::vector<std::string>& metrics = {"a", "b"}) {
    return RangeProfiler::create(library_, context_, metrics, 2);
  }

  std::shared_ptr<const Cupti> library_;
  std::shared_ptr<Context> context_;
  void* handle_ = nullptr;
};

TEST_F(PretendedCupti, IsCalledInTheDocumentedOrder) {
  {
    const auto made = profiler({"a", "unknown", "no_number", "b"});
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_EQ((*made)->plan().passes(), 3U);
    EXPECT_EQ((*made)->plan().refused(), std::vector<std::string>{"unknown"});
    ASSERT_TRUE((*made)->start());
    ASSERT_TRUE((*made)->stop());
    const auto launches = (*made)->read();
    ASSERT_TRUE(launches) << launches.error().to_string();
    // By launch; what is no number was not counted.
    EXPECT_EQ(*launches, (std::vector<std::map<std::string, double>>{{{"a", 0}, {"b", 2}}, {{"a", 100}, {"b", 102}}}));
  }
  EXPECT_EQ(calls(), "initialize enable clear configure start stop decode disable");
}

TEST_F(PretendedCupti, LockedCountersAreSaidToBe) {
  set("pretended_locked", 1);
  const auto made = profiler();
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("ERR_NVGPUCTRPERM"), std::string::npos) << made.error().message;
  EXPECT_NE(made.error().fix.find("NVreg_RestrictProfilingToAdminUsers=0"), std::string::npos);
}

TEST_F(PretendedCupti, APartOfTheCountersIsNone) {
  const auto made = profiler();
  ASSERT_TRUE(made) << made.error().to_string();
  set("pretended_all_passes", 0);
  const auto part = (*made)->stop();
  ASSERT_FALSE(part);
  EXPECT_NE(part.error().message.find("all 3 passes"), std::string::npos) << part.error().message;
  set("pretended_all_passes", 1);
  set("pretended_dropped", 2);
  const auto dropped = (*made)->stop();
  ASSERT_FALSE(dropped);
  EXPECT_NE(dropped.error().message.find("counters of 2 launches"), std::string::npos) << dropped.error().message;
}

}  // namespace
}  // namespace flashmoe::runtime
