// Package javatest fetches the Java programs that tests run beside muster (Apache
// Kafka, OpenSearch) once a machine, and keeps the end of what they print.
//
// It needs mvn in the PATH, and a repository that mvn can reach the first time:
// afterwards everything is in the user's cache folder.
package javatest
