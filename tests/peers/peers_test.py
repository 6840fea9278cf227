"""The peers' kernels on a driver: right against the fp64 oracle, with every check on and no finding but the real ones.

peers_test.py HOST flashinfer|flash-attn [--driver LIBRARY]

HOST is the program peers_host. Sources come from the package index and are compiled by the real nvcc, both kept in the
cache; without them the test fails. Problems are small: a check of every access costs, and the kernels loop the same.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from build_peers import INSTANCES, build


class Known(NamedTuple):
    """A fault of the peer's own, pinned with its version: it has to be found, and nothing else may be."""

    check: str
    source: str  # the file that the finding names
    words: str  # of its message


# write_o_reg_gmem() stores the fragments of O to shared memory with each lane and then reads rows that other lanes of
# the warp stored, with no __syncwarp() between: right as long as the lanes happen to stay in step, which nothing
# promises since Volta. test_lanes_out_of_step_give_wrong_results shows it.
FI_NO_SYNCWARP = Known("racecheck", "permuted_smem.cuh", "race within a warp")
# Rows of the query tile beyond the last query are never loaded (load_q_global_smem with SharedMemFillMode::kNoFill),
# yet they run through both products, and `m != -inf` of the output transform branches on them. Harmless: these rows are
# not stored. Problems that fill the tile do not have it.
FI_PADDED_ROWS = Known("initcheck", "variant_helper.cuh", "branch")
# The same of FlashAttention-2 ("We don't need to clear the sQ smem tiles"): `sum == 0.f` of the normalisation branches
# on rows beyond the last query.
FA2_PADDED_ROWS = Known("initcheck", "softmax.h", "branch")
# combine_attn_seqk_parallel() stores log-sum-exps for whole blocks of rows, without a bound (it has one for the
# unpadded layout only). Harmless where the allocator rounds sizes up. Problems whose rows fill the blocks do not have
# it.
FA2_LSE_PAST_THE_END = Known("memcheck", "flash_fwd_kernel.h", "past the end")


class Case(NamedTuple):
    instance: str
    shape: str  # batch, query heads, key heads, queries, keys, head size
    kernels: int  # that the peer's own plan launches
    known: tuple[Known, ...] = ()


CASES = {
    "flashinfer": [
        Case("fi_prefill_hd64", "1,2,2,128,192,64", 1, (FI_NO_SYNCWARP,)),
        Case("fi_prefill_hd64", "1,4,2,100,130,64", 1, (FI_NO_SYNCWARP, FI_PADDED_ROWS)),
        Case("fi_prefill_hd64", "1,2,1,70,600,64", 2, (FI_NO_SYNCWARP, FI_PADDED_ROWS)),  # keys split, states merged
        Case("fi_prefill_hd64_causal", "1,2,2,128,192,64", 1, (FI_NO_SYNCWARP,)),
        Case("fi_prefill_hd64_causal", "1,4,2,100,130,64", 1, (FI_NO_SYNCWARP, FI_PADDED_ROWS)),
        Case("fi_prefill_hd128", "1,2,2,128,100,128", 1, (FI_NO_SYNCWARP,)),
        Case("fi_prefill_hd128_causal", "1,4,2,70,96,128", 1, (FI_NO_SYNCWARP, FI_PADDED_ROWS)),
        Case("fi_prefill_hd64_q64", "1,2,2,64,128,64", 1, (FI_NO_SYNCWARP,)),
        Case("fi_prefill_hd64_causal_q64", "1,2,2,40,100,64", 1, (FI_NO_SYNCWARP, FI_PADDED_ROWS)),
        Case("fi_prefill_hd128_q64", "1,2,2,64,100,128", 1, (FI_NO_SYNCWARP,)),
        Case("fi_prefill_hd128_causal_q64", "1,2,1,30,64,128", 1, (FI_NO_SYNCWARP, FI_PADDED_ROWS)),
        Case("fi_decode_hd128_g4", "1,8,2,1,200,128", 1),
        Case("fi_decode_hd128_g4", "1,8,2,1,600,128", 2),  # keys split, states merged
    ],
    "flash-attn": [
        Case("fa2_fwd_hd64", "1,2,1,128,256,64", 1),
        Case("fa2_fwd_hd64_causal", "1,2,2,256,256,64", 1),
        Case("fa2_fwd_hd64_causal_uneven", "2,2,1,128,150,64", 1),
        Case("fa2_fwd_hd64_causal_uneven", "2,2,1,100,150,64", 1, (FA2_PADDED_ROWS,)),
        Case("fa2_fwd_hd64_uneven", "1,2,2,128,100,64", 1),
        Case("fa2_fwd_hd128", "1,2,1,128,96,128", 1),
        Case("fa2_fwd_hd128_uneven", "1,2,2,100,70,128", 1, (FA2_PADDED_ROWS,)),
        Case("fa2_fwd_hd128_causal", "1,2,2,128,128,128", 1),
        Case("fa2_fwd_hd128_causal_uneven", "1,2,1,50,100,128", 1, (FA2_PADDED_ROWS,)),
        Case("fa2_split_hd128", "1,16,4,1,1000,128", 2, (FA2_PADDED_ROWS,)),  # decode, the groups of heads as rows
        Case("fa2_split_hd64", "1,2,2,64,1000,64", 2),  # four splits, combined
        Case("fa2_split_hd64", "1,2,2,50,1000,64", 2, (FA2_PADDED_ROWS, FA2_LSE_PAST_THE_END)),
    ],
}

RIGHT, WRONG, COULD_NOT_RUN = 0, 1, 3  # exit codes of the host


class Peers(unittest.TestCase):
    host: Path
    driver: str | None
    peer: str

    def run_case(self, case: Case, **environment: str) -> tuple[int, dict[str, object], str]:
        """The exit code, what the host says of the run, and its complaints."""
        command = [str(self.host), "--plugin", str(build(case.instance) / "peer.so"), "--shape", case.shape]
        command += ["--driver", self.driver] if self.driver else []
        command += ["--causal"] if INSTANCES[case.instance].defines.get("CAUSAL") else []
        whole_environment = {**os.environ, "VGPU_DEVICE": "l4", **environment}
        done = subprocess.run(command, capture_output=True, text=True, env=whole_environment, check=False)
        return done.returncode, json.loads(done.stdout or "{}"), f"{' '.join(command)}\n{done.stderr[-4000:]}"

    def check_findings(self, case: Case, findings: list[dict[str, Any]]) -> None:
        def is_known(finding: dict[str, Any], known: Known) -> bool:
            source = finding["at"].get("source_file", "")
            return finding["check"] == known.check and known.words in finding["message"] and known.source in source

        for known in case.known:
            self.assertTrue(any(is_known(finding, known) for finding in findings), f"{known} was not found")
        new = [finding for finding in findings if not any(is_known(finding, known) for known in case.known)]
        self.assertEqual(new, [], json.dumps(new[:3], indent=1))

    def test_right_and_without_a_finding_but_the_real_ones(self) -> None:
        self.assertTrue(CASES[self.peer])
        for case in CASES[self.peer]:
            with self.subTest(case.instance, shape=case.shape), tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "report.json"
                code, result, words = self.run_case(case, VGPU_CHECK="all", VGPU_REPORT=str(report))
                # One object a line and launch; a line without a kernel would be about leaks.
                observed = [json.loads(line) for line in report.read_text().splitlines()]
                self.assertEqual(len(observed), case.kernels)
                self.check_findings(case, [finding for entry in observed for finding in entry["findings"]])
                self.assertTrue(all(entry["metrics"] for entry in observed))
                if FA2_LSE_PAST_THE_END in case.known:  # a write outside of any buffer is an error, as on a device
                    self.assertEqual(code, COULD_NOT_RUN, words)
                    code, result, words = self.run_case(case)
                self.assertEqual(code, RIGHT, words)
                self.assertTrue(result["judged"] and result["right"], result)
                launches = result["launches"]
                assert isinstance(launches, list)
                self.assertEqual([entry["kernel"] for entry in observed], [one["kernel"] for one in launches])
                print(f"{case.instance} {case.shape}: {result['worst_error_over_bound']} of the bound, "
                      f"{result['seconds']} s, {len(case.known)} known findings", flush=True)  # fmt: skip

    def test_lanes_out_of_step_give_wrong_results(self) -> None:
        """A race within a warp is real: a legal schedule shows it, and only where it was found."""
        for case in CASES[self.peer]:
            if FA2_LSE_PAST_THE_END in case.known:
                continue
            with self.subTest(case.instance, shape=case.shape):
                codes = [
                    self.run_case(case, VGPU_SCHEDULE="adversarial", VGPU_SEED=str(seed))[0] for seed in range(1, 5)
                ]
                self.assertLessEqual(set(codes), {RIGHT, WRONG})
                self.assertEqual(WRONG in codes, FI_NO_SYNCWARP in case.known, codes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", type=Path)
    parser.add_argument("peer", choices=CASES)
    parser.add_argument("--driver")
    arguments = parser.parse_args()
    Peers.host, Peers.peer, Peers.driver = arguments.host, arguments.peer, arguments.driver
    unittest.main(argv=[sys.argv[0], "-v"])


if __name__ == "__main__":
    main()
