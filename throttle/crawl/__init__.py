"""What a worker does with one URL: start, fetch, discover, finish."""
