// toml++, compiled once into an archive of our own, for the same reason as fmt.cpp, in the way that its manual shows.
// Not all that it asserts of documents is true of wrong ones (a table's name may begin with any character). With NDEBUG
// it believes itself, and the error that it has for such a document may be optimised away; without, it ends the
// process.
#undef NDEBUG
#define TOML_ASSERT(expression) static_cast<void>(0)
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
