"""Rows on a Dask cluster: workers add up, the coordinator alone draws noise (docs/scale.md)."""

from stillspace.rows.cluster.coordinator import ClusterRows, ClusterTable, on_cluster

__all__ = ["ClusterRows", "ClusterTable", "on_cluster"]
