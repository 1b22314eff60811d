"""What `python -m jscatter` runs. Nothing here is imported with `jscatter`."""
