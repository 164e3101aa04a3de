"""What the children of the private service are told."""

import os
from pathlib import Path

import pytest

from throttle.ops.service import as_environment, without_settings
from throttle.settings import load


def test_children_get_exactly_the_settings_of_their_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the environment nor a throttle.toml changes what a child does."""
    given = load(
        interval=0.00125,
        follow_hosts=True,
        allow_nets=("10.0.0.0/8", "fd00::/8"),
        product="examplebot",
        contact="https://bot.example/",
        max_pages=7,
    )
    (tmp_path / "throttle.toml").write_text('on_page = "my.code:page"\nburst = 9\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THROTTLE_CONCURRENCY", "5")
    kept = without_settings(os.environ)
    assert not [name for name in kept if name.startswith("THROTTLE_")]
    for name, text in as_environment(given).items():
        monkeypatch.setenv(name, text)
    assert load() == given


def test_children_find_this_package_from_any_directory() -> None:
    """A checkout that is not installed works, and the user's own path stays behind it."""
    path = without_settings({"PYTHONPATH": "/mine"})["PYTHONPATH"].split(os.pathsep)
    assert (Path(path[0]) / "throttle" / "ops").is_dir()
    assert path[1:] == ["/mine"]
