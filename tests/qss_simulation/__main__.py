"""`make simulate`: runs many seeds on all cores, and says how many ran clean."""

import argparse
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from qss_simulation import planted
from qss_simulation.scenarios import seeds as scenarios
from qss_simulation.story import Outcome, has_standbys, run_seed


def main() -> int:
    """Returns 1 where a seed failed, or found no bug, and 2 where no scenario has the words."""
    arguments = _arguments()
    seeds: Sequence[int] = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.scenarios is not None:
        return _play(arguments, seeds)
    if arguments.replay is not None:
        return _replay(arguments.replay)
    if arguments.planted is not None:
        return planted.run(arguments.seeds, arguments.planted, _say)
    if arguments.standbys:
        seeds = [seed for seed in seeds if has_standbys(seed)]
    return _run_all(seeds, stops=arguments.stop, traces=arguments.traces)


def _run_all(seeds: Sequence[int], *, stops: bool, traces: bool) -> int:
    began_s = time.monotonic()
    counts: Counter[str] = Counter()
    failed: list[int] = []
    simulated_s = 0.0
    with ProcessPoolExecutor(os.cpu_count(), initializer=gc.freeze) as workers:
        for number, outcome in enumerate(workers.map(_run, seeds), start=1):
            counts.update(outcome.counts)
            simulated_s += outcome.simulated_s
            if traces:
                _say(f"trace of seed {outcome.seed}: {outcome.digest}")
            if outcome.failure is not None:
                failed.append(outcome.seed)
                _say(f"seed {outcome.seed}: {outcome.failure}")
                if stops:
                    workers.shutdown(wait=False, cancel_futures=True)
                    break
            if number % 100 == 0:
                _say(f"{number} seeds, {len(failed)} failed")
    took_s = time.monotonic() - began_s
    hours = simulated_s / 3600
    _say(", ".join(f"{what} {times}" for what, times in sorted(counts.items())))
    _say(f"{hours:.1f} hours simulated in {took_s:.0f} s: {hours / took_s * 60:.2f} a minute")
    if failed:
        _say(
            f"{len(failed)} of {len(seeds)} seeds failed; replay: make simulate REPLAY={failed[0]}"
        )
        return 1
    _say(f"{len(seeds)} seeds ran clean, from {seeds[0]} to {seeds[-1]}")
    return 0


def _run(seed: int) -> Outcome:
    outcome = run_seed(seed)
    outcome.lines.clear()
    return outcome


def _replay(seed: int) -> int:
    outcome = run_seed(seed)
    _say("\n".join(outcome.lines))
    _say(f"seed {seed}, trace {outcome.digest}: {outcome.failure or 'clean'}")
    return int(outcome.failure is not None)


def _play(arguments: argparse.Namespace, seeds: Sequence[int]) -> int:
    """Plays scenarios under seeds, or one of the seeds with its trace."""
    try:
        found = scenarios.scenarios_with(arguments.scenarios)
    except ValueError as error:
        _say(str(error))
        return 2
    if arguments.replay is not None:
        return int(scenarios.replay(found, arguments.replay, _say) > 0)
    return int(scenarios.run(found, seeds, _say, stops=arguments.stop) > 0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="the number of seeds; 200")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed; 1")
    parser.add_argument("--replay", type=int, help="run one seed, and print its trace")
    parser.add_argument(
        "--scenarios", metavar="WORDS", help="play the scenarios with these words in their titles"
    )
    parser.add_argument("--standbys", action="store_true", help="only stores with standbys")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--traces", action="store_true", help="print the digest of each trace")
    parser.add_argument("--planted", metavar="WORDS", help="put bugs with these words back")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
