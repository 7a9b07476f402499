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

// secretFile is the name of the root secret's file in the data folder.
const secretFile = "secret.key"

// minSecretBytes is the shortest root secret that is accepted: 256 bits when it is random.
const minSecretBytes = 32

// RootSecret is the one secret from which all keys derive. It prints and logs as "[secret]".
type RootSecret struct{ material []byte }

// NewRootSecret makes a root secret of the given bytes; white space around them is not part of it. Fewer than 32
// bytes are an error.
func NewRootSecret(material []byte) (*RootSecret, error) {
	trimmed := bytes.TrimSpace(material)
	if len(trimmed) < minSecretBytes {
		return nil, fmt.Errorf("root secret: %d bytes are too few, want at least %d; `openssl rand -hex 32` makes one",
			len(trimmed), minSecretBytes)
	}
	return &RootSecret{material: bytes.Clone(trimmed)}, nil
}

// ErrNoRootSecret says that there is no root secret, neither in the environment nor in the data folder.
var ErrNoRootSecret = errors.New("there is no root secret")

// LoadRootSecret returns the root secret: the value of MUSTER_SECRET_KEY, else the content of secret.key in dataDir.
// [ErrNoRootSecret] says that both are missing: whoever works beside an instance must have its secret, and never
// one of their own. A file that others than its owner can read is an error.
func LoadRootSecret(getenv func(string) string, dataDir string) (*RootSecret, error) {
	if v := getenv(SecretEnv); v != "" {
		s, err := NewRootSecret([]byte(v))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", SecretEnv, err)
		}
		return s, nil
	}
	if dataDir == "" {
		return nil, fmt.Errorf("%w: neither %s nor a data folder is set", ErrNoRootSecret, SecretEnv)
	}
	path := filepath.Join(dataDir, secretFile)
	s, err := readSecretFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is empty and %s is not there: set the variable to the instance's secret, or name the instance's data folder with --data-dir",
			ErrNoRootSecret, SecretEnv, path)
	}
	return s, err
}

// EnsureRootSecret is LoadRootSecret for whoever begins an instance: a missing secret.key is created with 32 random
// bytes (written in hexadecimal, so that the file's content can be moved to the variable). Any number of processes may
// do so at once: one creates it, all read the same.
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
// different names give independent ones. Names are constants of the program, such as "cursor-signature"; size is in
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
		return nil, fmt.Errorf("root secret: others can read %s (mode %04o): run `chmod 600` on it", path, info.Mode().Perm())
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

// createSecretFile writes to a temporary file and links it to path, which fails when path exists: so a file at path is
// always whole, and never replaced.
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
