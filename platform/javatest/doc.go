// Package javatest downloads, once per machine, the Java programs that tests run alongside muster (Apache Kafka,
// OpenSearch), and captures the end of their output.
//
// It needs mvn in the PATH, and a repository that mvn can reach on the first run: afterwards everything is in the
// user's cache directory.
package javatest
