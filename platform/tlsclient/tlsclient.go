package tlsclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Settings are the authorities and the client certificate. A nil Settings has neither.
type Settings struct {
	roots       *x509.CertPool // nil: the system's
	certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

// FromEnv reads Settings from environment variables, and returns nil if none is set:
//
//	<prefix>_TLS_CA_FILE    PEM file of the authorities to trust instead of the system's
//	<prefix>_TLS_CERT_FILE  PEM file of the client certificate and any intermediate certificates
//	<prefix>_TLS_KEY_FILE   PEM file of its key, without a password; set both or neither
//
// Errors name the variables and contain nothing of the files.
func FromEnv(getenv func(string) string, prefix string) (*Settings, error) {
	caVar, certVar, keyVar := prefix+"_TLS_CA_FILE", prefix+"_TLS_CERT_FILE", prefix+"_TLS_KEY_FILE"
	caFile, certFile, keyFile := getenv(caVar), getenv(certVar), getenv(keyVar)
	if caFile == "" && certFile == "" && keyFile == "" {
		return nil, nil
	}
	if (certFile == "") != (keyFile == "") {
		return nil, fmt.Errorf("%s and %s must be set together", certVar, keyVar)
	}
	s := &Settings{}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caVar, err)
		}
		s.roots = x509.NewCertPool()
		if !s.roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in %s", caVar, caFile)
		}
	}
	if certFile != "" {
		s.certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", certVar, keyVar, err)
			}
			return &pair, nil
		}
		if _, err := s.certificate(nil); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Apply sets the authorities and the client certificate of cfg, and leaves the rest unchanged.
func (s *Settings) Apply(cfg *tls.Config) {
	if s == nil {
		return
	}
	cfg.RootCAs, cfg.GetClientCertificate = s.roots, s.certificate
}
