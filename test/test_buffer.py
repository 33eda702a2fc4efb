"""The replay buffer: bounded whatever happens, and a file that is read back whole or refused."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import SettingsError, StoreError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.memory.strategies import STRATEGIES, Pool, select

HASH = "0123456789abcdef" * 4


def observation(number=0, size=10, **more):
    image = bytes((number + place) % 256 for place in range(size))
    known = {"label": number % 7, "position": (1e5 + number, 5e6 + number / 3), "stamp_ns": 1_700_000_000_000_000_000}
    return Observation(image, **{**known, "mission": f"mission-{number % 3}", "modality": "VIS", **more})


def filled(budget=5, max_bytes=None):
    """A buffer with all that an observation may hold, and an empty group."""
    return ReplayBuffer(
        (
            tuple(observation(n, size=40 + n, mission="Flug über Föhr") for n in range(4)),
            (),
            (observation(9, size=0, modality="IR", logits=np.linspace(-1, 1, 6, dtype=np.float32)),),
            (
                observation(10, logits=np.ones(3, np.float32), feature=np.arange(8, dtype=np.float32)),
                observation(11, feature=np.zeros(8, np.float32)),
            ),
        ),
        budget,
        max_bytes,
        seen=(4, 0, 17, 2),
    )


def content(buffer):
    """All values of a buffer, for comparison."""

    def plain(o):
        vectors = [None if v is None else (v.dtype.str, v.tolist()) for v in (o.logits, o.feature)]
        return o.image, o.label, o.position.tolist(), o.stamp_ns, o.mission, o.modality, *vectors

    return buffer.budget, buffer.max_bytes, buffer.seen, [[plain(o) for o in group] for group in buffer.groups]


# The file


@pytest.mark.parametrize(
    "buffer", [filled(), filled(max_bytes=10_000), ReplayBuffer.empty(4), ReplayBuffer.empty(1, 0)]
)
def test_a_saved_buffer_is_read_back_as_it_was(tmp_path, buffer):
    buffer.save(tmp_path / "replay.h5", HASH)
    assert content(ReplayBuffer.load(tmp_path / "replay.h5", HASH)) == content(buffer)
    assert [path.name for path in tmp_path.iterdir()] == ["replay.h5"]


def test_the_same_buffer_makes_the_same_file(tmp_path):
    for name in ("one.h5", "two.h5"):
        filled().save(tmp_path / name, HASH)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()


def test_a_buffer_of_another_grid_is_refused(tmp_path):
    filled().save(tmp_path / "replay.h5", HASH)
    with pytest.raises(StoreError, match=r"replay\.h5: belongs to the grid 0123456789ab….*ffffffffffff"):
        ReplayBuffer.load(tmp_path / "replay.h5", "f" * 64)


def test_a_missing_or_foreign_file_is_explained(tmp_path):
    with pytest.raises(StoreError, match="no replay buffer"):
        ReplayBuffer.load(tmp_path / "replay.h5", HASH)
    (tmp_path / "replay.h5").write_bytes(b"not HDF5 at all")
    with pytest.raises(StoreError, match="damaged or cut off"):
        ReplayBuffer.load(tmp_path / "replay.h5", HASH)


def test_a_cut_off_file_is_refused_wherever_it_ends(tmp_path):
    filled().save(tmp_path / "whole.h5", HASH)
    whole = (tmp_path / "whole.h5").read_bytes()
    for length in np.linspace(0, len(whole) - 1, 60).astype(int):
        (tmp_path / "cut.h5").write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"cut\.h5"):
            ReplayBuffer.load(tmp_path / "cut.h5", HASH)


def test_a_flipped_bit_anywhere_is_refused(tmp_path):
    filled().save(tmp_path / "whole.h5", HASH)
    whole = (tmp_path / "whole.h5").read_bytes()
    image = whole.index(filled().groups[0][3].image)
    anywhere = np.random.default_rng(0).choice(len(whole), 400, replace=False)
    for place in [*range(512 + 96), image, image + 20, len(whole) - 1, *anywhere]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        (tmp_path / "damaged.h5").write_bytes(damaged)
        with pytest.raises(StoreError, match=r"damaged\.h5: .* damaged or cut off"):
            ReplayBuffer.load(tmp_path / "damaged.h5", HASH)


def test_the_file_is_plain_hdf5_with_a_checksum_on_every_dataset(tmp_path):
    filled().save(tmp_path / "replay.h5", HASH)
    with h5py.File(tmp_path / "replay.h5") as file:
        assert file["images"].shape == (filled().n_bytes - 4 * (6 + 3 + 8 + 8),)
        assert all(file[name].fletcher32 for name in file)


def test_saving_over_an_old_file_that_fails_leaves_the_old_one(tmp_path):
    filled().save(tmp_path / "replay.h5", HASH)
    broken = ReplayBuffer(((observation(mission=None),),))
    with pytest.raises(AttributeError):
        broken.save(tmp_path / "replay.h5", HASH)
    assert content(ReplayBuffer.load(tmp_path / "replay.h5", HASH)) == content(filled())


def test_the_file_is_little_larger_than_what_it_holds(tmp_path):
    rng = np.random.default_rng(0)
    group = [Observation(rng.bytes(25_000), n, (0, 0), n, "mission", "VIS") for n in range(200)]
    buffer = ReplayBuffer((group, group, group, group))
    buffer.save(tmp_path / "replay.h5", HASH)
    assert (tmp_path / "replay.h5").stat().st_size < 1.02 * buffer.n_bytes


# The bounds


def test_more_than_the_budget_is_refused():
    with pytest.raises(StoreError, match=r"group 1 .* 3 observations; its budget is 2"):
        ReplayBuffer(((), tuple(observation(n) for n in range(3))), budget=2)
    with pytest.raises(StoreError, match="budget is 2"):
        ReplayBuffer.empty(2, budget=2).replace_group(0, [observation(n) for n in range(3)], seen=3)
    with pytest.raises(SettingsError):
        ReplayBuffer.empty(2, budget=-1)


def test_replacing_a_group_leaves_the_others_and_the_old_buffer_alone():
    old = filled()
    new = old.replace_group(1, [observation(5)], seen=12)
    assert len(old.groups[1]) == 0 and len(new.groups[1]) == 1
    assert new.groups[0] is old.groups[0] and new.groups[2:] == old.groups[2:]
    assert new.seen == (4, 12, 17, 2) and old.seen == (4, 0, 17, 2)


def test_the_last_of_the_longest_group_goes_first_when_bytes_run_out():
    buffer = ReplayBuffer.empty(2, budget=9, max_bytes=50)
    buffer = buffer.replace_group(0, [observation(n) for n in range(4)], seen=4)
    buffer = buffer.replace_group(1, [observation(n) for n in range(10, 13)], seen=3)
    assert [[o.image[0] for o in group] for group in buffer.groups] == [[0, 1, 2], [10, 11]]
    assert buffer.n_bytes == 50


def test_narrower_limits_keep_the_beginning_of_every_group():
    narrow = filled().bounded(budget=1)
    assert [len(group) for group in narrow.groups] == [1, 0, 1, 1]
    assert narrow.groups[0][0].image == filled().groups[0][0].image and narrow.seen == (4, 0, 17, 2)
    assert len(filled().bounded(budget=5, max_bytes=0)) == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=5), min_size=1, max_size=4), st.integers(0, 300))
def test_the_limit_in_bytes_holds_and_drops_no_more_than_it_must(sizes, max_bytes):
    buffer = ReplayBuffer.empty(len(sizes), budget=5, max_bytes=max_bytes)
    for group, lengths in enumerate(sizes):
        buffer = buffer.replace_group(group, [observation(n, size) for n, size in enumerate(lengths)], seen=5)
    assert buffer.n_bytes <= max_bytes
    if sum(map(sum, sizes)) <= max_bytes:
        assert [len(group) for group in buffer.groups] == list(map(len, sizes))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 12), st.sampled_from([None, 600]))
def test_fifty_missions_never_make_the_buffer_larger_than_its_bound(seed, modulus, budget, max_bytes):
    rng = np.random.default_rng(seed)
    cells = np.stack(np.meshgrid(np.arange(6), np.arange(6), indexing="ij"), axis=-1).reshape(-1, 2)
    grid = Grid(epsg=32632, cell_side_m=200.0, modulus=modulus, cells=cells)
    rows = rng.normal(size=(grid.n_classes, 8))
    buffer = ReplayBuffer.empty(grid.n_groups, budget, max_bytes)
    for number in range(50):
        strategy = rng.choice(list(STRATEGIES))
        labels = rng.integers(grid.n_classes, size=rng.integers(0, 80))
        frames = [
            observation(number, size=int(rng.integers(5, 30)), label=int(label), mission=f"mission {number}")
            for label in labels
        ]
        for group in range(grid.n_groups):
            new = [frame for frame in frames if grid.groups[frame.label] == group]
            candidates = [*buffer.groups[group], *new]
            classes = np.array([o.label for o in candidates], np.int64)
            pool = Pool(
                features=rows[classes] + rng.normal(size=(len(classes), 8)),
                labels=classes,
                prototypes=rows[classes],
                losses=rng.exponential(size=len(classes)),
                missions=np.array([o.mission for o in candidates]),
                n_stored=len(buffer.groups[group]),
                seen=buffer.seen[group],
            )
            kept = [candidates[row] for row in select(strategy, pool, budget, rng)]
            buffer = buffer.replace_group(group, kept, seen=buffer.seen[group] + len(new))
            assert len(buffer) <= grid.modulus**2 * budget
            assert all(len(held) <= budget for held in buffer.groups)
            assert max_bytes is None or buffer.n_bytes <= max_bytes
