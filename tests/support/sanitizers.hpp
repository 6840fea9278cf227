// Which sanitizer this is built with: they replace malloc, watch memory themselves, and make everything much slower.
#pragma once

#if defined(__has_feature)
#define FMS_HAS_FEATURE(name) __has_feature(name)
#else
#define FMS_HAS_FEATURE(name) 0
#endif

namespace flashmoe::testing {

#if defined(__SANITIZE_ADDRESS__) || FMS_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || FMS_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// Tests that repeat themselves for the sake of numerics do it less often here.
inline constexpr bool kSlowBuild = kAddressSanitizer || kThreadSanitizer;

}  // namespace flashmoe::testing
