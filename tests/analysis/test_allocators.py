"""The allocators, against cases worked out by hand, and properties that hold for any trace."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from analysis.allocator_model import (
    Allocate,
    AsyncPool,
    BfcPool,
    Driver,
    Event,
    Free,
    PlatformPool,
    Pool,
    UpperEndPool,
    replay,
)
from analysis.allocators.chunks import Chunk

KIB, MIB, GIB = 2**10, 2**20, 2**30
PLENTY = 2**60


def growing(limit_bytes: int = 256 * MIB, capacity_bytes: int = PLENTY, **options: object) -> BfcPool:
    return BfcPool(Driver(capacity_bytes, 1), limit_bytes, growth=True, **options)  # type: ignore[arg-type]


def took(pool: Pool, *sizes: int) -> list[int]:
    addresses = [pool.allocate(size) for size in sizes]
    assert None not in addresses
    return addresses  # type: ignore[return-value]


def sizes_of(chunks: dict[int, list[Chunk]]) -> list[list[tuple[int, bool]]]:
    return [[(chunk.size_bytes, chunk.free) for chunk in region] for region in chunks.values()]


# BFC --------------------------------------------------------------------------------------------------------------


def test_regions_grow_from_2_to_8_to_64_mib_and_large_buffers_take_them_whole() -> None:
    """As seen on TensorFlow's CPU device with a limit of 256 MB: the two large buffers are more than half a region."""
    pool = growing()
    took(pool, 4, 1000, 300_000, 5_000_000, 40_000_000)
    assert list(pool.regions.values()) == [2 * MIB, 8 * MIB, 64 * MIB]
    assert pool.live_bytes == 256 + 1024 + 300_032 + 8 * MIB + 64 * MIB
    assert pool.growth_events == 3 and pool.pool_bytes == 74 * MIB
    assert pool.next_region_bytes == 64 * MIB


def test_a_region_that_had_not_to_be_doubled_doubles_the_next() -> None:
    pool = growing()
    took(pool, MIB + 256, MIB, MIB, MIB)  # the first takes 2 MiB whole
    assert list(pool.regions.values()) == [2 * MIB, 4 * MIB] and pool.next_region_bytes == 8 * MIB


def test_a_chunk_twice_the_request_is_split_and_a_smaller_one_is_not() -> None:
    pool = BfcPool(Driver(PLENTY, 1), 1024, growth=False)
    took(pool, 512)
    assert sizes_of(pool.chunks()) == [[(512, False), (512, True)]]
    pool = BfcPool(Driver(PLENTY, 1), 1024, growth=False)
    took(pool, 513)  # 768 rounded, of which 1024 is no double
    assert sizes_of(pool.chunks()) == [[(1024, False)]]


def test_a_remainder_of_128_mib_is_always_split_off() -> None:
    for request, left in ((300 * MIB - 256, 0), (300 * MIB - 512, 128 * MIB)):
        pool = BfcPool(Driver(PLENTY, 1), 428 * MIB - 512, growth=False)
        took(pool, request)
        assert pool.largest_free_bytes() == left
    pool = BfcPool(Driver(PLENTY, 1), 1000 * 256, growth=False, fragmentation_fraction=0.3)
    took(pool, 700 * 256)  # 300 units remain, the fraction's own bound
    assert pool.largest_free_bytes() == 300 * 256


def test_the_best_chunk_is_the_smallest_that_fits_and_of_equal_ones_the_lowest() -> None:
    pool = growing()
    a, _, b, _, c, _ = took(pool, 1024, 256, 768, 256, 768, 256)
    for address in (c, a, b):
        pool.free(address)
    assert pool.allocate(700) == b
    assert pool.allocate(700) == c
    assert pool.allocate(700) == a  # 1024 for 768: handed out whole
    assert pool.live_bytes == 3 * 256 + 768 + 768 + 1024


def test_a_freed_chunk_merges_with_both_neighbours() -> None:
    pool = BfcPool(Driver(PLENTY, 1), 1024, growth=False)
    a, b, c = took(pool, 256, 256, 256)
    pool.free(a)
    pool.free(c)
    assert sizes_of(pool.chunks()) == [[(256, True), (256, False), (512, True)]]
    assert pool.fragmentation_ratio() == pytest.approx(1 - 512 / 768)
    pool.free(b)
    assert sizes_of(pool.chunks()) == [[(1024, True)]] and pool.fragmentation_ratio() == 0.0


def test_free_memory_in_two_regions_serves_no_request_larger_than_either() -> None:
    pool = growing(6 * MIB)
    a, b = took(pool, 2 * MIB, 4 * MIB)
    pool.free(a)
    pool.free(b)
    assert pool.largest_free_bytes() == 4 * MIB and pool.allocate(5 * MIB) is None
    assert pool.fragmentation_ratio() == pytest.approx(1 / 3)


def test_garbage_collection_gives_idle_regions_back_before_a_request_fails() -> None:
    pool = growing(6 * MIB, garbage_collection=True)
    a, b = took(pool, 2 * MIB, 4 * MIB)
    pool.free(a)
    pool.free(b)
    assert pool.allocate(5 * MIB) is not None
    # the regions' size had reached 8 MiB, of which the limit leaves 6; 5 MiB take it whole
    assert list(pool.regions.values()) == [6 * MIB] and pool.live_bytes == pool.driver.mapped_bytes == 6 * MIB
    busy = growing(6 * MIB, garbage_collection=True)
    _, b = took(busy, 2 * MIB, 4 * MIB)
    busy.free(b)
    assert busy.allocate(5 * MIB) is None and list(busy.regions.values()) == [2 * MIB, 4 * MIB]


def test_a_refused_reservation_is_tried_again_with_a_tenth_less() -> None:
    pool = BfcPool(Driver(750_000, 1), 1_000_192, growth=False)
    took(pool, 1000)
    # 0.9 × in steps: 1,000,192 → 900,352 → 810,496 → 729,600 (each rounded up to 256)
    assert list(pool.regions.values()) == [729_600]
    assert BfcPool(Driver(750_000, 1), 1_000_192, growth=False).allocate(740_000) is None


def test_the_limit_is_a_wall_and_what_is_left_of_it_the_last_region() -> None:
    pool = growing(5 * MIB + 100)
    took(pool, 2 * MIB, 2 * MIB)
    assert list(pool.regions.values()) == [2 * MIB, 3 * MIB]  # 4 MiB wanted, 3 MiB and 100 bytes left, whole units
    assert pool.allocate(256) is None


# JAX's preallocated pool ------------------------------------------------------------------------------------------


def test_the_limit_of_jax_is_rounded_up_to_2_mib_and_filled_from_its_upper_end() -> None:
    pool = UpperEndPool(Driver(PLENTY, 1, [0x1000000]), 5 * MIB)
    a, b = took(pool, 1000, 300)
    assert (a, b) == (0x1000000 + 6 * MIB - 1024, 0x1000000 + 6 * MIB - 1024 - 512)
    assert pool.pool_bytes == 6 * MIB and pool.gap_bytes == 6 * MIB - 1536
    assert sizes_of(pool.chunks()) == [[(6 * MIB - 1536, True), (512, False), (1024, False)]]


def test_a_hole_is_used_before_the_gap_and_of_equal_ones_the_highest() -> None:
    pool = UpperEndPool(Driver(PLENTY, 1), 2 * MIB)
    a, _, b, _, c, _ = took(pool, 1024, 256, 768, 256, 768, 256)  # from above downwards
    for address in (c, a, b):
        pool.free(address)
    assert pool.allocate(700) == b and b > c
    assert pool.allocate(700) == c
    assert pool.allocate(512) == a + 512  # the upper half of a hole of twice the size
    assert pool.largest_free_bytes() == pool.gap_bytes


def test_what_is_freed_beside_the_gap_joins_it_with_the_hole_above() -> None:
    pool = UpperEndPool(Driver(PLENTY, 1), 2 * MIB)
    top, middle, low = took(pool, 256, 256, 256)
    pool.free(middle)
    assert pool.gap_bytes == 2 * MIB - 768 and pool.fragmentation_ratio() == pytest.approx(256 / (2 * MIB - 512))
    pool.free(low)
    assert pool.gap_bytes == 2 * MIB - 256
    pool.free(top)
    assert pool.gap_bytes == 2 * MIB and pool.fragmentation_ratio() == 0.0


def test_a_gap_less_than_twice_the_request_is_handed_out_whole_and_comes_back() -> None:
    pool = UpperEndPool(Driver(PLENTY, 1), 2 * MIB)
    (whole,) = took(pool, MIB + 256)
    assert pool.live_bytes == 2 * MIB and pool.gap_bytes == 0 and pool.allocate(256) is None
    pool.free(whole)
    assert pool.gap_bytes == 2 * MIB


def test_an_occupied_gpu_leaves_jax_a_smaller_region() -> None:
    pool = UpperEndPool(Driver(GIB), 2 * GIB)
    took(pool, 1)
    # 2048 → 1842 → 1656 → 1490 → 1340 → 1206 → 1084 → 974 MiB: nine tenths, rounded down to 2 MiB
    assert pool.pool_bytes == 974 * MIB
    assert UpperEndPool(Driver(GIB), 2 * GIB).allocate(1000 * MIB) is None


# Pools without placement ------------------------------------------------------------------------------------------


def test_the_async_pool_follows_what_is_live_down_to_its_threshold() -> None:
    pool = AsyncPool(Driver(100 * MIB), keep_bytes=4 * MIB)
    a, b = took(pool, 3 * MIB, 4 * MIB + 1)
    assert (pool.live_bytes, pool.pool_bytes) == (7 * MIB + 1, 8 * MIB)
    pool.free(b)
    assert pool.pool_bytes == pool.driver.mapped_bytes == 4 * MIB
    pool.free(a)
    assert (pool.pool_bytes, pool.peak_pool_bytes, pool.fragmentation_ratio()) == (4 * MIB, 8 * MIB, None)
    assert pool.allocate(101 * MIB) is None


def test_the_async_pool_holds_its_reservation_from_the_start() -> None:
    pool = AsyncPool(Driver(100 * MIB), keep_bytes=60 * MIB, reserved_bytes=60 * MIB)
    assert pool.pool_bytes == 60 * MIB
    took(pool, 10 * MIB)
    assert pool.peak_pool_bytes == 60 * MIB and pool.growth_events == 1
    assert AsyncPool(Driver(50 * MIB), keep_bytes=0, reserved_bytes=60 * MIB).allocate(1) is None


def test_platform_rounds_every_buffer_and_keeps_nothing() -> None:
    pool = PlatformPool(Driver(6 * MIB))
    a, b = took(pool, 1, 2 * MIB + 1)
    assert (pool.live_bytes, pool.pool_bytes) == (2 * MIB + 2, 6 * MIB)
    assert pool.allocate(1) is None
    pool.free(a)
    pool.free(b)
    assert (pool.pool_bytes, pool.driver.mapped_bytes, pool.peak_pool_bytes) == (0, 0, 6 * MIB)


# Replays ----------------------------------------------------------------------------------------------------------


def test_a_replay_tells_peaks_and_where_it_failed() -> None:
    trace = [Allocate(0, 100), Allocate(1, 0), Allocate(2, 700), Free(0), Free(1), Allocate(3, 2000), Allocate(4, 1)]
    found = replay(trace, BfcPool(Driver(PLENTY, 1), 2048, growth=False))
    # 100 → 256 and 700 → 768 of the first region; 256 and 1024 are free, which 2000 does not fit into
    assert (found.fits, found.refused_event, found.refused_bytes) == (False, 5, 2000)
    assert (found.peak_requested_bytes, found.peak_live_bytes, found.peak_pool_bytes) == (800, 1024, 2048)
    assert found.allocations_count == 2 and found.fragmentation_at == "refused request"
    assert found.fragmentation_ratio == pytest.approx(256 / 1280)


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ([Free(3)], "event 0 frees buffer 3, which is not held"),
        ([Allocate(1, 5), Allocate(1, 6)], "event 1 allocates buffer 1, which is held already"),
    ],
)
def test_a_trace_that_makes_no_sense_is_refused(trace: list[Event], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replay(trace, growing())


# Properties -------------------------------------------------------------------------------------------------------


def placed_pools() -> dict[str, BfcPool | UpperEndPool]:
    return {
        "growing": growing(48 * MIB),
        "collecting": growing(48 * MIB, garbage_collection=True),
        "fixed": BfcPool(Driver(PLENTY, 1), 48 * MIB, growth=False, fragmentation_fraction=0.05),
        "upper end": UpperEndPool(Driver(PLENTY, 1), 48 * MIB),
        "short of driver": growing(48 * MIB, capacity_bytes=30 * MIB),
    }


@pytest.mark.parametrize("kind", placed_pools())
@pytest.mark.parametrize("seed", range(12))
def test_chunks_never_overlap_cover_their_regions_and_leave_no_two_free_neighbours(kind: str, seed: int) -> None:
    pool, chance = placed_pools()[kind], random.Random(seed)
    held: dict[int, int] = {}
    for _ in range(250):
        if held and chance.random() < 0.45:
            address = chance.choice(list(held))
            del held[address]
            pool.free(address)
        else:
            size = int(12 * MIB ** chance.random() * chance.random()) + 1
            address = pool.allocate(size)
            if address is not None:
                assert address not in held
                held[address] = size
        check_whole(pool, held)


def check_whole(pool: BfcPool | UpperEndPool, held: dict[int, int]) -> None:
    regions = pool.chunks()
    everything = [chunk for chunks in regions.values() for chunk in chunks]
    in_use = {chunk.address: chunk for chunk in everything if not chunk.free}
    assert in_use.keys() == held.keys()
    assert all(chunk.requested_bytes == held[address] <= chunk.size_bytes for address, chunk in in_use.items())
    for base, chunks in regions.items():
        assert chunks[0].address == base
        assert all(one.address + one.size_bytes == two.address for one, two in pairwise(chunks))
        assert not any(one.free and two.free for one, two in pairwise(chunks))
    assert sum(chunk.size_bytes for chunk in everything) == pool.pool_bytes == pool.driver.mapped_bytes
    assert sum(chunk.size_bytes for chunk in in_use.values()) == pool.live_bytes <= pool.limit_bytes
    free = [chunk.size_bytes for chunk in everything if chunk.free]
    assert pool.largest_free_bytes() == max(free, default=0)
    assert all(chunk.size_bytes % 256 == 0 for chunk in everything)
