"""Measurements within the GAN's verbs: scalars and times that stay on the device until a row is written; counted costs."""
