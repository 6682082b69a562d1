"""Studies of Optuna in a file, whose connections are closed with the context."""

from contextlib import contextmanager

import optuna
from optuna.storages import RDBStorage


@contextmanager
def study_in(storage, study_name, **new):
    """Open a study, or make it."""
    database = RDBStorage(storage)
    try:
        yield optuna.create_study(storage=database, study_name=study_name, load_if_exists=True, **new)
    finally:
        database.engine.dispose()


def trials_in(storage, study_name):
    """Return the trials of a study."""
    with study_in(storage, study_name) as study:
        return study.trials
