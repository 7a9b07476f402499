// Package tlstest creates certificates for tests, for servers on loopback and their clients.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority issues certificates.
type Authority struct {
	// PEM is the authority's own certificate.
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns a new self-signed authority.
func NewAuthority() (*Authority, error) {
	a := &Authority{}
	der, key, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{
			CommonName: "authority",
		}, KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	})
	if err != nil {
		return nil, err
	}
	a.key, a.PEM = key, encode("CERTIFICATE", der)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	return a, nil
}

// Issue issues a certificate, for a server on loopback or a client, and returns it and its key in PEM.
func (a *Authority) Issue(name string) (cert, key []byte, err error) {
	der, private, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8), nil
}

// sign signs tmpl with a's key; an authority without a certificate signs itself.
func (a *Authority) sign(tmpl *x509.Certificate) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62)); err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate: %w", err)
	}
	return der, key, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Server returns the configuration of a server on loopback that requires client certificates of this authority.
func (a *Authority) Server() (*tls.Config, error) {
	cert, key, err := a.Issue("server")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12,
	}, nil
}

// Files holds the paths of a certificate, its key and the authority of the other side.
type Files struct{ CA, Cert, Key string }

// Write issues a certificate and writes it to files in dir, replacing existing ones.
func (a *Authority) Write(dir, name string) (Files, error) {
	f := Files{
		CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"),
	}
	cert, key, err := a.Issue(name)
	if err == nil {
		err = errors.Join(os.WriteFile(f.CA, a.PEM, 0o600), os.WriteFile(f.Cert, cert, 0o600),
			os.WriteFile(f.Key, key, 0o600))
	}
	if err != nil {
		return Files{}, fmt.Errorf("write certificate: %w", err)
	}
	return f, nil
}

// Env returns the variables with the given prefix that name the files.
func (f Files) Env(prefix string) map[string]string {
	return map[string]string{
		prefix + "_TLS_CA_FILE": f.CA, prefix + "_TLS_CERT_FILE": f.Cert, prefix + "_TLS_KEY_FILE": f.Key,
	}
}
