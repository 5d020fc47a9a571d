"""Who may import whom (the contracts in pyproject.toml): kept as it stands, and broken by an import planted across each
wall."""

import os

import pytest
from conftest import ROOT
from importlinter import configuration
from importlinter.application import use_cases
from importlinter.application.app_config import settings

# Wall, importer, imported.
PLANTED = [
    ("Units are layers", "helpers.masking.masks", "helpers.multi_head.heads"),
    ("Units are layers", "helpers.engine.check", "helpers.qkv_attention.softmax"),
    ("Units are layers", "helpers.measuring.timing", "helpers.engine.observe"),
    ("References and pictures know no checks", "helpers.qkv_attention.softmax", "helpers.qkv_attention.checks.softmax"),
    ("References and pictures know no checks", "helpers.masking.plots.masks", "helpers.masking.checks.masks"),
    ("References and checks know no pictures", "helpers.masking.checks.masks", "helpers.masking.plots.masks"),
    ("What students install knows nothing", "helpers.environment", "autograder.notebooks"),
    ("What students install knows nothing", "helpers.engine.card", "nbformat"),
    ("The judge knows neither", "autograder.judge.submission", "autograder.grading.gradebook_writer"),
    ("The judge knows neither", "autograder.judge.kernel_manager", "autograder.course.visibility"),
    ("The judge knows neither", "autograder.judge.sanitize_outputs", "nbgrader"),
    ("The autograder's rooms", "autograder.course.lint", "autograder.proofs.prove"),
    ("No cycles", "helpers.engine.cases", "helpers.engine.check"),
]


@pytest.fixture(scope="module")
def contracts():
    """The options of pyproject.toml, and the graph of imports."""
    configuration.configure()
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        options = use_cases.read_user_options()
        use_cases._register_contract_types(options)
        builder = settings.GRAPH_BUILDER
        graph = builder.build(
            root_package_names=options.session_options["root_packages"],
            include_external_packages=True,
            exclude_type_checking_imports=False,
            cache_dir=None,
        )
    finally:
        os.chdir(before)
    return options, graph


def _broken(contracts, *planted: tuple[str, str]) -> set[str]:
    """The names of the contracts that don't hold when these imports are added."""
    from copy import deepcopy

    options, graph = contracts
    found = set()
    for contract_options in options.contracts_options:
        contract = use_cases.registry.get_contract_class(contract_options["type"])(
            name=contract_options["name"], session_options=options.session_options, contract_options=contract_options
        )
        changed = deepcopy(graph)
        for importer, imported in planted:
            if imported not in changed.modules:
                changed.add_module(imported, is_squashed=True)
            changed.add_import(importer=importer, imported=imported)
        if not contract.check(graph=changed, verbose=False).kept:
            found.add(contract.name)
    return found


def test_the_walls_hold(contracts):
    assert not _broken(contracts)


@pytest.mark.parametrize(("wall", "importer", "imported"), PLANTED)
def test_an_import_across_a_wall_is_found(contracts, wall, importer, imported):
    assert any(name.startswith(wall) for name in _broken(contracts, (importer, imported)))
