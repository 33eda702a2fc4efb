"""Generations are handed around by rsync or an object store, file by file, in any order: half of one is never used."""

from __future__ import annotations

import shutil
from itertools import permutations
from pathlib import Path

import pytest
from crash_support import commit
from store_support import make_map

from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.files import MANIFEST
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.nodes.generation_watch import GenerationWatch

FILES = (MANIFEST, "replay.h5", "tail.safetensors")


@pytest.fixture
def depot(tmp_path: Path) -> GenerationStore:
    """Where generation 1 was learnt."""
    depot = GenerationStore.create(tmp_path / "depot")
    for content in (b"zero" * 100, b"one" * 100):
        commit(depot, content)
    return depot


@pytest.fixture
def drone(depot: GenerationStore, tmp_path: Path) -> GenerationStore:
    """A drone that has generation 0 and a map."""
    drone = GenerationStore.create(tmp_path / "drone")
    shutil.copytree(depot.open(0).path, drone.generations_dir / "000000")
    (drone.map_dir / MANIFEST).write_text("{}")
    return drone


def watch_of(store: GenerationStore) -> GenerationWatch[str]:
    def load(path: Path, known: str | None) -> tuple[int, str]:
        newest = GenerationStore(path).newest()
        return newest.number, (newest.path / "tail.safetensors").read_text()

    watch = GenerationWatch(str(store.root), load)
    watch.load()
    return watch


@pytest.mark.parametrize("order", list(permutations(FILES)))
def test_a_generation_counts_only_when_its_last_byte_has_arrived(depot, drone, order):
    source, target = depot.open(1).path, drone.generations_dir / "000001"
    target.mkdir()
    assert drone.newest().number == 0
    for name in order:
        data = (source / name).read_bytes()
        for arrived in (0, 1, len(data) // 2, len(data) - 1):
            (target / name).write_bytes(data[:arrived])
            assert drone.newest().number == 0
        assert name == order[-1] or drone.newest().number == 0
        (target / name).write_bytes(data)
    assert drone.newest().number == 1


def test_temporary_files_of_the_copying_program_are_no_generation(depot, drone):
    shutil.copytree(depot.open(1).path, drone.generations_dir / ".000001.aX3q")
    assert drone.newest().number == 0
    target = shutil.copytree(depot.open(1).path, drone.generations_dir / "000001")
    (target / "tail.safetensors").rename(target / ".tail.safetensors.Zq81")
    assert drone.newest().number == 0


def test_a_node_that_met_half_a_generation_takes_the_whole_one_when_it_is_there(depot, drone):
    watch = watch_of(drone)
    source, target = depot.open(1).path, drone.generations_dir / "000001"
    target.mkdir()
    for name in FILES:
        assert watch.has_changed()
        watch.load()
        assert (watch.number, watch.known) == (0, "zero" * 100)
        assert not watch.has_changed(), "nothing new has arrived"
        shutil.copyfile(source / name, target / name)
    assert watch.has_changed()
    watch.load()
    assert (watch.number, watch.known) == (1, "one" * 100)
    assert not watch.has_changed()


def test_a_map_whose_files_have_not_all_arrived_is_refused(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(make_map(tmp_path), copy)
    raster = copy / "map" / "map.tif"
    raster.write_bytes(raster.read_bytes()[:-1])
    with pytest.raises(AerialVprError, match=r"map\.tif: damaged"):
        open_map(copy)
    (copy / "map" / MANIFEST).unlink()
    with pytest.raises(AerialVprError, match="manifest"):
        open_map(copy)
