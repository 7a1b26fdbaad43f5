"""How often the gate's rules fire on healthy samples, and how soon after a collapse.

Healthy: 2,000 samples of which 2 % fail. Collapse: as in the first run, 36 % fail from step 80,000
on, one sample each 200 steps. 5 of 10 and five in a row are shown as those that do not hold both.
"""

from __future__ import annotations

import random
from statistics import mean

from supervisor.core.coherence.gate import WATCHING
from supervisor.core.coherence.judging import Said, judge
from supervisor.core.coherence.rates import false_alarms
from tests.bench.figures import say
from tests.support import speech
from tests.support.failing import RULES, SAMPLES, SHARE, WITHIN, false_alarm, fires_at, wait

SEEDS, QUICK = 400, 60
MOST = 600
NEEDED = 0.95
HOLD_BOTH = ("7 of 25", "cusum 9", "all three")


def main(words: list[str]) -> int:
    """Print the tables; 1 where the gate as it is set by default misses a target."""
    seeds = range(QUICK if "--quick" in words else SEEDS)
    say(f"\ngate: {len(seeds)} seeds; no alarm in {SAMPLES} healthy samples, fires within {WITHIN}")
    say("rule         quiet  alarms  stated at most  in time  median wait  mean wait")
    held = True
    for name, rules in RULES.items():
        alarms = [false_alarm(rules, seed) for seed in seeds]
        waits = [wait(rules, seed, MOST) for seed in seeds]
        found = sorted(MOST if n is None else n for n in waits)
        quiet = 1 - mean(alarms)
        soon = mean(n <= WITHIN for n in found)
        stated = sum(false_alarms(rules).values())
        good = quiet >= NEEDED and soon >= NEEDED
        if name in HOLD_BOTH:
            held = held and good
        say(
            f"{name:<12} {quiet:5.3f}  {mean(alarms):6.4f}  {stated:14.5f}  {soon:7.3f}  "
            f"{found[len(found) // 2]:11d}  {mean(found):9.1f}  {'holds both' if good else '-'}"
        )
    return 0 if _texts(seeds) and held else 1


def _texts(seeds: range) -> bool:
    """The same with texts, judged as the gate judges them: spoken ones, and those of the seed."""
    said = random.Random(0)  # noqa: S311 - chance that can be repeated
    spoken = [_fails(speech.healthy(said)) for _ in range(500)]
    broken = [_fails(text) for text in speech.COLLAPSED]
    share = mean(spoken)
    say(f"\ntexts: {share:.3f} of 500 healthy ones fail, {sum(broken)} of {len(broken)} collapsed")
    rules, found = RULES["all three"], []
    for seed in seeds[:100]:
        rng = random.Random(seed)  # noqa: S311 - chance that can be repeated
        drawn = [rng.choice(broken if rng.random() < SHARE else spoken) for _ in range(MOST)]
        at = fires_at(rules, lambda n, drawn=drawn: drawn[n - 1], MOST)
        found.append(MOST if at is None else at)
    soon = mean(n <= WITHIN for n in found)
    say(f"a collapse of {SHARE:.0%} of the texts is found within {WITHIN} in {soon:.3f} of seeds")
    return share <= 1 - NEEDED and all(broken) and soon >= NEEDED


def _fails(text: str) -> bool:
    return judge(Said(1, "", text, 0.8), WATCHING.bar, ())[0].verdict == "fail"
