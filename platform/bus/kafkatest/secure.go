package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// secure moves clients to a SASL_SSL listener at addr; the plain one stays for the
// server itself.
func (k *Kafka) secure(props map[string]string, addr string) error {
	cert, key, err := selfSigned()
	if err != nil {
		return err
	}
	k.addr, k.caPEM = addr, cert
	props["listeners"] += ",SECURE://" + addr
	props["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-512"
	props["ssl.keystore.type"] = "PEM"
	props["ssl.keystore.certificate.chain"] = string(cert)
	props["ssl.keystore.key"] = string(key)
	props["listener.name.secure.scram-sha-512.sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	props["listener.name.secure.plain.sasl.jaas.config"] = fmt.Sprintf(
		`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, User, Password)
	return nil
}

// selfSigned makes a certificate for loopback that is its own authority.
func selfSigned() (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate: %w", err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafkatest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
