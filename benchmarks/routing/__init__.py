"""The router's job, side by side: one pod answers 503, another is slow; who hides it best."""
