"""The seed of a random test: that of the environment variable SEED, or the day's in UTC, as crates/seeded and abci/seeded have it."""

import os
import time


def of_the_day():
    return int(os.environ.get("SEED") or int(time.time()) // 86_400 * 100_000)
