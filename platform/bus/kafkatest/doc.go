// Package kafkatest starts Apache Kafka itself for tests: one KRaft node on
// loopback, fetched with Maven and run with java.
//
// It needs java 17 or newer and mvn in the PATH, and a repository that mvn can
// reach the first time: afterwards the jars are in the user's cache folder.
//
//	k, err := kafkatest.Start(ctx, kafkatest.Config{})
//	defer k.Close()
//
// With Config.Secure the listener is SASL_SSL, with Config.ClientCertificates SSL on both
// sides, with certificates made for the occasion.
package kafkatest
