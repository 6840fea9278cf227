// toml++, compiled once into an archive of our own, for the same reason as fmt.cpp, in the way that its manual shows.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
