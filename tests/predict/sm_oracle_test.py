"""Random programs on the simulator of src/predict and on its oracle: the same cycle for the end of every CTA.

    sm_oracle_test.py PREDICT_POINTS [--programs N] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from sm_oracle import CARDS, MEMORY, Code, Oracle

PLAIN = ["HMMA.16816.F32", "HMMA.1688.F32", "FFMA", "IMAD", "IADD3", "LOP3.LUT", "MUFU.EX2", "S2R", "LDC", "NOP"]


def random_code(choose: random.Random) -> list[Code]:
    """Stretches without a barrier, a barrier after each; the end is the last instruction."""
    favourites = choose.sample([*PLAIN, *MEMORY], choose.randint(2, 8))
    code = []
    for _ in range(choose.randint(1, 4)):
        for _ in range(choose.randint(3, 25)):
            opcode = choose.choice(favourites)
            slow = opcode in MEMORY or opcode.split(".")[0] in ("MUFU", "S2R", "LDC")
            code.append(
                Code(
                    opcode,
                    stall=choose.choice([0, 1, 1, 1, 2, 4, 5, 13]),
                    yields=choose.random() < 0.2,
                    write=choose.randrange(6) if slow and choose.random() < 0.7 else 7,
                    read=choose.randrange(6) if slow and choose.random() < 0.4 else 7,
                    wait=choose.choice([0, 0, 0, choose.randrange(64)]),
                )
            )
            if opcode.startswith("LDGSTS"):
                code.append(Code("LDGDEPBAR", write=choose.choice([0, 7])))
            if choose.random() < 0.05:
                code.append(Code("DEPBAR.LE", f"SB0, {hex(choose.randrange(3))}", stall=4))
        code.append(Code("BAR.SYNC.DEFER_BLOCKING", "0x0", stall=choose.choice([1, 6])))
    return [*code, Code("EXIT")]


def random_paths(choose: random.Random, code: list[Code]) -> list[list[list[int]]]:
    """Of one to three kinds of CTA: warps go round in some stretches, and some leave early."""
    bars = [index for index, one in enumerate(code) if one.opcode.startswith("BAR")]
    stretches = [range(first, last) for first, last in zip([0, *(bar + 1 for bar in bars)], bars, strict=False)]
    kinds = []
    warps = choose.choice([1, 2, 3, 4, 4, 5, 8])
    for _ in range(choose.randint(1, 3)):
        rounds = choose.randint(1, 3)
        cta = []
        for _ in range(warps):
            stays = rounds * len(bars) if choose.random() < 0.8 else choose.randrange(rounds * len(bars) + 1)
            path = []
            for step in range(stays):
                which = step % len(bars)
                path += [*stretches[which]] * choose.randint(1, 2) + [bars[which]]
            cta.append([*path, len(code) - 1])
        kinds.append(cta)
    return kinds


def sass(code: list[Code]) -> str:
    lines = ["\t.target\tsm_89", '\t.section\t.text.random,"ax",@progbits', ".text.random:"]
    for index, one in enumerate(code):
        bits = one.stall | (0 if one.yields else 1) << 4 | one.write << 5 | one.read << 8 | one.wait << 11
        lines.append(f"        /*{16 * index:04x}*/    {one.opcode} {one.operands} ;  /* 0x{index:016x} */")
        lines.append(f"                     /* 0x{bits << 41:016x} */")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--programs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for number in range(options.programs):
            choose = random.Random(f"{options.seed} {number}")
            code = random_code(choose)
            file = Path(folder) / f"{number}.sass"
            file.write_text(sass(code))
            resident = choose.randint(1, 4)
            run = {"ctas": choose.randint(1, 2 * resident), "offset": choose.choice([0, 1, 61, 122])}
            cases.append((choose.choice(list(CARDS)), code, file, random_paths(choose, code), resident, run))
        requests = [
            {"sass": str(file), "gpu": card, "resident": resident, "run": run, "paths": [{"warps": cta} for cta in paths]}
            for card, _, file, paths, resident, run in cases
        ]
        text = "\n".join(map(json.dumps, requests)) + "\n"
        done = subprocess.run([options.program], input=text, capture_output=True, text=True, check=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        for number, ((card, code, _, paths, resident, run), answer) in enumerate(zip(cases, answers, strict=True)):
            oracle = Oracle(CARDS[card], code, paths, resident, **run)
            cycles = oracle.run()
            if (answer.get("cycles"), answer.get("ends")) != (cycles, oracle.ends):
                differ += 1
                print(f"program {number} on {card}: {answer.get('error') or answer['ends']}, the oracle {oracle.ends}")
    print(f"{options.programs} programs, {differ} with other cycles than the oracle's")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
