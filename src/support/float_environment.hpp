// The floating-point environment that the library computes in, whatever its caller has set: nearest rounding, every
// exception masked, denormals kept. Another rounding mode or flushed denormals would change results from caller to
// caller, and an unmasked exception would end the process at the first rounding.
#pragma once

#include <cfenv>
#include <cstdint>

namespace flashmoe {

// The default environment while an object of this type lives, the thread's own again after it. A thread that is in it
// already, as nearly all are, pays for two reads. Forced inline: the units of each ISA must not share a copy.
class DefaultFloatEnvironment {
 public:
  inline __attribute__((always_inline)) DefaultFloatEnvironment() : is_other_(!is_default()) {
    if (is_other_) leave_other();
  }
  inline __attribute__((always_inline)) ~DefaultFloatEnvironment() {
    if (is_other_) std::fesetenv(&other_);
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  // Vector code obeys MXCSR, printf's rounding the x87 control word. The flags of exceptions that have happened (bits 0
  // to 5 of MXCSR) are nobody's setting.
  static constexpr std::uint32_t default_mxcsr = 0x1f80, mxcsr_flags = 0x3f;
  static constexpr std::uint16_t default_x87 = 0x037f, x87_settings = 0x0f3f;

  static inline __attribute__((always_inline)) bool is_default() {
    std::uint32_t mxcsr;
    std::uint16_t x87;
    asm volatile("stmxcsr %0" : "=m"(mxcsr)::"memory");
    asm volatile("fnstcw %0" : "=m"(x87)::"memory");
    return (mxcsr & ~mxcsr_flags) == default_mxcsr && (x87 & x87_settings) == (default_x87 & x87_settings);
  }
  inline __attribute__((always_inline)) void leave_other() {
    std::fegetenv(&other_);
    std::fesetenv(FE_DFL_ENV);
    const std::uint32_t mxcsr = default_mxcsr;
    asm volatile("ldmxcsr %0" ::"m"(mxcsr) : "memory");  // C's default says nothing about denormals
  }
#else
  static bool is_default() {
    return false;
  }  // saved and restored in any case
  void leave_other() {
    std::fegetenv(&other_);
    std::fesetenv(FE_DFL_ENV);
  }
#endif

  bool is_other_;
  std::fenv_t other_;  // set where is_other_
};

}  // namespace flashmoe
