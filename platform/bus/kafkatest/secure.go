package kafkatest

import (
	"crypto/tls"
	"fmt"

	"muster/platform/tlsclient"
	"muster/platform/tlsclient/tlstest"
)

// secure adds a TLS listener for clients at addr. The plain listener remains for the server itself.
func (k *Kafka) secure(props map[string]string, addr string) error {
	authority, err := tlstest.NewAuthority()
	if err != nil {
		return err
	}
	cert, key, err := authority.Issue("kafkatest")
	if err != nil {
		return err
	}
	files, err := authority.Write(k.dir, "client")
	if err != nil {
		return err
	}
	if !k.cfg.ClientCertificates {
		files.Cert, files.Key = "", ""
	}
	vars := files.Env("KAFKA")
	settings, err := tlsclient.FromEnv(func(name string) string { return vars[name] }, "KAFKA")
	if err != nil {
		return err
	}
	k.addr, k.tls = addr, &tls.Config{MinVersion: tls.VersionTLS12}
	settings.Apply(k.tls)
	props["listeners"] += ",SECURE://" + addr
	props["ssl.keystore.type"] = "PEM"
	props["ssl.keystore.certificate.chain"] = string(cert)
	props["ssl.keystore.key"] = string(key)
	if k.cfg.ClientCertificates {
		props["listener.security.protocol.map"] += ",SECURE:SSL"
		props["ssl.client.auth"] = "required"
		props["ssl.truststore.type"] = "PEM"
		props["ssl.truststore.certificates"] = string(authority.PEM)
		return nil
	}
	props["listener.security.protocol.map"] += ",SECURE:SASL_SSL"
	props["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-512"
	const scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	props["listener.name.secure.scram-sha-512.sasl.jaas.config"] = scramModule
	props["listener.name.secure.plain.sasl.jaas.config"] = fmt.Sprintf(
		`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, User, Password)
	return nil
}
