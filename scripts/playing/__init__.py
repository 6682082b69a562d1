"""The playground: three games with two weights, every strategy's path through them, and a ring of Gaussians being learnt."""
