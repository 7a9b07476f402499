package service

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// SecretEnv is the environment variable that holds the root secret when no file does.
const SecretEnv = "MUSTER_SECRET_KEY"

// secretFile is the name of the root secret's file in the data directory.
const secretFile = "secret.key"

// minSecretBytes is the minimum length of a root secret: 256 bits if it is random.
const minSecretBytes = 32

// RootSecret is the secret from which all keys are derived. It prints and logs as "[secret]".
type RootSecret struct{ material []byte }

// NewRootSecret returns a root secret of the given bytes without surrounding white space. Fewer than 32 bytes are an
// error.
func NewRootSecret(material []byte) (*RootSecret, error) {
	trimmed := bytes.TrimSpace(material)
	if len(trimmed) < minSecretBytes {
		return nil, fmt.Errorf("root secret: %d bytes, want at least %d; create one with `openssl rand -hex 32`",
			len(trimmed), minSecretBytes)
	}
	return &RootSecret{material: bytes.Clone(trimmed)}, nil
}

// ErrNoRootSecret is returned when neither the environment nor the data directory has a root secret.
var ErrNoRootSecret = errors.New("no root secret")

// LoadRootSecret returns the root secret: the value of MUSTER_SECRET_KEY, else the content of secret.key in dataDir.
// If both are missing it returns [ErrNoRootSecret]: a process that joins an instance must use the instance's secret,
// never one of its own. A file that users other than its owner can read is an error.
func LoadRootSecret(getenv func(string) string, dataDir string) (*RootSecret, error) {
	if v := getenv(SecretEnv); v != "" {
		s, err := NewRootSecret([]byte(v))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", SecretEnv, err)
		}
		return s, nil
	}
	if dataDir == "" {
		return nil, fmt.Errorf("%w: neither %s nor a data directory is set", ErrNoRootSecret, SecretEnv)
	}
	path := filepath.Join(dataDir, secretFile)
	s, err := readSecretFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not set and %s does not exist: set the variable to the instance's secret, "+
			"or pass the instance's data directory with --data-dir", ErrNoRootSecret, SecretEnv, path)
	}
	return s, err
}

// EnsureRootSecret is like LoadRootSecret but creates a missing secret.key with 32 random bytes, for a process that
// starts a new instance. The bytes are written in hexadecimal, so that the file's content can be used as the variable.
// It is safe to call from several processes at once: one creates the file and all read the same secret.
func EnsureRootSecret(getenv func(string) string, dataDir string) (*RootSecret, error) {
	s, err := LoadRootSecret(getenv, dataDir)
	if !errors.Is(err, ErrNoRootSecret) || dataDir == "" {
		return s, err
	}
	path := filepath.Join(dataDir, secretFile)
	if err := createSecretFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create root secret: %w", err)
	}
	return readSecretFile(path)
}

// Key derives the key of the given name with HKDF-SHA256 (RFC 5869): the same root, name and size give the same key,
// different names give independent keys. Names are constants of the program, such as "cursor-signature"; size is in
// bytes, at most 8,160.
func (s *RootSecret) Key(name string, size int) ([]byte, error) {
	if name == "" {
		return nil, errors.New("derive key: no name")
	}
	key, err := hkdf.Key(sha256.New, s.material, nil, "muster/"+name, size)
	if err != nil {
		return nil, fmt.Errorf("derive key %s: %w", name, err)
	}
	return key, nil
}

// String hides the secret.
func (s *RootSecret) String() string { return "[secret]" }

// GoString hides the secret.
func (s *RootSecret) GoString() string { return "[secret]" }

// LogValue hides the secret.
func (s *RootSecret) LogValue() slog.Value { return slog.StringValue("[secret]") }

func readSecretFile(path string) (*RootSecret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("root secret: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("root secret: %s is readable by other users (mode %04o): run `chmod 600` on it",
			path, info.Mode().Perm())
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("root secret: %w", err)
	}
	s, err := NewRootSecret(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// createSecretFile writes a temporary file and links it to path, which fails if path exists. So a file at path is
// always complete and never replaced.
func createSecretFile(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	material := make([]byte, minSecretBytes)
	if _, err := rand.Read(material); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, secretFile+".*") // Mode 0600.
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(tmp.Name())) }()
	_, err = tmp.WriteString(hex.EncodeToString(material) + "\n")
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
