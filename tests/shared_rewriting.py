"""Shares the rewriting of assertions among the workers, which takes most of the first collection of a checkout.

Otherwise each worker rewrites all test modules, and all of them at the same time.
"""

import sys

import pytest
from _pytest.assertion.rewrite import (
    PYC_TAIL,
    _rewrite_test,
    _write_pyc,
    assertstate_key,
    get_cache_dir,
    try_makedirs,
)

from tests.process_modules import TESTS, is_left_out


def rewrite_share(config: pytest.Config) -> None:
    """Rewrite the modules of this worker in a run of all tests. pytest compares each result with its source later."""
    worker: dict[str, object] | None = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode or config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    number, count = int(str(worker["workerid"]).removeprefix("gw")), int(str(worker["workercount"]))
    state = config.stash[assertstate_key]
    for module in sorted(TESTS.rglob("test_*.py"))[number::count]:
        result = get_cache_dir(module) / f"{module.stem}{PYC_TAIL}"
        marks = config.option.markexpr
        if result.exists() or any(is_left_out(path, marks) for path in (module, *module.parents)):
            continue
        if try_makedirs(result.parent):
            source_hash, code = _rewrite_test(module, config)
            _write_pyc(state, code, source_hash, result)
