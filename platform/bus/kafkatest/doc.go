// Package kafkatest starts Apache Kafka for tests: one KRaft node on loopback, fetched with Maven and run with java.
//
// It requires Java 17 or newer and mvn in the PATH. The first start downloads the jars into the user's cache directory.
//
//	k, err := kafkatest.Start(ctx, kafkatest.Config{})
//	defer k.Close()
//
// With Config.Secure the listener is SASL_SSL, with Config.ClientCertificates SSL with client authentication. The
// certificates are generated.
package kafkatest
