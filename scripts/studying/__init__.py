"""The parts of the study: what is compared, run, tuned, timed, ranked and written."""
