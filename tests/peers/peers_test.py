"""The peers' kernels on a driver: right against the fp64 oracle, with every check on and no finding.

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
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from build_peers import INSTANCES, build


class Case(NamedTuple):
    instance: str
    shape: str  # batch, query heads, key heads, queries, keys, head size
    kernels: int  # that the peer's own plan launches


CASES = {
    "flashinfer": [
        Case("fi_prefill_hd64", "1,4,2,100,130,64", 1),
        Case("fi_prefill_hd64", "1,2,1,70,600,64", 2),  # keys split, states merged
        Case("fi_prefill_hd64_causal", "1,4,2,100,130,64", 1),
        Case("fi_prefill_hd64_causal", "1,1,1,200,200,64", 1),
        Case("fi_prefill_hd128", "1,2,2,80,100,128", 1),
        Case("fi_prefill_hd128_causal", "1,4,2,70,96,128", 1),
        Case("fi_decode_hd128_g4", "1,8,2,1,200,128", 1),
        Case("fi_decode_hd128_g4", "1,8,2,1,600,128", 2),  # keys split, states merged
    ],
    "flash-attn": [
        Case("fa2_fwd_hd64", "1,2,1,128,256,64", 1),
        Case("fa2_fwd_hd64_causal", "1,2,2,256,256,64", 1),
        Case("fa2_fwd_hd64_causal_uneven", "2,2,1,100,150,64", 1),
        Case("fa2_split_hd64", "1,2,2,50,1000,64", 2),  # four splits, combined
    ],
}


class Peers(unittest.TestCase):
    host: Path
    driver: str | None
    peer: str

    def run_case(self, case: Case, report: Path) -> dict[str, object]:
        command = [str(self.host), "--plugin", str(build(case.instance) / "peer.so"), "--shape", case.shape]
        command += ["--driver", self.driver] if self.driver else []
        command += ["--causal"] if INSTANCES[case.instance].defines.get("CAUSAL") else []
        environment = {**os.environ, "VGPU_CHECK": "all", "VGPU_REPORT": str(report), "VGPU_DEVICE": "l4"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        self.assertEqual(done.returncode, 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr[-4000:]}")
        result = json.loads(done.stdout)
        assert isinstance(result, dict)
        return result

    def test_right_and_without_finding(self) -> None:
        self.assertTrue(CASES[self.peer])
        for case in CASES[self.peer]:
            with self.subTest(case.instance, shape=case.shape), tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "report.json"
                result = self.run_case(case, report)
                self.assertTrue(result["judged"] and result["right"], result)
                launches = result["launches"]
                assert isinstance(launches, list)
                self.assertEqual(len(launches), case.kernels, launches)
                # One object a line and launch; a line without a kernel would be about leaks.
                observed = [json.loads(line) for line in report.read_text().splitlines()]
                self.assertEqual([entry.get("kernel") for entry in observed], [one["kernel"] for one in launches])
                for entry in observed:
                    self.assertEqual(entry["findings"], [], json.dumps(entry["findings"][:3], indent=1))
                    self.assertNotIn("fault", entry)
                    self.assertTrue(entry["metrics"])
                print(f"{case.instance} {case.shape}: {result['worst_error_over_bound']} of the bound, "
                      f"{result['seconds']} s", flush=True)  # fmt: skip


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
