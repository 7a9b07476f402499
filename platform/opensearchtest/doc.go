// Package opensearchtest starts OpenSearch 2.19: as a reference for search tests, as a baseline of search benchmarks, and
// as the scale-out executor in tests and for trying it (cmd/opensearch). No service uses it. It is a single node on the
// loopback interface, downloaded with Maven from pom.xml, verified against jars.sha256 and run with java.
//
// Its scores are those of rulings.md (BM25 with the factor 2.2), and it parses the same queries. combined_fields, which
// only Elasticsearch 8 has, is added by Judge.java with the Lucene query that Elasticsearch uses, unless Options.Stock is
// set.
//
// It needs java 17 or newer and mvn in the PATH, and access to a Maven repository for the first start; then the jars are
// in the user cache directory. The node ends with Close, or with the process that started it.
package opensearchtest
