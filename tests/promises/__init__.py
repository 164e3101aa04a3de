"""The promises of the project, each on real servers, judged by the crawled site's own log."""
