"""Orders: the paper's nine, and the same rules on other missions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.benchmark.orders import NAMED_ORDERS, PAPER_FORWARD, PAPER_MISSIONS, PAPER_RANDOM_ORDERS, order
from aerial_vpr_cl.errors import SettingsError

# Appendix A of the paper, tables of exact mission sequences; "-seq" left out.
APPENDIX = {
    "forward": "JHT-02 LSZ-07 LSZ-06 TD-02 TD-07 JHT-04 LSZ-01 JHT-01 JHT-05 TD-13",
    "backward": "TD-13 JHT-05 JHT-01 LSZ-01 JHT-04 TD-07 TD-02 LSZ-06 LSZ-07 JHT-02",
    "pressure": "TD-13 JHT-02 JHT-05 LSZ-07 TD-02 LSZ-06 JHT-04 TD-07 LSZ-01 JHT-01",
    "robust": "JHT-02 TD-02 TD-13 LSZ-07 JHT-04 JHT-05 LSZ-06 TD-07 LSZ-01 JHT-01",
    "random-104729": "JHT-04 JHT-02 LSZ-01 JHT-05 LSZ-07 TD-13 LSZ-06 TD-07 JHT-01 TD-02",
    "random-130363": "TD-02 LSZ-01 JHT-01 TD-07 LSZ-07 JHT-02 JHT-04 JHT-05 LSZ-06 TD-13",
    "random-155921": "TD-13 LSZ-07 LSZ-06 JHT-04 JHT-02 TD-02 JHT-05 TD-07 LSZ-01 JHT-01",
    "random-181081": "TD-13 TD-02 LSZ-01 JHT-01 JHT-05 JHT-04 JHT-02 LSZ-06 LSZ-07 TD-07",
    "random-208367": "JHT-02 TD-13 TD-02 LSZ-01 TD-07 JHT-01 JHT-05 LSZ-07 LSZ-06 JHT-04",
}


@pytest.mark.parametrize("name", [*NAMED_ORDERS, *PAPER_RANDOM_ORDERS])
def test_the_nine_orders_are_the_paper_s(name):
    assert [mission.removesuffix("-seq") for mission in order(name, PAPER_FORWARD)] == APPENDIX[name].split()


def test_the_missions_add_up_to_the_paper_s_sums():
    sequence = [mission for mission in PAPER_MISSIONS if mission.role == "CL"]
    held_out = [mission for mission in PAPER_MISSIONS if mission.role == "Held-out"]
    assert len(sequence) == 10 and sum(mission.images for mission in sequence) == 2691
    assert {mission.name for mission in sequence} == set(PAPER_FORWARD)
    images = {kind: sum(m.images for m in held_out if m.modality == kind) for kind in ("VIS", "IR")}
    assert len(held_out) == 11 and images == {"VIS": 2146, "IR": 602}


@given(st.sampled_from([*NAMED_ORDERS, "random-0", "random-7"]), st.integers(0, 15))
def test_every_order_visits_every_mission_once_and_always_alike(name, count):
    missions = [f"mission {k}" for k in range(count)]
    arranged = order(name, missions)
    assert sorted(arranged) == sorted(missions)
    assert order(name, missions) == arranged


@pytest.mark.parametrize("count", [2, 4, 10, 12])
def test_pressure_begins_with_the_last_mission(count):
    assert order("pressure", range(count))[0] == count - 1


def test_seeds_give_different_orders():
    assert len({order(f"random-{seed}", range(8)) for seed in range(20)}) == 20


@pytest.mark.parametrize("name", ["Forward", "random", "random-x", "sideways"])
def test_an_unknown_order_is_refused_with_the_valid_names(name):
    with pytest.raises(SettingsError, match="forward, backward, pressure, robust, random-SEED"):
        order(name, PAPER_FORWARD)
