"""The sample order of the design, written again from its contract (src/data/order.cpp): an independent reference for the tests."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
DOMAIN_ORDER = 1


def mix64(x):
    x = (x + GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def derive_seed(domain, seed, a, b):
    return mix64(mix64(mix64(mix64(domain) ^ seed) ^ a) ^ b)


class SplitMix:
    """src/util/random.h's generator."""

    def __init__(self, seed):
        self.state = seed & MASK

    def below(self, bound):
        self.state = (self.state + GOLDEN) & MASK
        return mix64(self.state) * bound >> 64


def permutation(size, seed, epoch):
    """ids[position] for a whole epoch."""
    key = derive_seed(DOMAIN_ORDER, seed, epoch, 0)
    half = 1
    while 1 << (2 * half) < size:
        half += 1
    mask = (1 << half) - 1
    ids = []
    for position in range(size):
        value = position
        while True:
            left, right = value >> half, value & mask
            for step in range(8):
                left, right = right, left ^ (mix64((key + (step << 32 | right)) & MASK) & mask)
            value = left << half | right
            if value < size:
                break
        ids.append(value)
    return ids


def share(count, rank, world):
    return rank * count // world, (rank + 1) * count // world
