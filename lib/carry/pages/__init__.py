"""Pages from results: the numbers of README.md, the papers' headlines, and the site."""
