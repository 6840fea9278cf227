// The current point: a value for every tunable. It lives in point.toml beside cudadent.toml, a line a tunable in the
// order they are declared, so that one change is a one-line diff whoever makes it. What the file leaves out has its
// default.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/locations.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

inline constexpr const char* point_file_name = "point.toml";

[[nodiscard]] Values default_point(const Project& project);
// What `text` says of the project's point. Errors carry `file`, line, column and key: an unknown name, a value that is
// none of the choices, a rule that is broken.
[[nodiscard]] Result<Values> parse_point(const Project& project, const std::string& text, const std::string& file);
// What parse_point reads: every tunable, `name = value`.
[[nodiscard]] std::string point_text(const Project& project, const Values& point);
[[nodiscard]] Result<Done> write_point(const Project& project, const Values& point);

[[nodiscard]] bool is_kept(const TunableRule& rule, const Values& point);
// The first rule that the point breaks; nullptr: it is legal.
[[nodiscard]] const TunableRule* broken_rule(const Project& project, const Values& point);
// "where stages > 1, async must hold (one buffer cannot be filled while it is read)"
[[nodiscard]] std::string rule_text(const TunableRule& rule);
// The legal points that differ from this one in one value.
[[nodiscard]] std::vector<Values> single_moves(const Project& project, const Values& point);

// The workload's values and the point's: what launch geometry, arguments and scratch shapes may name.
[[nodiscard]] Values with_point(const Project& project, const Values& values);
// What compilers of the kernel are told: "-DSTAGES=2".
[[nodiscard]] std::vector<std::string> point_flags(const Project& project);
// "attention<{rows}>" becomes "attention<64>" in the names of instances and launches.
[[nodiscard]] Result<Done> put_point_into_names(Project& project, const Locations& locations);

[[nodiscard]] std::string macro_of(const Tunable& tunable);                  // "STAGES"
[[nodiscard]] std::string value_text(const Tunable& tunable, double value);  // "2", "true"
[[nodiscard]] std::string choices_text(const Tunable& tunable);              // "1, 2, 4"

}  // namespace flashmoe::workflow
