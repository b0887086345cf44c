"""Where the schemas of topics are from: a broker's admin API, what was saved of it beside the bucket, and what users give by hand."""
