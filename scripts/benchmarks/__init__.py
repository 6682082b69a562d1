"""What things cost, and what each optimisation is worth, each as a benchmark that returns a `Section`."""
