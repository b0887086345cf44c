"""Sources of topics' schemas: a broker's admin API, versions saved beside the bucket, and schemas that users set by hand."""
