from pathlib import Path

import pytest

from triomq.errors import StoreError, StoreLocked
from triomq.store import Batch, Settle, compact

from .stores import DECLARE, append, bodies, opened


def test_what_is_settled_takes_no_room_any_more_and_the_rest_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([Batch(1, [DECLARE, append(1, b"kept"), append(2, bytes(2_000_000))])])
        store.commit([Batch(2, [Settle(1, [(2, 1)])])])
        pieces, kept = list(store.recover()), bodies(store)
    before, after = compact(tmp_path)
    assert before > 2_000_000 > 500_000 > after
    with opened(tmp_path) as store:
        assert (store.committed, list(store.recover()), bodies(store)) == (2, pieces, kept)


def test_a_store_in_use_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreLocked):
        compact(tmp_path, patience=0)


def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        compact(tmp_path)
