// Package opensearch starts OpenSearch 2.19 itself, for tests as the judge of what a search must answer, for the bench as
// what search is measured beside. No service uses it. It is one node on loopback, fetched with Maven from pom.xml, checked against jars.sha256 and run with java.
//
// Its scores are those of rulings.md (BM25 with the factor 2.2), its queries parse the same JSON. What Elasticsearch 8 has
// beyond it, combined_fields, Judge.java adds over the query of Lucene that Elasticsearch uses.
//
// It needs java 17 or newer and mvn in the PATH, and a repository that mvn can reach the first time: afterwards the jars
// are in the user's cache folder. The node ends with Close, or with the process that
// started it.
package opensearch
