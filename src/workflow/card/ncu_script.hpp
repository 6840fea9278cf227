// The Python program that reads a report of ncu.
#pragma once

namespace flashmoe::workflow {

// Arguments: the report, then folders in which the package may be. Prints one JSON object.
extern const char* const ncu_report_script;

}  // namespace flashmoe::workflow
