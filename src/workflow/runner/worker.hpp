// The worker's side: a process that loads one shared library and calls its entry on request. It believes its
// controller and nothing else; whatever it says about itself is only a cross-check.
//
// One JSON object a line each way; every request carries a number `n` that its answer repeats.
//   {"n":1,"cmd":"load","library":"...","entry":"...","hash":"...","trusted":false}
//   {"n":2,"cmd":"bind","inputs_fd":5,"outputs_fd":6,"input_bytes":...,"output_bytes":...,"sets":8,"threads":1,
//    "params":{...},"tensors":[{"name","role","dtype","shape","stride","offset","absent"}]}
//   {"n":3,"cmd":"run","first":0,"count":8,"variant":""}
// A CUDA kernel is loaded by {"cmd":"load_gpu","driver":"...","ordinal":0,"images":[{"path":"...","hash":"..."}]} and
// bound with "launches" (launch_text.hpp). On a card {"cmd":"run",...,"timing":"kernel"} (timing.hpp) answers with
// "card_seconds", the card's own, and {"cmd":"count","metrics":[...]} with "count" (call_count.hpp).
// Answers: {"n":3,"ok":true,...} or {"n":3,"ok":false,"error":"...","set":2}.
// The memory before a crash: {"fault":"write|read","signal":11,"region":"inputs|outputs|other","offset":...}.
#pragma once

namespace flashmoe::workflow {

// True when `argv` asks for a worker: then worker_main() is all the program does. Programs other than cudadent that run
// sessions (tests) call this first in main.
[[nodiscard]] bool is_worker_call(int argc, char** argv);
[[nodiscard]] int worker_main();

}  // namespace flashmoe::workflow
