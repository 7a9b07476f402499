// Package aggregation defines the aggregations of a search, accumulates documents in their buckets, and renders the
// results in the shape of Elasticsearch.
//
// Package clause parses requests into [Aggregation]s. The in-memory executor adds documents to [Partial]s, merges them
// and finishes them ([Finish]); the other one reads [Value]s out of a response of OpenSearch. [Append] renders values
// of both. Results are exact, but for [Cardinality] above 40,000 values in OpenSearch. An aggregation that would exceed
// [MaxCollected] or [MaxBuckets] is rejected.
package aggregation
