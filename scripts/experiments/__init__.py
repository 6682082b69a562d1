"""The claims about update strategies, each as an experiment that returns a `Finding`."""
