"""The benchmark's data: engagement schema, dataset builders, taxonomies."""
